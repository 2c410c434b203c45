// The keyboard shortcuts.

import { html } from "./vendor/htm-preact.js";
import { Dialog } from "./dialog.js";

/** @param {{ pages: readonly { title: string, shortcut: string }[], onClose: () => void }} props */
export function Help({ pages, onClose }) {
  const keys = [["/", "Search or filter"], ["?", "Show this list"], ["Esc", "Close a dialog"], ...pages.map((page) => [`g ${page.shortcut}`, page.title])];
  return html`
    <${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
      <dl class="pairs">${keys.map(([key, what]) => html`<dt>${key?.split(" ").map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${what}</dd>`)}</dl>
    <//>`;
}
