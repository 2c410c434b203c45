// Search as a model would, and see why.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { access, may, request } from "../control.js";
import { epoch } from "../events.js";
import { plural } from "../format.js";
import { Icon } from "../icons.js";
import { Lazy } from "../lazy.js";
import { tools } from "../live.js";
import { keptStore, useStore } from "../store.js";
import { Button, Empty, PageHead, Select, onValue, useId, useLoaded } from "../ui.js";
import { LaneChoice } from "./playground/choice.js";

/** @typedef {import("../api.d.ts").SearchResult} SearchResult */
/** @typedef {import("./playground/choice.js").Lane} Lane */
/** @typedef {{ query: string, first: Lane, second: Lane, isComparing: boolean, limit: string, token: string, whyNot: string, hasCases: boolean }} Settings */

const TYPING_MS = 120;
const LIMITS = ["5", "10", "20", "50"];
const MAX_EXAMPLES = 4;
const MAX_EXAMPLE_LENGTH = 60;

const loadLane = () => import("./playground/lane.js");
const loadCases = () => import("./playground/cases.js");

const settings = keptStore("pegboard.playground", /** @type {Settings} */ ({
  query: "", first: { ranker: "", dialect: "" }, second: { ranker: "lexical", dialect: "" }, isComparing: false, limit: "10", token: "", whyNot: "", hasCases: false,
}));

/** @param {Partial<Settings>} changed */
const change = (changed) => settings.set((before) => ({ ...before, ...changed }));

/** @param {{ route: import("../route.js").Route }} props */
export default function Playground({ route }) {
  const now = useStore(settings);
  const [expected, setExpected] = useState(/** @type {readonly string[]} */ ([]));
  const [isSaving, setSaving] = useState(false);
  const [casesTurn, setCasesTurn] = useState(0);
  const first = useSearch(now, now.first);
  const second = useSearch(now, now.isComparing ? now.second : null);
  const asked = route.query.get("q");
  useEffect(() => {
    if (asked !== null) change({ query: asked });
  }, [asked]);
  useEffect(() => setExpected([]), [now.query]);
  const mark = (/** @type {string} */ name) =>
    setExpected((before) => (before.includes(name) ? before.filter((one) => one !== name) : [...before, name]));
  const marking = may("cases") ? { expected, mark } : null;
  const isEmpty = now.query.trim() === "";
  return html`
    <div class="page playground">
      <${PageHead} title="Playground" about="Search as a model does. See what it finds, why, and the exact text that the model reads." />
      <div class="search-panel">
        <${SearchField} value=${now.query} onInput=${(/** @type {string} */ query) => change({ query })} />
        <${Options} now=${now} onSave=${may("cases") && !isEmpty ? () => setSaving(true) : null} marked=${expected.length} />
      </div>
      <${Announcement} result=${isEmpty ? undefined : first.value} />
      ${isEmpty ? html`<${Start} />` : html`
        <div class=${now.isComparing ? "lanes two" : "lanes"}>
          <${Lazy} load=${loadLane} name="LaneView" isStyled=${false} lane=${now.first} search=${first} whyNot=${now.whyNot} isComparing=${now.isComparing} marking=${marking} label=${now.isComparing ? "A" : ""}
            onLane=${(/** @type {Lane} */ lane) => change({ first: lane })} onWhyNot=${(/** @type {string} */ whyNot) => change({ whyNot })} />
          ${now.isComparing && html`
            <${Lazy} load=${loadLane} name="LaneView" isStyled=${false} lane=${now.second} search=${second} against=${first.value} whyNot=${now.whyNot} isComparing=${true} marking=${marking} label="B"
              onLane=${(/** @type {Lane} */ lane) => change({ second: lane })} onWhyNot=${(/** @type {string} */ whyNot) => change({ whyNot })} />`}
        </div>`}
      ${may("cases") && !now.hasCases && html`<div><${Button} icon="bookmark" onClick=${() => change({ hasCases: true })}>Show saved cases<//></div>`}
      ${may("cases") && now.hasCases && html`<${Lazy} load=${loadCases} name="Cases" onHide=${() => change({ hasCases: false })} turn=${casesTurn} onTry=${(/** @type {string} */ query) => { change({ query }); scrollTo({ top: 0 }); }} />`}
      ${isSaving && html`
        <${Lazy} load=${loadCases} name="CaseDialog" wait=${null} query=${now.query.trim()} expected=${expected.length > 0 ? expected : (first.value?.hits ?? []).slice(0, 1).map((hit) => hit.name)}
          onClose=${() => setSaving(false)} onSaved=${() => { setSaving(false); setExpected([]); setCasesTurn(casesTurn + 1); change({ hasCases: true }); }} />`}
    </div>`;
}

/**
 * Searches a moment after the last key, and gives up a search that another replaces.
 * @param {Settings} now
 * @param {Lane | null} lane
 */
function useSearch(now, lane) {
  const query = now.query.trim();
  const turn = useStore(epoch);
  const known = useStore(tools);
  return useLoaded(async (signal) => {
    if (lane === null || query === "") return undefined;
    const body = {
      query, explain: true, limit: Number(now.limit),
      ranker: lane.ranker || null, dialect: lane.dialect || null, token: now.token || null, whyNot: now.whyNot.trim() || null,
    };
    return request("POST /control/search", { body, signal });
  }, [query, lane?.ranker, lane?.dialect, now.limit, now.token, now.whyNot, turn, known], TYPING_MS);
}

/** @param {{ value: string, onInput: (value: string) => void }} props */
function SearchField({ value, onInput }) {
  const id = useId();
  return html`
    <div class="big-search" role="search">
      <label class="hidden-visually" for=${id}>Search query</label>
      <${Icon} name="search" />
      <input id=${id} type="search" data-search value=${value} placeholder="What does the model want to do?" autocomplete="off" autocapitalize="off"
        spellcheck="false" maxlength="16384" autofocus onInput=${onValue(onInput)} />
      <kbd aria-hidden="true">/</kbd>
    </div>`;
}

/** @param {{ now: Settings, marked: number, onSave: (() => void) | null }} props */
function Options({ now, marked, onSave }) {
  const who = useStore(access);
  const tokens = who?.may?.searchAs ? who.tokens ?? [] : [];
  return html`
    <div class="filters">
      ${!now.isComparing && html`<${LaneChoice} lane=${now.first} onLane=${(/** @type {Lane} */ first) => change({ first })} />`}
      ${tokens.length > 0 && html`<${Select} label="See as" value=${now.token} options=${[["", "Everything"], ...tokens.map((name) => [name, `Token ${name}`])]}
        onChange=${(/** @type {string} */ token) => change({ token })} />`}
      <${Select} label="Hits" value=${now.limit} options=${LIMITS} onChange=${(/** @type {string} */ limit) => change({ limit })} />
      <div class="row right">
        <${Button} icon="compare" pressed=${now.isComparing} onClick=${() => change({ isComparing: !now.isComparing })}>Compare<//>
        ${onSave && html`<${Button} icon="bookmark" onClick=${onSave}>Save as case${marked > 0 ? ` (${marked})` : ""}<//>`}
      </div>
    </div>`;
}

/** Says the result to screen readers. @param {{ result: SearchResult | undefined }} props */
const Announcement = ({ result }) => html`
  <p class="hidden-visually" role="status" aria-live="polite">${result && (result.hits.length === 0
    ? `No hits for ${result.query}` : `${plural(result.hits.length, "hit")} for ${result.query}. First: ${result.hits[0]?.name}`)}</p>`;

/** Returns what some of the tools do, as queries. @param {import("../api.d.ts").ToolList | null} known */
function examplesFrom(known) {
  const firsts = known?.servers.flatMap(({ tools: [, second, third] }) => (third ?? second)?.definition.description ?? []) ?? [];
  const texts = firsts.map((text) => text.split(/[.,;:(\n]/, 1)[0]?.trim() ?? "").filter((text) => text.includes(" ") && text.length <= MAX_EXAMPLE_LENGTH);
  const step = Math.max(1, Math.floor(texts.length / MAX_EXAMPLES));
  return [...new Set(texts.filter((_, at) => at % step === 0))].slice(0, MAX_EXAMPLES).map((text) => text.charAt(0).toLowerCase() + text.slice(1));
}

function Start() {
  const known = useStore(tools);
  const total = known?.servers.reduce((sum, server) => sum + server.tools.length, 0) ?? 0;
  return html`
    <div class="card"><${Empty} icon="search" title=${known ? `Search ${plural(total, "tool")} of ${plural(known.servers.length, "server")}` : "Search your tools"}>
      Type what a model would ask for, in any language.
      <span class="examples">${examplesFrom(known).map((example) => html`<${Button} kind="small" key=${example} onClick=${() => change({ query: example })}>${example}<//>`)}</span>
    <//></div>`;
}
