// One entry of the activity with its contents.

import { html } from "../../vendor/htm-preact.js";
import { request } from "../../control.js";
import { Dialog } from "../../dialog.js";
import { bytes, clock, micros, plural } from "../../format.js";
import { Json, parsed } from "../../json.js";
import { href } from "../../route.js";
import { Pairs } from "../../table.js";
import { Badge, Button, Failure, Note, Waiting, useLoaded } from "../../ui.js";
import { ToolName } from "../playground/hits.js";
import { ResultContent } from "../servers/tool.js";

/** @typedef {import("../../api.d.ts").ActivityDetail} Detail */

/** @param {{ seq: number, onClose: () => void, onSession: (session: string) => void }} props */
export function EntryDialog({ seq, onClose, onSession }) {
  const { value, error } = useLoaded((signal) => request("GET /control/activity/{seq}", { path: { seq }, signal }), [seq]);
  const session = value?.entry.session;
  return html`
    <${Dialog} title=${value ? titleOf(value) : `Entry ${seq}`} wide=${true} onClose=${onClose} foot=${html`
      ${session && html`<${Button} icon="sessions" onClick=${() => onSession(session)}>Follow this session<//>`}
      ${value?.entry.query && html`<a class="button" href=${href(["playground"], { q: value.entry.query })}>Open in the playground</a>`}
      <${Button} onClick=${onClose}>Close<//>`}>
      ${error ? html`<${Failure} error=${error} />` : !value ? html`<${Waiting} />` : html`<${Contents} detail=${value} />`}
    <//>`;
}

/** @param {Detail} detail */
const titleOf = ({ entry }) => (entry.kind === "search" ? `Search: ${entry.query}` : entry.kind === "call" ? `Call: ${entry.tool}` : "List of tools");

/** @param {{ detail: Detail }} props */
function Contents({ detail }) {
  const { entry } = detail;
  return html`
    <div class="row wraps"><${Badge} tone=${entry.outcome === "ok" ? "ok" : entry.outcome === "rejected" ? "warn" : "bad"}>${entry.outcome}<//><span class="muted small num">${clock(entry.at)} · ${micros(entry.durationUs)}</span></div>
    ${entry.error && html`<${Note} tone="bad">${entry.error}<//>`}
    <div class="columns">
      <${Pairs} pairs=${[["Client", entry.client || "unknown"], ["Source", entry.source], ["Session", entry.session && html`<code>${entry.session}</code>`], ["Token", entry.token], ["Dialect", entry.dialect], ["Server", entry.server]]} />
      <${Pairs} pairs=${[["Entry", entry.seq], ["Sent", bytes(entry.bytesIn)], ["Received", bytes(entry.bytesOut)], ["Tokens for the model", entry.tokens], ["Matching tools", entry.matches],
        ["From search", entry.search != null && html`<a href=${href(["activity"], { entry: String(entry.search) })}>${entry.search}</a>${entry.rank != null && `, hit ${entry.rank}`}`]]} />
    </div>
    ${entry.hits.length > 0 && html`<div class="stack tight"><h3>${plural(entry.hits.length, "hit")}</h3><ol class="stack tight numbered">${entry.hits.map((name) => html`<li key=${name}><${ToolName} name=${name} /></li>`)}</ol></div>`}
    ${detail.calls.length > 0 && html`<p class="small">Led to ${detail.calls.map((call, at) => html`${at > 0 && ", "}<a href=${href(["activity"], { entry: String(call) })}>call ${call}</a>`)}</p>`}
    ${!entry.hasContents && entry.kind === "call" && html`<p class="muted small">Arguments and result are not stored.</p>`}
    ${detail.arguments !== null && html`<div class="stack tight"><h3>Arguments</h3><${Json} value=${parsed(detail.arguments) ?? detail.arguments} open=${3} /></div>`}
    ${detail.result !== null && html`<div class="stack tight"><h3>Result</h3><${ResultContent} result=${parsed(detail.result) ?? detail.result} />
      ${detail.isCut && html`<p class="muted small">Truncated to the storage limit.</p>`}</div>`}`;
}
