// One tool: what it says of itself, what the configuration changes, and a form to call it.

import { html, useEffect, useRef, useState } from "../../vendor/htm-preact.js";
import { may, request } from "../../control.js";
import { confirmed } from "../../dialog.js";
import { bytes, micros, plural } from "../../format.js";
import { Json, parsed } from "../../json.js";
import { href } from "../../route.js";
import { SchemaForm } from "../../schema-form.js";
import { Pairs } from "../../table.js";
import { Badge, Button, Card, Copy, Failure } from "../../ui.js";

/** @typedef {import("../../api.d.ts").Tool} Tool */
/** @typedef {import("../../api.d.ts").CallResult} CallResult */

const PINS = /** @type {const} */ ({ changed: ["warn", "changed"], new: ["info", "new"], approved: ["", ""], off: ["", ""] });

/** @param {{ pin: Tool["pin"] }} props */
export const PinBadge = ({ pin }) => {
  const [tone, text] = PINS[pin] ?? ["", ""];
  return text ? html`<${Badge} tone=${tone}>${text}<//>` : null;
};

/** @param {{ server: string, tool: Tool }} props */
export function ToolView({ server, tool }) {
  const { definition } = tool;
  return html`
    <div class="stack tool-view">
      <section class="card" aria-label="Tool">
        <div class="head"><h2 class="grow wrap"><code>${tool.tool}</code></h2><${Copy} text=${tool.name} what="name" />
          <a class="button quiet small back" href=${href(["servers", server])}>All tools</a></div>
        <div class="body stack">
          ${definition.title && html`<h3>${definition.title}</h3>`}
          <p class="wrap prose">${definition.description || "No description."}</p>
          <div class="row wraps"><${Annotations} tool=${tool} /><${PinBadge} pin=${tool.pin} />${tool.deferred && html`<${Badge}>deferred<//>`}</div>
          <${Pairs} pairs=${[
            ["Name for models", html`<code>${tool.name}</code>`], ["Definition", plural(tool.tokens, "token")], ["Calls", tool.calls], ["Approval", tool.pin === "off" ? "pinning off" : tool.pin],
            ["Renamed to", tool.renamed], ["Instructions", tool.promptInstructions], ["Overrides", tool.override && tool.override.keys.length > 0 && html`<span class="row wraps">${tool.override.keys.map((key) => html`<span class="chip" key=${key}><b>${key}</b></span>`)}</span>`],
          ]} />
          <p class="small"><a href=${href(["playground"], { q: definition.description?.split(/[.;]/, 1)[0]?.slice(0, 120) || tool.tool })}>Search for it in the playground</a> · <a href=${href(["activity"], { server, q: tool.name })}>Its calls</a></p>
        </div>
      </section>
      ${may("callTools") && html`<${CallForm} tool=${tool} />`}
      <${Card} title="Input schema"><${Json} value=${definition.inputSchema ?? {}} open=${3} /><//>
      ${definition.outputSchema && html`<${Card} title="Output schema"><${Json} value=${definition.outputSchema} open=${2} /><//>`}
    </div>`;
}

/** What the server says of the tool; a missing hint means the worst. @param {{ tool: Tool }} props */
const Annotations = ({ tool }) => {
  const hints = tool.definition.annotations ?? {};
  return [
    hints.readOnlyHint === true ? html`<${Badge} tone="ok">read-only<//>` : hints.destructiveHint === false ? html`<${Badge}>not destructive<//>` : html`<${Badge} tone="warn">may be destructive<//>`,
    hints.idempotentHint === true && html`<${Badge}>idempotent<//>`,
    hints.openWorldHint === true && html`<${Badge}>open world<//>`,
  ];
};

/** @param {{ tool: Tool }} props */
function CallForm({ tool }) {
  const [result, setResult] = useState(/** @type {CallResult | null} */ (null));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isRunning, setRunning] = useState(false);
  const running = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => running.current?.abort(), []);
  const isSafe = tool.definition.annotations?.readOnlyHint === true || tool.definition.annotations?.destructiveHint === false;
  const call = async (/** @type {Record<string, unknown>} */ args) => {
    if (!isSafe && !(await confirmed({ title: `Call ${tool.tool}?`, text: "The server does not mark this tool as safe: the call may be destructive.", action: "Call" }))) return;
    const abort = new AbortController();
    running.current = abort;
    setRunning(true);
    setError(null);
    try {
      setResult(await request("POST /control/call", { body: { name: tool.name, arguments: args }, signal: abort.signal }));
    } catch (reason) {
      setResult(null);
      setError(abort.signal.aborted ? new Error("The call was cancelled") : reason);
    }
    setRunning(false);
  };
  return html`
    <${Card} title="Call">
      <div class="stack">
        <${SchemaForm} schema=${tool.definition.inputSchema} onSubmit=${call}>
          <div class="row wraps">
            <${Button} kind="primary" icon="play" type="submit" busy=${isRunning}>Call<//>
            ${isRunning && html`<${Button} onClick=${() => running.current?.abort()}>Cancel<//>`}
            <span class="hint">The call passes the same checks as a client's.</span>
          </div>
        <//>
        ${error && html`<${Failure} error=${error} />`}
        ${result && html`<${Result} result=${result} />`}
      </div>
    <//>`;
}

/** @param {{ result: CallResult }} props */
const Result = ({ result }) => html`
  <div class="stack tight" role="status">
    <p class="row wraps"><${Badge} tone=${result.outcome === "ok" ? "ok" : "bad"}>${result.outcome}<//>
      <span class="muted small num">${micros(result.durationUs)} · ${bytes(result.bytes)}</span>
      ${result.seq != null && html`<a class="small" href=${href(["activity"], { entry: String(result.seq) })}>Open in activity</a>`}</p>
    <${ResultContent} result=${result.result} />
  </div>`;

/** The texts of a result, and the whole of it. @param {{ result: unknown }} props */
export function ResultContent({ result }) {
  const content = typeof result === "object" && result !== null && "content" in result && Array.isArray(result.content) ? result.content : [];
  const texts = content.flatMap((part) => (typeof part?.text === "string" ? [/** @type {string} */ (part.text)] : []));
  return html`
    ${texts.map((text, at) => {
      const json = parsed(text);
      return typeof json === "object" && json !== null ? html`<${Json} key=${at} value=${json} open=${3} />` : html`<pre class="code" key=${at} tabindex="0" role="region" aria-label="Text of the result">${text}</pre>`;
    })}
    ${texts.length > 0 ? html`<details><summary class="small muted">The whole result</summary><${Json} value=${result} open=${1} /></details>` : html`<${Json} value=${result} open=${3} />`}`;
}
