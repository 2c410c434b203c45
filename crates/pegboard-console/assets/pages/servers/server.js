// One server: figures, tools, log and settings.

import { html, useEffect, useRef, useState } from "../../vendor/htm-preact.js";
import { may, send } from "../../control.js";
import { bytes, clock, count, duration, micros, plural, short } from "../../format.js";
import { tools } from "../../live.js";
import { go, href } from "../../route.js";
import { useStore } from "../../store.js";
import { Facts, Pairs } from "../../table.js";
import { Badge, Card, Check, Code, Empty, Failure, Note, Segments, Waiting, onValue, useId } from "../../ui.js";
import { StateBadge } from "../servers.js";
import { ServerActions } from "./actions.js";
import { PinBadge, ToolView } from "./tool.js";

/** @typedef {import("../../api.d.ts").Server} Server */
/** @typedef {import("../../api.d.ts").Tool} Tool */

const LOG_LINES = 300;
const MAX_LOG_LINES = 2_000;

/** @param {{ server: Server, tool: string | null, tab: string }} props */
export function ServerView({ server, tool, tab }) {
  const tabs = [["tools", `Tools ${server.tools}`], ...(may("logs") ? [["log", "Log"]] : []), ["details", "Details"]];
  return html`
    <div class="page">
      <header class="page-head">
        <div class="grow">
          <p class="small"><a href=${href(["servers"])}>Servers</a></p>
          <div class="row wraps"><h1 class="wrap">${server.name}</h1><${StateBadge} server=${server} />
            ${server.auth.needsLogin && html`<${Badge} tone="warn">login needed<//>`}${server.held > 0 && html`<a href=${href(["approvals"])}><${Badge} tone="warn">${plural(server.held, "tool")} held<//></a>`}</div>
          <p class="wrap">${server.description}</p>
        </div>
        <${ServerActions} server=${server} />
      </header>
      ${server.reason && html`<${Note} tone=${server.state === "failed" ? "bad" : "info"}>${server.reason}${server.retryInMs != null && ` Next retry in ${duration(server.retryInMs)}.`}<//>`}
      <${Facts} facts=${[
        ["Tools", count(server.tools)],
        ["Calls", short(server.calls.total), server.calls.running > 0 ? `${server.calls.running} now` : null],
        ["Errors", short(server.calls.failed + server.toolErrors), server.calls.failed > 0 ? `${server.calls.failed} unanswered` : null],
        ["Median", micros(server.latency.p50Us)], ["P99", micros(server.latency.p99Us)],
        ...(server.memoryBytes != null ? [["Memory", bytes(server.memoryBytes)]] : []),
      ]} />
      <div><${Segments} label="Part" value=${tab} options=${tabs} onChange=${(/** @type {string} */ next) => go(["servers", server.name], { tab: next })} /></div>
      ${tab === "log" && may("logs") ? html`<${Log} server=${server.name} stderr=${server.stderr} />` : tab === "details" ? html`<${Details} server=${server} />` : html`<${Tools} server=${server.name} selected=${tool} />`}
    </div>`;
}

/** @param {{ server: Server }} props */
const Details = ({ server }) => html`
  <div class="columns">
    <${Card} title="Connection"><${Pairs} pairs=${[
      ["Transport", server.transport], ["Target", server.target && html`<code>${server.target}</code>`], ["Process", server.pid], ["Protocol", server.protocol], ["Era", server.era],
      ["State since", clock(server.since)], ["Mode", server.connections.mode], ["Own connections", server.connections.own], ["Shared connections", server.connections.shared],
      ["Asks clients", server.connections.asks ? "yes" : "no"], ["Lists from", server.isFromManifest ? "the last run" : "the server"],
    ]} /><//>
    <${Card} title="State"><${Pairs} pairs=${[
      ["Credentials", server.auth.kind], ["Logged in", server.auth.kind === "oauth" ? (server.auth.loggedIn ? "yes" : "no") : null],
      ["Circuit breaker", server.breaker.state], ["Failures in a row", server.breaker.failures], ["Next retry", server.breaker.retryInMs != null && `in ${duration(server.breaker.retryInMs)}`],
      ["Prompts", server.prompts], ["Resources", server.resources], ["Resource templates", server.templates], ["Calls running", server.calls.running], ["Calls waiting", server.calls.waiting],
      ["Last error", server.lastError && html`<span class="tone-bad">${server.lastError}</span>`],
    ]} /><//>
  </div>`;

/** @param {{ server: string, stderr: readonly string[] }} props */
function Log({ server, stderr }) {
  const [lines, setLines] = useState(/** @type {string[] | null} */ (null));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const [isFollowing, setFollowing] = useState(true);
  const view = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const abort = new AbortController();
    setError(null);
    readLog(server, isFollowing, abort.signal, (text, isFirst) => setLines((before) => [...(isFirst ? [] : before ?? []), ...text].slice(-MAX_LOG_LINES)))
      .catch((reason) => !abort.signal.aborted && setError(reason));
    return () => abort.abort();
  }, [server, isFollowing]);
  useEffect(() => {
    if (isFollowing && view.current) view.current.scrollTop = view.current.scrollHeight;
  }, [lines]);
  return html`
    <div class="stack">
      ${stderr.length > 0 && html`<${Card} title="Standard error of the process"><${Code} text=${stderr.join("\n")} label="Standard error" /><//>`}
      <${Card} title="Log of the gateway for this server" actions=${html`<${Check} label="Follow" checked=${isFollowing} onChange=${setFollowing} />`}>
        ${error ? html`<${Failure} error=${error} />` : lines === null ? html`<${Waiting} />` : lines.length === 0 ? html`<p class="muted">No lines yet.</p>`
          : html`<pre class="code log" ref=${view} tabindex="0" role="region" aria-label="Log">${lines.join("\n")}</pre>`}
      <//>
    </div>`;
}

/**
 * Reads the log, and new lines as they come if `isFollowing`.
 * @param {string} server
 * @param {boolean} isFollowing
 * @param {AbortSignal} signal
 * @param {(lines: string[], isFirst: boolean) => void} onLines
 */
async function readLog(server, isFollowing, signal, onLines) {
  const response = await send("GET /control/logs", { query: { server, lines: LOG_LINES, follow: isFollowing }, signal });
  onLines([], true);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    if (parts.length > 0) onLines(parts, false);
  }
  if (rest) onLines([rest], false);
}

/** @param {{ server: string, selected: string | null }} props */
function Tools({ server, selected }) {
  const list = useStore(tools);
  const known = list?.servers.find((one) => one.name === server);
  const [filter, setFilter] = useState("");
  const id = useId();
  if (!known) return list ? html`<div class="card"><${Empty} icon="servers" title="No tools">The server offers no tools that you can see now.<//></div>` : html`<${Waiting} />`;
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = known.tools.filter((tool) => words.every((word) => `${tool.name} ${tool.definition.description ?? ""}`.toLowerCase().includes(word)));
  const open = known.tools.find((tool) => tool.tool === selected || tool.name === selected || tool.name === `${server}___${selected}`);
  return html`
    <div class=${open ? "tools open" : "tools"}>
      <section class="card tool-index" aria-label="Tools">
        <div class="head"><label class="hidden-visually" for=${id}>Filter tools</label>
          <input class="input" id=${id} type="search" data-search placeholder="Filter tools" value=${filter} autocomplete="off" onInput=${onValue(setFilter)} /></div>
        <ul class="tool-list">${shown.map((tool) => html`<${ToolRow} key=${tool.name} server=${server} tool=${tool} isOpen=${tool === open} />`)}
          ${known.held.filter((pin) => pin.isHeld && words.every((word) => pin.tool.toLowerCase().includes(word))).map((pin) => html`
            <li key=${pin.tool}><a href=${href(["approvals"])}><span class="row"><code class="grow wrap">${pin.tool}</code><${Badge} tone="warn">held<//></span>
              <span class="muted small line">Calls are rejected until it is approved.</span></a></li>`)}
          ${shown.length === 0 && html`<li class="muted pad">No tool matches.</li>`}</ul>
      </section>
      ${open ? html`<${ToolView} key=${open.name} server=${server} tool=${open} />` : html`<div class="card hint-card"><${Empty} icon="servers" title="Choose a tool">Its schema, annotations and a form to call it are shown here.<//></div>`}
    </div>`;
}

/** @param {{ server: string, tool: Tool, isOpen: boolean }} props */
const ToolRow = ({ server, tool, isOpen }) => html`
  <li><a href=${href(["servers", server, tool.tool])} aria-current=${isOpen ? "true" : undefined}>
    <span class="row"><code class="grow wrap">${tool.tool}</code><${PinBadge} pin=${tool.pin} />${tool.calls > 0 && html`<span class="muted small num" title="Calls">${short(tool.calls)}×</span>`}</span>
    <span class="muted small line">${tool.definition.description}</span></a></li>`;
