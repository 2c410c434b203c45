// Tables and lists of figures.

import { html } from "./vendor/htm-preact.js";

/** @typedef {import("./vendor/htm-preact.js").Child} Child */

/**
 * @template Row
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: Row) => Child} cell
 * @property {string} [kind] Classes: `number`, `actions`, `whole`, `minor` (not on middle screens), or `head`.
 */

/**
 * A table that becomes a list of cards on small screens, unless it is small itself.
 * @template Row
 * @param {{ caption: string, isSmall?: boolean, columns: readonly Column<Row>[], rows: readonly Row[], rowKey: (row: Row) => string }} props
 */
export const Table = ({ caption, isSmall = false, columns, rows, rowKey }) => html`
  <div class="scroll-x" tabindex="0" role="region" aria-label=${caption}>
    <table class=${isSmall ? "table" : "table cards"}>
      <caption class="hidden-visually">${caption}</caption>
      <thead><tr>${columns.map((column) => html`<th scope="col" class=${column.kind ?? ""}>${column.title || html`<span class="hidden-visually">Actions</span>`}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${rowKey(row)}>${columns.map((column) =>
        column.kind === "head"
          ? html`<th scope="row">${column.cell(row)}</th>`
          : html`<td class=${column.kind ?? ""} data-label=${column.kind === "actions" ? undefined : column.title}>${column.cell(row)}</td>`)}</tr>`)}
      </tbody>
    </table>
  </div>`;

/** A list of terms and values. @param {{ pairs: readonly (readonly [string, Child])[] }} props */
export const Pairs = ({ pairs }) => html`
  <dl class="pairs">${pairs.filter(([, value]) => value != null && value !== "").map(([term, value]) => html`<dt>${term}</dt><dd>${value}</dd>`)}</dl>`;

/** Large figures with labels. @param {{ facts: readonly (readonly [string, Child, Child?])[] }} props */
export const Facts = ({ facts }) => html`
  <dl class="facts">${facts.map(([term, value, remark]) => html`<div key=${term}><dt>${term}</dt><dd>${value}${remark != null && html` <small>${remark}</small>`}</dd></div>`)}</dl>`;
