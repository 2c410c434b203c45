// The result of one search: hits, what the model gets, and why a tool is missing.

import { html, useState } from "../../vendor/htm-preact.js";
import { micros, percent, plural, count } from "../../format.js";
import { tools } from "../../live.js";
import { useStore } from "../../store.js";
import { Badge, Card, Code, Copy, Empty, Failure, Meter, Segments, TextInput, Waiting } from "../../ui.js";
import { LaneChoice } from "./choice.js";
import { HitList, Reasons, ToolName } from "./hits.js";

/** @typedef {import("../../api.d.ts").SearchResult} SearchResult */
/** @typedef {import("./choice.js").Lane} Lane */
/** @typedef {{ expected: readonly string[], mark: (name: string) => void } | null} Marking */
/** @typedef {{ value: SearchResult | undefined, error: unknown, isLoading: boolean }} Search */

/**
 * @param {{ lane: Lane, search: Search, against?: SearchResult, whyNot: string, isComparing: boolean, marking: Marking, label: string,
 *   onLane: (lane: Lane) => void, onWhyNot: (name: string) => void }} props
 */
export function LaneView({ lane, search, against, whyNot, isComparing, marking, label, onLane, onWhyNot }) {
  const [view, setView] = useState("hits");
  const result = search.value;
  const hits = html`<${Hits} search=${search} against=${against} marking=${marking} />`;
  const reply = result && html`<${Reply} result=${result} />`;
  const question = html`<${WhyNot} name=${whyNot} result=${result} onName=${onWhyNot} />`;
  if (!isComparing) {
    return html`<div class="lane split"><div class="stack">${hits}</div><div class="stack">${reply}${question}</div></div>`;
  }
  return html`
    <section class="lane stack" aria-label=${`Search ${label}`}>
      <div class="filters"><${Badge} tone="accent">${label}<//><${LaneChoice} lane=${lane} onLane=${onLane} /></div>
      <${Segments} label=${`View of ${label}`} value=${view} options=${[["hits", "Hits"], ["reply", result ? `Model reads ${count(result.reply.tokens)} tokens` : "Model reads"], ["why", "Why not"]]} onChange=${setView} />
      ${view === "hits" ? hits : view === "reply" ? reply : question}
    </section>`;
}

/** @param {{ search: Search, against?: SearchResult, marking: Marking }} props */
function Hits({ search, against, marking }) {
  const { value: result, error, isLoading } = search;
  if (error) return html`<${Failure} error=${error} />`;
  if (!result) return html`<div class="card"><${Waiting} /></div>`;
  const isWithheld = result.hits.length === 0 && result.withheld.length > 0;
  return html`
    <section class=${isLoading ? "card hits busy" : "card hits"} aria-label="Hits" aria-busy=${String(isLoading)}>
      <${Summary} result=${result} />
      <${Remarks} result=${result} />
      ${isWithheld && html`<${HitList} hits=${result.withheld} marking=${marking} isWithheld=${true} />`}
      ${result.hits.length > 0 && html`<${HitList} hits=${result.hits} against=${against} marking=${marking} />`}
      ${result.hits.length === 0 && !isWithheld && html`<${Empty} icon="search" title="No tool matches">${`None of ${plural(result.tools, "tool")} fits these words.`}<//>`}
    </section>`;
}

/** @param {{ result: SearchResult }} props */
const Summary = ({ result }) => html`
  <div class="head"><h2>${plural(result.hits.length, "hit")}</h2>
    <span class="muted small num">${count(result.total)} of ${plural(result.tools, "tool")} match · ${result.ranker} · ${micros(result.tookUs)}</span>
    ${result.confidence != null && html`
      <span class="row small right" title="The estimated probability that the first hit is right">
        <span class="muted">Confidence</span>
        <${Meter} share=${result.confidence} label=${`Confidence ${percent(result.confidence)}`} tone=${confidenceTone(result)} />
        <b class="num">${percent(result.confidence)}</b></span>`}
  </div>`;

/** @param {SearchResult} result */
const confidenceTone = ({ confidence, withheld }) => {
  if (confidence == null) return "";
  if (withheld.length > 0) return "bad";
  return confidence < 0.4 ? "warn" : "";
};

/** @param {{ result: SearchResult }} props */
const Remarks = ({ result }) => {
  const remarks = [
    result.token && html`<span class="chip">seen as token <b>${result.token}</b></span>`,
    result.translated && html`<span class="chip">searched as <b>${result.translated}</b></span>`,
    result.fallback && html`<span class="chip">${FALLBACKS[result.fallback]}</span>`,
    ...result.unmatched.map((word) => html`<span class="chip missed" title="No visible tool contains this word">no tool has <b>${word}</b></span>`),
    result.hits.length === 0 && result.withheld.length > 0 && html`<span class="chip missed">hits withheld: the confidence is too low</span>`,
  ].filter(Boolean);
  return remarks.length > 0 ? html`<div class="remarks row wraps">${remarks}</div>` : null;
};

const FALLBACKS = { fuzzy: "fuzzy matching: the pattern matched nothing", words: "searched by words: invalid query", typo: "typos corrected" };

/** The exact text that a model gets. @param {{ result: SearchResult }} props */
function Reply({ result }) {
  const { reply, dialect } = result;
  return html`
    <${Card} title="What the model reads" label="What the model reads" actions=${html`
      <${Badge} tone=${reply.isError ? "bad" : "accent"}><span class="num">${plural(reply.tokens, "token")}</span><//><${Copy} text=${reply.text} what="text" />`}>
      <div class="stack">
        <p class="small muted wrap">Dialect <b>${dialect}</b>. The model calls <code>${reply.tool}</code> with <code>${JSON.stringify(reply.arguments)}</code>; before that it
          has read a list of ${plural(reply.listTokens, "token")}.</p>
        <${Code} text=${reply.text} label="Text for the model" />
        ${reply.loads.length > 0 && html`<p class="small wrap"><span class="muted">Loads</span> ${reply.loads.map((name) => html`<span class="chip" key=${name}>${name}</span> `)}</p>`}
      </div>
    <//>`;
}

/** Explains the rank of a tool that the user names. @param {{ name: string, result: SearchResult | undefined, onName: (name: string) => void }} props */
function WhyNot({ name, result, onName }) {
  const known = useStore(tools);
  const names = known?.servers.flatMap((server) => server.tools.map((tool) => tool.name)) ?? [];
  const answer = name.trim() === "" ? null : result?.whyNot;
  return html`
    <${Card} title="Why not this tool?">
      <div class="stack">
        <${TextInput} label="Tool" mono=${true} value=${name} list=${names} placeholder="A tool that you expected" onInput=${onName} />
        ${answer && html`
          <div class="stack tight" role="status">
            <p class="row wraps"><${ToolName} name=${answer.name} />
              ${answer.rank == null ? html`<${Badge} tone="bad">${answer.id == null ? "No such tool" : "No hit"}<//>` : html`<${Badge} tone=${answer.rank <= 3 ? "ok" : "warn"}>Rank ${answer.rank}<//>`}
              ${answer.score != null && html`<span class="muted small num">score ${answer.score.toFixed(3)}${answer.bestScore != null && ` of ${answer.bestScore.toFixed(3)}`}</span>`}</p>
            <p class="wrap">${answer.reason}</p>
            ${answer.missing.length > 0 && html`<p class="row wraps">${answer.missing.map((word) => html`<span class="chip missed" key=${word}>missing: <b>${word}</b></span>`)}</p>`}
            ${answer.matched.length > 0 && html`<${Reasons} why=${answer.matched} />`}
          </div>`}
      </div>
    <//>`;
}
