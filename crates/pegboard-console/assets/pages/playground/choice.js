// The choice of a ranker and a dialect.

import { html } from "../../vendor/htm-preact.js";
import { access } from "../../control.js";
import { useStore } from "../../store.js";
import { Select } from "../../ui.js";

/** @typedef {{ ranker: string, dialect: string }} Lane An empty text means the configured one. */

/** The ranker and the dialect of a lane. @param {{ lane: Lane, onLane: (lane: Lane) => void }} props */
export function LaneChoice({ lane, onLane }) {
  const who = useStore(access);
  const choices = (/** @type {readonly string[]} */ names, /** @type {string | undefined} */ usual) => [["", usual ? `${usual} (configured)` : "Configured"], ...names.filter((name) => name !== usual).map((name) => [name, name])];
  return html`
    <${Select} label="Ranker" value=${lane.ranker} options=${choices(who?.rankers ?? [], who?.defaultRanker)} onChange=${(/** @type {string} */ ranker) => onLane({ ...lane, ranker })} />
    <${Select} label="Dialect" value=${lane.dialect} options=${choices(who?.dialects ?? [], who?.defaultDialect)} onChange=${(/** @type {string} */ dialect) => onLane({ ...lane, dialect })} />`;
}
