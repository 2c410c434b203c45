// The hits of a search, with the parts of their scores.

import { html, useState } from "../../vendor/htm-preact.js";
import { splitName } from "../../format.js";
import { href } from "../../route.js";
import { Badge, Button, useId } from "../../ui.js";

/** @typedef {import("../../api.d.ts").Hit} Hit */
/** @typedef {import("../../api.d.ts").Reason} Reason */
/** @typedef {import("../../api.d.ts").SearchResult} SearchResult */

/** Where a score comes from. */
const SOURCES = /** @type {const} */ ([["words", "Words"], ["meaning", "Meaning"], ["action", "Action"], ["habit", "Habits"]]);
const FIELD_LABELS = /** @type {Record<string, string>} */ ({
  parameter: "parameter", parameter_description: "parameter text", parameter_value: "parameter value", search_hint: "hint",
  prompt_instructions: "instructions", server_description: "server text", usage: "habits",
});
const MAX_CHIPS = 6;

/** @param {Reason} reason */
const sourceOf = ({ field }) => (field === "meaning" || field === "action" ? field : field === "usage" ? "habit" : "words");

/**
 * The name of a tool, its server in a quieter tone. Where `server` is not known, it is read from the name, which does not always have it.
 * @param {{ name: string, server?: string | null, link?: boolean }} props
 */
export function ToolName({ name, server = null, link = true }) {
  const [prefix, bare] = splitName(name);
  const owner = server ?? prefix;
  const text = html`${prefix && html`<span class="muted">${prefix}___</span>`}<b>${bare}</b>`;
  return link && owner ? html`<a class="tool-name" href=${href(["servers", owner, owner === prefix ? bare : name])}>${text}</a>` : html`<span class="tool-name">${text}</span>`;
}

/**
 * @param {{ hits: readonly Hit[], against?: SearchResult, marking: { expected: readonly string[], mark: (name: string) => void } | null, isWithheld?: boolean }} props
 */
export function HitList({ hits, against, marking, isWithheld = false }) {
  const best = Math.max(...hits.map((hit) => hit.score), Number.MIN_VALUE);
  const ranks = new Map(against?.hits.map((hit) => [hit.id, hit.rank]));
  return html`
    <ol class=${isWithheld ? "hit-list withheld" : "hit-list"}>
      ${hits.map((hit) => html`<${HitRow} key=${hit.id} hit=${hit} best=${best} marking=${marking}
        moved=${against ? movement(hit, ranks.get(hit.id)) : null} />`)}
    </ol>
    <div class="legend hit-legend">${SOURCES.map(([key, text]) => html`<span key=${key}><i class=${`source ${key}`}></i>${text}</span>`)}</div>`;
}

/** How the rank differs from the other lane. @param {Hit} hit @param {number | undefined} other */
function movement(hit, other) {
  if (other === undefined) return { text: "new", label: "not a hit in A", tone: "info" };
  if (other === hit.rank) return { text: "=", label: "same rank as in A", tone: "" };
  const by = Math.abs(other - hit.rank);
  return other > hit.rank ? { text: `▲ ${by}`, label: `${by} higher than in A`, tone: "ok" } : { text: `▼ ${by}`, label: `${by} lower than in A`, tone: "warn" };
}

/**
 * @param {{ hit: Hit, best: number, marking: { expected: readonly string[], mark: (name: string) => void } | null,
 *   moved: { text: string, label: string, tone: string } | null }} props
 */
function HitRow({ hit, best, marking, moved }) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const isExpected = marking?.expected.includes(hit.name) ?? false;
  return html`
    <li class="hit">
      <span class="rank num" aria-hidden="true">${hit.rank}</span>
      <div class="grow stack tight">
        <div class="row wraps hit-head">
          <${ToolName} name=${hit.name} server=${hit.server} />
          ${moved && html`<${Badge} tone=${moved.tone} title=${moved.label}><span aria-hidden="true">${moved.text}</span><span class="hidden-visually">${moved.label}</span><//>`}
          ${!hit.isInReply && html`<${Badge} title="The text for the model does not name it">not shown to the model<//>`}
          <span class="row right score"><${ScoreBar} hit=${hit} best=${best} /><b class="num">${hit.score.toFixed(3)}</b></span>
        </div>
        <p class="muted description">${hit.description}</p>
        <div class="hit-foot">
          <span class="chips row wraps">${chips(hit.why).map(([term, fields]) => html`
            <span class="chip" key=${term}><b>${term}</b>${fields}</span>`)}</span>
          <span class="row hit-actions">
          ${marking && html`<${Button} kind="quiet small" icon=${isExpected ? "check" : "bookmark"} pressed=${isExpected} title="Expected for this query, when it is saved as a case"
            label=${`Expect ${hit.name}`} onClick=${() => marking.mark(hit.name)}>Expect<//>`}
          ${hit.why.length > 0 && html`<button type="button" class="button quiet small disclosure" aria-expanded=${String(isOpen)} aria-controls=${id}
            aria-label=${`Why ${hit.name}`} onClick=${() => setOpen(!isOpen)}>Why</button>`}
          </span>
        </div>
        <div id=${id} hidden=${!isOpen}>${isOpen && html`<${Reasons} why=${hit.why} />`}</div>
      </div>
    </li>`;
}

/** Terms with the fields where they were found, the heaviest first. @param {readonly Reason[]} why @returns {[string, string][]} */
function chips(why) {
  /** @type {Map<string, string[]>} */
  const fields = new Map();
  for (const reason of why) {
    if (sourceOf(reason) !== "words" || reason.weight <= 0) continue;
    const found = fields.get(reason.term) ?? [];
    fields.set(reason.term, [...found, FIELD_LABELS[reason.field] ?? reason.field]);
  }
  return [...fields].slice(0, MAX_CHIPS).map(([term, found]) => [term, found.slice(0, 2).join(", ") + (found.length > 2 ? "…" : "")]);
}

/** The score as parts, as long as its share of the best. @param {{ hit: Hit, best: number }} props */
function ScoreBar({ hit, best }) {
  const sums = SOURCES.map(([key, text]) => ({ key, text, sum: hit.why.filter((reason) => sourceOf(reason) === key).reduce((sum, reason) => sum + reason.weight, 0) }));
  const whole = sums.reduce((sum, part) => sum + Math.max(0, part.sum), 0);
  const width = (/** @type {number} */ sum) => `${(Math.max(0, sum) / (whole || 1)) * (hit.score / best) * 100}%`;
  const label = `Score ${hit.score.toFixed(3)}: ${sums.filter((part) => part.sum > 0).map((part) => `${part.text} ${part.sum.toFixed(2)}`).join(", ")}`;
  return html`
    <span class="score-bar" role="img" aria-label=${label} title=${label}>
      ${whole > 0 ? sums.map((part) => html`<i key=${part.key} class=${`source ${part.key}`} style=${{ width: width(part.sum) }}></i>`)
        : html`<i class="source words" style=${{ width: `${(hit.score / best) * 100}%` }}></i>`}
    </span>`;
}

/** Every part of a score. @param {{ why: readonly Reason[] }} props */
export const Reasons = ({ why }) => {
  const largest = Math.max(...why.map((reason) => Math.abs(reason.weight)), Number.MIN_VALUE);
  return html`
    <table class="reasons">
      <thead><tr><th scope="col">Found</th><th scope="col">In</th><th scope="col" class="number">Part of the score</th></tr></thead>
      <tbody>${why.map((reason) => html`
        <tr><td class="wrap">${reason.term}</td><td>${FIELD_LABELS[reason.field] ?? reason.field}</td>
          <td class="number"><span class="reason-bar" aria-hidden="true"><i class=${`source ${reason.weight < 0 ? "minus" : sourceOf(reason)}`}
            style=${{ width: `${(Math.abs(reason.weight) / largest) * 100}%` }}></i></span>${reason.weight < 0 ? "−" : "+"}${Math.abs(reason.weight).toFixed(3)}</td></tr>`)}
      </tbody>
    </table>`;
};
