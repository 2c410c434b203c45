// Labelled queries, and how well each ranker does on them.

import { html, useEffect, useState } from "../../vendor/htm-preact.js";
import { request } from "../../control.js";
import { Dialog, confirmed } from "../../dialog.js";
import { micros, percent, plural } from "../../format.js";
import { tools } from "../../live.js";
import { useStore } from "../../store.js";
import { Table } from "../../table.js";
import { Badge, Button, Card, Empty, Failure, TextInput, Waiting, attempt, useLoaded } from "../../ui.js";
import { ToolName } from "./hits.js";

/** @typedef {import("../../api.d.ts").Cases} CaseList */
/** @typedef {import("../../api.d.ts").Case} Case */

/** @param {{ turn: number, onTry: (query: string) => void, onHide: () => void }} props */
export function Cases({ turn, onTry, onHide }) {
  const { value, error, isLoading, reload } = useLoaded((signal) => request("GET /control/cases", { signal }), [turn]);
  const remove = async (/** @type {Case} */ one) => {
    if (!(await confirmed({ title: "Delete this case?", text: one.query, action: "Delete" }))) return;
    if (await attempt(() => request("DELETE /control/cases/{id}", { path: { id: one.id } }), "Case deleted")) reload();
  };
  return html`
    <${Card} title="Saved cases" flush=${true} actions=${html`
      <span class="muted small">Queries with the tools that they should find</span>
      <${Button} kind="small" icon="restart" busy=${isLoading} onClick=${reload}>Run<//>
      <${Button} kind="quiet small" onClick=${onHide}>Hide<//>`}>
      ${error ? html`<${Failure} error=${error} onRetry=${reload} />` : !value ? html`<${Waiting} />`
        : value.cases.length === 0 ? html`<${Empty} icon="bookmark" title="No cases yet">Search, mark the tools that should be found, and save the query as a case. Then you see the recall of every ranker here.<//>`
        : html`<${Scores} cases=${value} /><${CaseTable} cases=${value} onTry=${onTry} onDelete=${remove} />`}
    <//>`;
}

/** @param {{ cases: CaseList }} props */
const Scores = ({ cases }) => html`
  <${Table} caption="Recall of each ranker on the saved cases" rowKey=${(/** @type {{ ranker: string }} */ score) => score.ranker} rows=${cases.scores} columns=${[
    { title: "Ranker", kind: "head", cell: (/** @type {CaseList["scores"][number]} */ score) => score.ranker },
    { title: "Recall at 1", kind: "number", cell: (/** @type {CaseList["scores"][number]} */ score) => percent(score.recallAt1) },
    { title: "At 5", kind: "number", cell: (/** @type {CaseList["scores"][number]} */ score) => percent(score.recallAt5) },
    { title: "At 10", kind: "number", cell: (/** @type {CaseList["scores"][number]} */ score) => percent(score.recallAt10) },
    { title: "Mean reciprocal rank", kind: "number", cell: (/** @type {CaseList["scores"][number]} */ score) => score.mrr?.toFixed(3) ?? "–" },
    { title: "Time", kind: "number", cell: (/** @type {CaseList["scores"][number]} */ score) => micros(score.tookUs) },
  ]} />`;

/** @param {{ cases: CaseList, onTry: (query: string) => void, onDelete: (one: Case) => void }} props */
function CaseTable({ cases, onTry, onDelete }) {
  const results = new Map(cases.results.map((result) => [result.id, result]));
  const rankers = cases.scores.map((score) => score.ranker);
  return html`
    <${Table} caption="Saved cases" rowKey=${(/** @type {Case} */ one) => one.id} rows=${cases.cases} columns=${[
      { title: "Query", kind: "head", cell: (/** @type {Case} */ one) => html`<button type="button" class="link" onClick=${() => onTry(one.query)}>${one.query}</button>${one.note && html`<div class="muted small">${one.note}</div>`}` },
      { title: "Expected", kind: "whole", cell: (/** @type {Case} */ one) => html`<span class="stack tight">${one.expected.map((name) => html`<${ToolName} key=${name} name=${name} />`)}
        ${(results.get(one.id)?.missing ?? []).length > 0 && html`<span class="tone-warn small">Tool no longer exists: ${results.get(one.id)?.missing.join(", ")}</span>`}</span>` },
      { title: "Rank by ranker", kind: "whole", cell: (/** @type {Case} */ one) => html`<span class="row wraps">${rankers.map((ranker) => html`<${RankBadge} key=${ranker} ranker=${ranker} rank=${results.get(one.id)?.ranks.find((rank) => rank.ranker === ranker)?.rank ?? null} />`)}</span>` },
      { title: "", kind: "actions", cell: (/** @type {Case} */ one) => html`<${Button} kind="quiet small danger" label=${`Delete the case ${one.query}`} onClick=${() => onDelete(one)}>Delete<//>` },
    ]} />`;
}

/** @param {{ ranker: string, rank: number | null }} props */
const RankBadge = ({ ranker, rank }) => html`<${Badge} tone=${rank === 1 ? "ok" : rank === null ? "bad" : rank <= 5 ? "" : "warn"}>${ranker} ${rank === null ? "none" : `#${rank}`}<//>`;

/** Asks for the tools that a query should find. @param {{ query: string, expected: readonly string[], onClose: () => void, onSaved: () => void }} props */
export function CaseDialog({ query, expected, onClose, onSaved }) {
  const [text, setText] = useState(query);
  const [names, setNames] = useState(expected);
  const [next, setNext] = useState("");
  const [note, setNote] = useState("");
  const known = useStore(tools)?.servers.flatMap((server) => server.tools.map((tool) => tool.name)) ?? [];
  useEffect(() => {
    if (!known.includes(next)) return;
    setNames((before) => (before.includes(next) ? before : [...before, next]));
    setNext("");
  }, [next]);
  const save = async () => {
    const body = { query: text.trim(), expected: names, note: note.trim() };
    if (await attempt(() => request("POST /control/cases", { body }), `Saved with ${plural(names.length, "expected tool")}`)) onSaved();
  };
  return html`
    <${Dialog} title="Save as a case" onClose=${onClose} foot=${html`
      <${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" disabled=${names.length === 0 || text.trim() === ""} onClick=${save}>Save<//>`}>
      <${TextInput} label="Query" value=${text} onInput=${setText} />
      <div class="stack tight"><h3>Tools that it should find</h3>
        ${names.length === 0 && html`<p class="muted small">None yet. A case needs at least one.</p>`}
        <ul class="stack tight">${names.map((name) => html`<li class="row" key=${name}><${ToolName} name=${name} link=${false} />
          <${Button} kind="quiet small" icon="close" label=${`Remove ${name}`} onClick=${() => setNames(names.filter((one) => one !== name))} /></li>`)}</ul>
        <${TextInput} label="Add a tool" mono=${true} value=${next} list=${known} onInput=${setNext} />
      </div>
      <${TextInput} label="Note" value=${note} onInput=${setNote} />
    <//>`;
}
