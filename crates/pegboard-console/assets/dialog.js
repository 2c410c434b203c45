// Dialogs over the page, and questions before actions that destroy something.

import { html, render, useLayoutEffect, useRef } from "./vendor/htm-preact.js";
import { Button, useId } from "./ui.js";

/** @typedef {import("./vendor/htm-preact.js").Child} Child */

/**
 * A dialog over the page; Escape and the close button call `onClose`.
 * @param {{ title: string, wide?: boolean, onClose: () => void, children?: Child, foot?: Child }} props
 */
export function Dialog({ title, wide = false, onClose, children, foot }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current?.showModal();
    return () => {
      element.current?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return html`
    <dialog ref=${element} class=${wide ? "wide" : ""} aria-labelledby=${id}
      onCancel=${(/** @type {Event} */ event) => { event.preventDefault(); onClose(); }}>
      <div class="head"><h2 class="grow" id=${id}>${title}</h2><${Button} kind="quiet small" icon="close" label="Close" onClick=${onClose} /></div>
      <div class="body">${children}</div>
      ${foot && html`<div class="foot">${foot}</div>`}
    </dialog>`;
}

/** @typedef {{ title: string, text: Child, action: string, danger?: boolean }} Question */

/** Asks before an action; resolves to whether the user agrees. @param {Question} question @returns {Promise<boolean>} */
export function confirmed({ title, text, action, danger = true }) {
  const host = document.body.appendChild(document.createElement("div"));
  return new Promise((resolve) => {
    const settle = (/** @type {boolean} */ yes) => {
      render(null, host);
      host.remove();
      resolve(yes);
    };
    render(html`
      <${Dialog} title=${title} onClose=${() => settle(false)} foot=${html`
        <${Button} onClick=${() => settle(false)}>Cancel<//>
        <${Button} kind=${danger ? "danger primary" : "primary"} onClick=${() => settle(true)}>${action}<//>`}><p>${text}</p><//>`, host);
  });
}
