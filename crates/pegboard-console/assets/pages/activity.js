// Searches and calls, as they happen and as they were kept.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { access, request, send } from "../control.js";
import { epoch, onEvent, runs } from "../events.js";
import { clock, count, micros, plural, short } from "../format.js";
import { status } from "../live.js";
import { href, replaceRoute } from "../route.js";
import { useStore } from "../store.js";
import { Badge, Button, Empty, Failure, PageHead, Select, Waiting, attempt, useId, useLoaded, valueOf } from "../ui.js";
import { VirtualList, useMedia } from "../virtual.js";
import { EntryDialog } from "./activity/entry.js";

/** @typedef {import("../api.d.ts").ActivityEntry} Entry */
/** @typedef {{ kind: string, server: string, session: string, client: string, outcome: string, q: string }} Filter */
/** @typedef {{ entries: Entry[], next: number | null, total: number }} Kept */

const PART = 500;
const MAX_ENTRIES = 100_000;
/** An older part that takes longer counts as failed. */
const PART_MS = 30_000;
/** Entries arrive in bursts: this often they are put into the list. */
const BURST_MS = 200;
/** After a lost connection, at most this many parts are asked for before the list begins anew. */
const MAX_PARTS_TO_CATCH_UP = 4;
/** The newest entries whose clients can be chosen. */
const MAX_NAMED = 5_000;
const FIELDS = /** @type {const} */ (["kind", "server", "session", "client", "outcome", "q"]);

/** @param {URLSearchParams} query @returns {Filter} */
const filterOf = (query) => {
  const value = (/** @type {string} */ key) => query.get(key) ?? "";
  return { kind: value("kind"), server: value("server"), session: value("session"), client: value("client"), outcome: value("outcome"), q: value("q") };
};

/** Returns the filter as the control API takes it. @param {Filter} filter */
const queryOf = (filter) => /** @type {Record<string, never>} */ (Object.fromEntries(FIELDS.map((field) => [field, filter[field] || undefined])));

/** Returns whether an entry passes a filter, as the control API decides it. @param {Entry} entry @param {Filter} filter */
export function passes(entry, { kind, server, session, client, outcome, q }) {
  const isSame = (/** @type {string} */ wanted, /** @type {string | null} */ value) => wanted === "" || wanted === value;
  const text = [entry.query, entry.tool, entry.client, entry.error, ...entry.hits].filter(Boolean).join("\n").toLowerCase();
  return isSame(kind, entry.kind) && isSame(server, entry.server) && isSame(session, entry.session) && isSame(client, entry.client)
    && isSame(outcome, entry.outcome) && (q === "" || text.includes(q.toLowerCase()));
}

/** @param {{ route: import("../route.js").Route }} props */
export default function Activity({ route }) {
  const filter = filterOf(route.query);
  const open = Number(route.query.get("entry")) || null;
  const { kept, error, isLoading, more, olderError, isPaused, setPaused, waiting, retry } = useActivity(filter);
  const isSmall = useMedia("(max-width: 719px)");
  // The oldest entries make room for those that have arrived since the gateway was asked.
  const total = Math.min(kept?.total ?? 0, useStore(access)?.activity?.entries ?? Infinity);
  const change = (/** @type {Partial<Filter> & { entry?: string }} */ changed) => replaceRoute(["activity"], { ...filter, entry: route.query.get("entry"), ...changed });
  return html`
    <div class="page activity">
      <${PageHead} title="Activity" about=${html`Searches and calls, newest first. <${Kept} />`}>
        <${Button} icon=${isPaused ? "play" : "pause"} pressed=${isPaused} onClick=${() => setPaused(!isPaused)}>${isPaused ? `Resume${waiting > 0 ? ` (${waiting} new)` : ""}` : "Pause"}<//>
        <${Exports} filter=${filter} />
      <//>
      <${Filters} filter=${filter} entries=${kept?.entries} onChange=${change} />
      ${error && html`<${Failure} error=${error} onRetry=${retry} />`}
      <section class="card feed" aria-label="Entries" aria-busy=${String(isLoading)}>
        ${!isSmall && kept && kept.entries.length > 0 && html`<div class="entry entry-head" aria-hidden="true"><span>Time</span><span>Kind</span><span>Who</span><span>What</span><span class="number">Tokens</span><span class="number">Time taken</span><span>Result</span></div>`}
        ${!kept ? (error ? null : html`<${Waiting} />`) : kept.entries.length === 0 ? html`<${Empty} icon="activity" title=${kept.total === 0 ? "Nothing yet" : "No entry matches"}>${kept.total === 0 ? "Searches and calls of clients appear here as they happen." : "Change or clear the filter."}<//>`
          : html`<${VirtualList} label="Activity" items=${kept.entries} itemKey=${(/** @type {Entry} */ entry) => entry.seq} height=${isSmall ? 64 : 38} onEnd=${olderError ? undefined : more}
              row=${(/** @type {Entry} */ entry, /** @type {number} */ at) => html`<${Row} key=${entry.seq} entry=${entry} at=${at} onOpen=${() => change({ entry: String(entry.seq) })} />`} />`}
      </section>
      ${olderError && html`<${Failure} error=${olderError} onRetry=${more} />`}
      ${kept && kept.entries.length > 0 && html`<p class="muted small num">${plural(kept.entries.length, "entry", "entries")} loaded${kept.next !== null ? "; older ones follow as you scroll" : ""} · ${count(total)} kept</p>`}
      ${open !== null && html`<${EntryDialog} key=${open} seq=${open} onSession=${(/** @type {string} */ session) => change({ session, entry: "" })} onClose=${() => change({ entry: "" })} />`}
    </div>`;
}

/** What is kept, and for how long. */
function Kept() {
  const kept = useStore(access)?.activity;
  if (!kept) return null;
  const contents = { none: "Arguments and results are not stored", memory: "Arguments and results stay in memory", disk: "Arguments and results are stored on disk" }[kept.contents];
  return html`<span>${kept.disk ? `Up to ${count(kept.entries)} entries are stored for ${plural(kept.days, "day")}` : `Up to ${count(kept.entries)} entries are stored until the gateway stops`}. ${contents}.</span>`;
}

/** @param {Filter} filter */
function useActivity(filter) {
  const key = JSON.stringify([useStore(runs), filter]);
  const turn = useStore(epoch);
  const [kept, setKept] = useState(/** @type {Kept | null} */ (null));
  const [isPaused, setPaused] = useState(false);
  const [waiting, setWaiting] = useState(0);
  const arrived = useRef(/** @type {Entry[]} */ ([]));
  const isAsking = useRef(false);
  const latest = useRef(kept);
  latest.current = kept;
  const [older, setOlder] = useState(/** @type {{ error: unknown }} */ ({ error: null }));
  const shownKey = useRef("");
  const { value, error, isLoading, reload } = useLoaded(async (signal) => ({ key, part: await catchUp(filter, kept, signal, key === shownKey.current) }), [key, turn], filter.q ? 150 : 0);
  useEffect(() => {
    if (!value) return;
    shownKey.current = value.key;
    setKept(value.part);
  }, [value]);
  useEffect(() => {
    let timer = 0;
    const flush = () => {
      timer = 0;
      if (isPaused) return setWaiting(arrived.current.length);
      const entries = arrived.current.splice(0);
      setKept((before) => before && merged(before, entries));
      return setWaiting(0);
    };
    const stop = onEvent((event) => {
      if (event.kind !== "activity" || !passes(event.entry, filter)) return;
      arrived.current.push(event.entry);
      if (arrived.current.length > MAX_ENTRIES) arrived.current.shift();
      timer ||= setTimeout(flush, BURST_MS);
    });
    if (arrived.current.length > 0) flush();
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [key, isPaused]);
  useEffect(() => {
    arrived.current = [];
    setWaiting(0);
    setOlder({ error: null });
  }, [key]);
  useEffect(() => setOlder({ error: null }), [turn]);
  const more = async () => {
    const { next, entries } = latest.current ?? { next: null, entries: [] };
    if (next === null || isAsking.current || entries.length >= MAX_ENTRIES) return;
    isAsking.current = true;
    const part = await request("GET /control/activity", { query: { ...queryOf(filter), before: next, limit: PART }, signal: AbortSignal.timeout(PART_MS) }).catch((reason) => ({ reason }));
    isAsking.current = false;
    if ("reason" in part) return setOlder({ error: part.reason });
    setKept((before) => (before?.next === next && shownKey.current === key ? { ...before, entries: [...before.entries, ...part.entries], next: part.next } : before));
    // Renders also if the part is not used, because the list asks again only when it renders.
    return setOlder({ error: null });
  };
  return { kept, error, isLoading, more, olderError: older.error, isPaused, setPaused, waiting, retry: reload };
}

/**
 * Asks for the newest entries, and for those that were missed since `kept`.
 * @param {Filter} filter
 * @param {Kept | null} kept
 * @param {AbortSignal} signal
 * @param {boolean} isSame Whether `kept` is of the same filter.
 * @returns {Promise<Kept>}
 */
async function catchUp(filter, kept, signal, isSame) {
  const ask = (/** @type {number | undefined} */ before) => request("GET /control/activity", { query: { ...queryOf(filter), before, limit: PART }, signal });
  const first = await ask(undefined);
  const fresh = { entries: [...first.entries], next: first.next, total: first.total };
  const newest = isSame ? kept?.entries[0]?.seq : undefined;
  // Numbers begin anew with a gateway that keeps no file.
  if (!kept || newest === undefined || first.newest < newest) return fresh;
  for (let parts = 1; parts < MAX_PARTS_TO_CATCH_UP && fresh.next !== null && (fresh.entries.at(-1)?.seq ?? 0) > newest; parts += 1) {
    const part = await ask(fresh.next);
    fresh.entries.push(...part.entries);
    fresh.next = part.next;
  }
  const hasGap = (fresh.entries.at(-1)?.seq ?? 0) > newest && fresh.next !== null;
  return hasGap ? fresh : { ...merged(kept, fresh.entries), total: first.total };
}

/** Returns the entries with others that are newer than all of them, each once. @param {Kept} kept @param {readonly Entry[]} entries @returns {Kept} */
function merged(kept, entries) {
  const newest = kept.entries[0]?.seq ?? 0;
  const added = entries.filter((entry) => entry.seq > newest).sort((first, second) => second.seq - first.seq);
  if (added.length === 0) return kept;
  return { ...kept, entries: [...added, ...kept.entries].slice(0, MAX_ENTRIES), total: kept.total + added.length };
}

/** @param {{ filter: Filter, entries: readonly Entry[] | undefined, onChange: (changed: Partial<Filter>) => void }} props */
function Filters({ filter, entries, onChange }) {
  const servers = useStore(status)?.servers.map((server) => server.name) ?? [];
  // A client without a session now may have entries.
  const seen = useMemo(() => new Set(entries?.slice(0, MAX_NAMED).map((entry) => entry.client)), [entries]);
  const clients = [...useStore(status)?.sessions.clients.map((client) => client.client) ?? [], ...seen];
  const id = useId();
  const names = (/** @type {readonly string[]} */ known, /** @type {string} */ chosen, /** @type {string} */ all) => [["", all], ...[...new Set([...known, chosen])].filter(Boolean).map((name) => [name, name])];
  return html`
    <div class="filters" role="search">
      <div class="field grow"><label class="label" for=${id}>Search</label>
        <input class="input" id=${id} type="search" data-search placeholder="Query, tool, client or error" value=${filter.q} autocomplete="off" onInput=${(/** @type {Event} */ event) => onChange({ q: valueOf(event) })} /></div>
      <${Select} label="Kind" value=${filter.kind} options=${[["", "All kinds"], ["search", "Searches"], ["call", "Calls"], ["list", "Lists"]]} onChange=${(/** @type {string} */ kind) => onChange({ kind })} />
      <${Select} label="Result" value=${filter.outcome} options=${[["", "All results"], ["ok", "ok"], ["error", "error (tool)"], ["failed", "failed (server)"], ["rejected", "rejected (gateway)"]]} onChange=${(/** @type {string} */ outcome) => onChange({ outcome })} />
      <${Select} label="Server" value=${filter.server} options=${names(servers, filter.server, "All servers")} onChange=${(/** @type {string} */ server) => onChange({ server })} />
      <${Select} label="Client" value=${filter.client} options=${names(clients, filter.client, "All clients")} onChange=${(/** @type {string} */ client) => onChange({ client })} />
      ${filter.session && html`<${Button} icon="close" kind="following" onClick=${() => onChange({ session: "" })}>Following session ${filter.session}<//>`}
    </div>`;
}

/** Saves the entries that match as a file. @param {Filter} filter @param {"jsonl" | "eval"} format @param {string} file */
async function download(filter, format, file) {
  const response = await send("GET /control/activity/export", { query: { ...queryOf(filter), format } });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** @param {{ filter: Filter }} props */
const Exports = ({ filter }) => html`
  <${Button} icon="download" onClick=${() => attempt(() => download(filter, "jsonl", "activity.jsonl"), "Exported as JSON Lines")}>JSON Lines<//>
  <${Button} icon="download" onClick=${() => attempt(() => download(filter, "eval", "searches.jsonl"), "Exported for pegboard eval")} title="One record file that pegboard eval reads">For eval<//>`;

const KINDS = /** @type {const} */ ({ search: ["info", "search"], call: ["accent", "call"], list: ["", "list"] });

/** @param {{ entry: Entry, at: number, onOpen: () => void }} props */
function Row({ entry, at, onOpen }) {
  const [tone, kind] = KINDS[entry.kind] ?? ["", entry.kind];
  return html`
    <div class="entry" role="row" aria-rowindex=${at + 1} onClick=${onOpen}>
      <span role="cell" class="num muted">${clock(entry.at)}</span>
      <span role="cell"><${Badge} tone=${tone}>${kind}<//></span>
      <span role="cell" class="cut">${entry.client || html`<span class="muted">${entry.source === "console" ? "console" : "unknown"}</span>`}</span>
      <span role="cell" class="cut what"><button type="button" class="plain" onClick=${(/** @type {Event} */ event) => { event.stopPropagation(); onOpen(); }}>${whatOf(entry)}</button></span>
      <span role="cell" class="number num muted">${entry.tokens > 0 ? short(entry.tokens) : ""}</span>
      <span role="cell" class="number num">${micros(entry.durationUs)}</span>
      <span role="cell">${entry.outcome === "ok" ? html`<span class="muted">ok</span>` : html`<${Badge} tone=${entry.outcome === "rejected" ? "warn" : "bad"} title=${entry.error ?? undefined}>${entry.outcome}<//>`}</span>
    </div>`;
}

/** @param {Entry} entry */
function whatOf(entry) {
  if (entry.kind === "search") {
    return html`<span class="query">${entry.query}</span><span class="muted"> ${entry.hits.length > 0 ? `→ ${entry.hits[0]}${entry.hits.length > 1 ? ` +${entry.hits.length - 1}` : ""}` : "→ no hits"}</span>`;
  }
  if (entry.kind === "list") return html`<span class="muted">listed ${plural(entry.matches ?? entry.hits.length, "tool")}</span>`;
  return html`<code>${entry.tool}</code>${entry.rank != null && html`<span class="muted"> hit ${entry.rank}</span>`}${entry.error && html`<span class="tone-bad"> ${entry.error}</span>`}`;
}
