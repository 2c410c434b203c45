// The servers: all of them, or one with its tools and log.

import { html, useMemo, useState } from "../vendor/htm-preact.js";
import { bytes, count, duration, micros, plural, short } from "../format.js";
import { refreshStatus, status, statusError } from "../live.js";
import { href } from "../route.js";
import { useStore } from "../store.js";
import { Facts, Table } from "../table.js";
import { Badge, Empty, Failure, PageHead, Waiting, onValue, useId } from "../ui.js";
import { ServerActions } from "./servers/actions.js";
import { ServerView } from "./servers/server.js";

/** @typedef {import("../api.d.ts").Server} Server */

/** @type {Record<Server["state"], import("../ui.js").Tone>} */
const TONES = { ready: "ok", idle: "ok", lazy: "", starting: "info", failed: "bad", stopped: "warn", disabled: "" };

/** @param {{ server: Server }} props */
export const StateBadge = ({ server }) => html`<${Badge} dot=${true} live=${server.state === "starting"} tone=${TONES[server.state] ?? ""}>${server.state}<//>`;

/** @param {{ route: import("../route.js").Route }} props */
export default function Servers({ route }) {
  const now = useStore(status);
  const error = useStore(statusError);
  const [name, tool] = route.parts;
  if (!now) return html`<div class="page"><h1>Servers</h1>${error ? html`<${Failure} error=${error} onRetry=${refreshStatus} />` : html`<${Waiting} />`}</div>`;
  const server = now.servers.find((one) => one.name === name);
  if (name === undefined) return html`<${Overview} now=${now} />`;
  if (!server) {
    return html`<div class="page"><h1>No server is named ${name}</h1><p><a href=${href(["servers"])}>All servers</a></p></div>`;
  }
  return html`<${ServerView} key=${name} server=${server} tool=${tool ?? null} tab=${route.query.get("tab") ?? "tools"} />`;
}

/** @param {{ now: import("../api.d.ts").Status }} props */
function Overview({ now }) {
  const [filter, setFilter] = useState("");
  const id = useId();
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = useMemo(() => now.servers.filter((server) => words.every((word) => `${server.name} ${server.state} ${server.description} ${server.transport}`.toLowerCase().includes(word))), [now, filter]);
  const failed = now.servers.filter((server) => server.state === "failed").length;
  return html`
    <div class="page">
      <${PageHead} title="Servers" about="The MCP servers behind this gateway, as they are now." />
      <${Facts} facts=${facts(now, failed)} />
      <section class="card" aria-label="Servers">
        <div class="head"><h2 class="grow">${plural(shown.length, "server")}</h2>
          <label class="hidden-visually" for=${id}>Filter servers</label>
          <input class="input filter" id=${id} type="search" data-search placeholder="Filter by name or state" value=${filter} autocomplete="off"
            onInput=${onValue(setFilter)} /></div>
        ${shown.length === 0 ? html`<${Empty} icon="servers" title=${now.servers.length === 0 ? "No servers" : "No server matches"}>${now.servers.length === 0 ? "Add servers to the configuration file, or import those of another client with `pegboard import`." : "Try another word."}<//>` : html`<${ServerTable} servers=${shown} />`}
      </section>
    </div>`;
}

/** @param {import("../api.d.ts").Status} now @param {number} failedServers */
function facts(now, failedServers) {
  const calls = now.servers.reduce((sum, server) => sum + server.calls.total, 0);
  const failed = now.servers.reduce((sum, server) => sum + server.calls.failed + server.toolErrors, 0);
  const memory = now.servers.reduce((sum, server) => sum + (server.memoryBytes ?? 0), now.memoryBytes ?? 0);
  return [
    ["Servers", count(now.servers.length), failedServers === 0 ? "none failed" : `${failedServers} failed`],
    ["Tools", count(now.tools)],
    ["Calls", short(calls), failed > 0 ? plural(failed, "error") : null],
    ...(now.totals ? [["Searches", short(now.totals.hits + now.totals.misses), now.totals.searchLatency.p50Us != null ? `median ${micros(now.totals.searchLatency.p50Us)}` : null]] : []),
    ["Sessions", count(now.sessions.count)],
    ...(memory > 0 ? [["Memory", bytes(memory), "with servers"]] : []),
    ["Uptime", duration(now.gateway.uptimeMs)],
  ];
}

/** @param {{ servers: readonly Server[] }} props */
const ServerTable = ({ servers }) => html`
  <${Table} caption="Servers" rows=${servers} rowKey=${(/** @type {Server} */ server) => server.name} columns=${[
    { title: "Name", kind: "head", cell: (/** @type {Server} */ server) => html`<a class="name" href=${href(["servers", server.name])}>${server.name}</a>
      <div class="muted small line">${server.description}</div>${server.reason && html`<div class=${server.state === "failed" ? "tone-bad small" : "muted small"}>${server.reason}</div>`}` },
    { title: "State", cell: (/** @type {Server} */ server) => html`<${StateBadge} server=${server} />${server.auth.needsLogin && html` <${Badge} tone="warn">login needed<//>`}` },
    { title: "Era", kind: "minor", cell: (/** @type {Server} */ server) => html`<span class="nowrap num">${server.protocol ?? server.era ?? "–"}</span>` },
    { title: "Tools", kind: "number", cell: (/** @type {Server} */ server) => html`${count(server.tools)}${server.held > 0 && html` <${Badge} tone="warn">${server.held} held<//>`}` },
    { title: "Calls", kind: "number", cell: (/** @type {Server} */ server) => html`${short(server.calls.total)}${server.calls.running > 0 && html` <span class="muted">(${server.calls.running} now)</span>`}` },
    { title: "Errors", kind: "number", cell: (/** @type {Server} */ server) => html`<span class=${server.calls.failed + server.toolErrors > 0 ? "tone-bad" : "muted"}>${short(server.calls.failed + server.toolErrors)}</span>` },
    { title: "Median", kind: "number minor", cell: (/** @type {Server} */ server) => micros(server.latency.p50Us) },
    { title: "P99", kind: "number minor", cell: (/** @type {Server} */ server) => micros(server.latency.p99Us) },
    { title: "Memory", kind: "number minor", cell: (/** @type {Server} */ server) => bytes(server.memoryBytes) },
    { title: "", kind: "actions", cell: (/** @type {Server} */ server) => html`<${ServerActions} server=${server} isSmall=${true} />` },
  ]} />`;
