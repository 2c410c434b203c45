// What LLM API proxies did, by route: the one on the gateway's listener, and those that run without a gateway.

import { html, useEffect } from "../../vendor/htm-preact.js";
import { request } from "../../control.js";
import { epoch } from "../../events.js";
import { count, duration, short } from "../../format.js";
import { refreshStatus, status } from "../../live.js";
import { useStore } from "../../store.js";
import { Table } from "../../table.js";
import { Badge, Card, useLoaded } from "../../ui.js";

/** @typedef {import("../../api.d.ts").ProxyRoute} ProxyRoute */
/** @typedef {import("../../api.d.ts").LlmProxy} LlmProxy */
/** @typedef {ProxyRoute & { name: string }} NamedRoute */

/** Requests to proxies cause no events, so the page asks. */
const REFRESH_MS = 3_000;

/** The numbers of all proxies; nothing without any. */
export function ProxyCards() {
  const own = useStore(status)?.llmProxy;
  const { value, reload } = useLoaded((signal) => request("GET /control/llm-proxies", { signal }), [useStore(epoch)]);
  const isServed = own !== undefined;
  useEffect(() => {
    const refresh = () => {
      if (document.hidden) return;
      if (isServed) void refreshStatus();
      reload();
    };
    if (isServed) void refreshStatus();
    const timer = setInterval(refresh, REFRESH_MS);
    return () => clearInterval(timer);
  }, [isServed]);
  return html`
    ${own && html`<${ProxyCard} title="LLM API proxy" origin=${location.origin} since="the gateway was started" routes=${own} />`}
    ${(value?.proxies ?? []).map(({ pid, endpoint, routes }) => html`
      <${ProxyCard} key=${pid} title=${`LLM API proxy at ${endpoint}, without a gateway`} origin=${endpoint} since=${`process ${pid} was started`} routes=${routes} />`)}`;
}

/** @param {{ title: string, origin: string, since: string, routes: Readonly<Record<string, ProxyRoute>> }} props */
function ProxyCard({ title, origin, since, routes }) {
  const used = Object.entries(routes).map(([name, route]) => ({ name, ...route })).filter((route) => route.requests > 0);
  return html`
    <${Card} title=${title} flush=${true}>
      ${used.length === 0 ? html`<p class="muted pad">No requests yet. Set the base URL of a program to <code>${origin}</code> with ${Object.keys(routes).map((name, at) => html`${at > 0 && ", "}<code>/${name === "openai" ? "openai/v1" : name}</code>`)}.</p>` : html`
        <${Table} caption=${`Routes of the ${title}`} rows=${used} rowKey=${(/** @type {NamedRoute} */ route) => route.name} columns=${COLUMNS} />
        <p class="muted small pad">Since ${since}. Tokens saved are estimates: the definitions in requests, minus those that the provider got in every round. Cache reads are what the provider reports.</p>`}
    <//>`;
}

const COLUMNS = [
  { title: "Route", kind: "head", cell: (/** @type {NamedRoute} */ route) => route.name },
  { title: "Requests", kind: "number", cell: (/** @type {NamedRoute} */ route) => count(route.requests) },
  { title: "Tools in", kind: "number", cell: (/** @type {NamedRoute} */ route) => count(route.toolsIn) },
  { title: "Tools sent", kind: "number", cell: (/** @type {NamedRoute} */ route) => count(route.toolsSent) },
  { title: "Tokens saved", kind: "number", cell: (/** @type {NamedRoute} */ route) => html`<b>${short(route.tokensSaved)}</b>` },
  { title: "Hidden rounds", kind: "number", cell: (/** @type {NamedRoute} */ route) => count(route.hiddenRounds) },
  { title: "Added per request", kind: "number", cell: (/** @type {NamedRoute} */ route) => duration(route.addedMs / route.requests) },
  { title: "Cache reads", kind: "number", cell: (/** @type {NamedRoute} */ route) => short(route.cacheReadTokens) },
  { title: "Remarks", kind: "whole", cell: (/** @type {NamedRoute} */ route) => remarks(route) },
];

/** Returns what a route did not defer, and what went wrong. @param {NamedRoute} route */
function remarks({ bypassed, failedRounds, misses, retries }) {
  const passed = Object.entries(bypassed).sort(([, first], [, second]) => second - first);
  if (passed.length === 0 && failedRounds === 0 && misses === 0 && retries === 0) return null;
  return html`<span class="row wraps">
    ${passed.map(([reason, number]) => html`<${Badge} key=${reason} title="Requests that passed unchanged for this reason">unchanged: ${count(number)} ${reason}<//>`)}
    ${misses > 0 && html`<${Badge} tone="warn" title="Requests whose hidden rounds were not known any more">${count(misses)} without history<//>`}
    ${retries > 0 && html`<${Badge} title="Requests that the provider rejected, and that were sent again in another form">${count(retries)} sent again<//>`}
    ${failedRounds > 0 && html`<${Badge} tone="bad" title="Answers that ended with an error in a hidden round">${count(failedRounds)} failed in a hidden round<//>`}
  </span>`;
}
