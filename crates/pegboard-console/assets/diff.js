// Two texts, line by line.

import { html, useMemo, useState } from "./vendor/htm-preact.js";

/** @typedef {{ kind: "same" | "added" | "removed" | "skipped", text: string }} DiffLine */

/** Lines beyond which two texts are not compared line by line: the work grows with the product of both. */
const MAX_LINES = 1_500;
/** Unchanged lines that are shown around a change. */
const CONTEXT = 3;
const MARKS = { same: " ", added: "+", removed: "−", skipped: "⋯" };
const WORDS = { same: "", added: "added: ", removed: "removed: ", skipped: "" };

/** Returns the lines of two texts, those of the first that are missing before those that are new. @param {string} before @param {string} after @returns {DiffLine[]} */
export function diffLines(before, after) {
  const old = before === "" ? [] : before.split("\n");
  const now = after === "" ? [] : after.split("\n");
  const start = commonStart(old, now);
  const end = commonStart(old.slice(start).reverse(), now.slice(start).reverse());
  const same = (/** @type {readonly string[]} */ lines) => lines.map((text) => /** @type {DiffLine} */ ({ kind: "same", text }));
  const middle = compared(old.slice(start, old.length - end), now.slice(start, now.length - end));
  return [...same(now.slice(0, start)), ...middle, ...same(now.slice(now.length - end))];
}

/** @param {readonly string[]} first @param {readonly string[]} second */
function commonStart(first, second) {
  const most = Math.min(first.length, second.length);
  let count = 0;
  while (count < most && first[count] === second[count]) count += 1;
  return count;
}

/** Compares by the longest common subsequence. @param {readonly string[]} old @param {readonly string[]} now @returns {DiffLine[]} */
function compared(old, now) {
  const removed = (/** @type {readonly string[]} */ lines) => lines.map((text) => /** @type {DiffLine} */ ({ kind: "removed", text }));
  const added = (/** @type {readonly string[]} */ lines) => lines.map((text) => /** @type {DiffLine} */ ({ kind: "added", text }));
  if (old.length === 0 || now.length === 0 || old.length > MAX_LINES || now.length > MAX_LINES) return [...removed(old), ...added(now)];
  const width = now.length + 1;
  const lengths = new Uint16Array((old.length + 1) * width);
  const at = (/** @type {number} */ row, /** @type {number} */ column) => lengths[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = now.length - 1; column >= 0; column -= 1) {
      lengths[row * width + column] = old[row] === now[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  /** @type {DiffLine[]} */
  const lines = [];
  let [row, column] = [0, 0];
  while (row < old.length && column < now.length) {
    if (old[row] === now[column]) {
      lines.push({ kind: "same", text: old[row] ?? "" });
      row += 1;
      column += 1;
    } else if (at(row + 1, column) >= at(row, column + 1)) {
      lines.push({ kind: "removed", text: old[row] ?? "" });
      row += 1;
    } else {
      lines.push({ kind: "added", text: now[column] ?? "" });
      column += 1;
    }
  }
  return [...lines, ...removed(old.slice(row)), ...added(now.slice(column))];
}

/** Replaces long unchanged parts by one line. @param {readonly DiffLine[]} lines @returns {DiffLine[]} */
function shortened(lines) {
  const isNear = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.kind !== "same") isNear.fill(1, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  });
  /** @type {DiffLine[]} */
  const shown = [];
  let skipped = 0;
  lines.forEach((line, at) => {
    if (!isNear[at]) skipped += 1;
    if (skipped > 0 && (isNear[at] || at === lines.length - 1)) {
      shown.push({ kind: "skipped", text: `${skipped} unchanged ${skipped === 1 ? "line" : "lines"}` });
      skipped = 0;
    }
    if (isNear[at]) shown.push(line);
  });
  return shown;
}

/** @param {{ before: string, after: string, label: string }} props */
export function Diff({ before, after, label }) {
  const [isWhole, setWhole] = useState(false);
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  const shown = isWhole ? lines : shortened(lines);
  return html`
    <div class="stack tight">
      <div class="diff" tabindex="0" role="region" aria-label=${label}>
        ${lines.every((line) => line.kind === "same") ? html`<div class="skipped"><span></span><span>No change</span></div>`
          : shown.map((line) => html`<div class=${line.kind}><span aria-hidden="true">${MARKS[line.kind]}</span><span>
            ${WORDS[line.kind] && html`<span class="hidden-visually">${WORDS[line.kind]}</span>`}${line.text || " "}</span></div>`)}
      </div>
      ${shown.length < lines.length || isWhole ? html`<div><button type="button" class="link small" onClick=${() => setWhole(!isWhole)}>${isWhole ? "Show changes only" : "Show all lines"}</button></div>` : null}
    </div>`;
}

/** Returns JSON as lines to compare. @param {unknown} value */
export const jsonLines = (value) => (value == null ? "" : JSON.stringify(value, null, 2));
