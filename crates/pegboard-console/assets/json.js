// JSON as a tree that opens and closes.

import { html, useState } from "./vendor/htm-preact.js";

/** Entries of one object or array that are shown at once. */
const MAX_ENTRIES = 200;

/** @param {{ value: unknown, name?: string, depth?: number, open?: number }} props */
export function Json({ value, name, depth = 0, open = 2 }) {
  const label = name !== undefined && html`<span class="key">${name}</span>`;
  if (value === null || typeof value !== "object") return html`<div class=${depth === 0 ? "json code" : "leaf"}>${label}${label && ": "}<${Scalar} value=${value} /></div>`;
  const tree = html`<${Branch} value=${value} label=${label} depth=${depth} open=${open} />`;
  return depth === 0 ? html`<div class="json code" tabindex="0" role="region" aria-label="JSON">${tree}</div>` : tree;
}

/** @param {{ value: object, label: unknown, depth: number, open: number }} props */
function Branch({ value, label, depth, open }) {
  const [isOpen, setOpen] = useState(depth < open);
  const [most, setMost] = useState(MAX_ENTRIES);
  const isArray = Array.isArray(value);
  const entries = Object.entries(value);
  if (entries.length === 0) return html`<div class="leaf">${label}${label && ": "}<span class="muted">${isArray ? "[]" : "{}"}</span></div>`;
  return html`
    <details open=${isOpen} onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}>
      <summary>${label}${label && " "}<span class="muted">${isArray ? `[${entries.length}]` : `{${entries.length}}`}</span></summary>
      ${isOpen && html`<ul>${entries.slice(0, most).map(([key, entry]) => html`<li key=${key}><${Json} value=${entry} name=${key} depth=${depth + 1} open=${open} /></li>`)}
        ${entries.length > most && html`<li><button type="button" class="link" onClick=${() => setMost(most + MAX_ENTRIES)}>${entries.length - most} more</button></li>`}</ul>`}
    </details>`;
}

/** @param {{ value: unknown }} props */
const Scalar = ({ value }) => {
  const kind = typeof value === "string" ? "string" : typeof value === "number" ? "number" : "word";
  return html`<span class=${kind}>${JSON.stringify(value) ?? "undefined"}</span>`;
};

/** Returns the value of a JSON text, or undefined. @param {string} text @returns {unknown} */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
