// Tokens that no model had to read, and what they would have cost.

import { html, useState } from "../vendor/htm-preact.js";
import { request } from "../control.js";
import { epoch } from "../events.js";
import { count, day, money, percent, plural, short } from "../format.js";
import { countersTurn } from "../live.js";
import { Bars } from "../plot.js";
import { useStore } from "../store.js";
import { Facts, Table } from "../table.js";
import { Card, Empty, Failure, Meter, PageHead, Segments, Select, Waiting, useLoaded } from "../ui.js";
import { ProxyCards } from "./savings/proxy.js";

/** @typedef {import("../api.d.ts").Savings} Totals */
/** @typedef {import("../api.d.ts").SavingsPart} Part */

const SPANS = /** @type {const} */ ([["7", "7 days"], ["30", "30 days"], ["90", "90 days"]]);

export default function Savings() {
  const [days, setDays] = useState("30");
  const [unit, setUnit] = useState("tokens");
  const { value, error, reload } = useLoaded((signal) => request("GET /control/savings", { query: { days: Number(days) }, signal }), [days, useStore(countersTurn), useStore(epoch)]);
  const isMoney = unit === "money" && value?.prices != null;
  return html`
    <div class="page">
      <${PageHead} title="Savings" about="Tokens of tool definitions not sent to models, thanks to search.">
        ${value?.prices && html`<${Segments} label="Unit" value=${unit} options=${[["tokens", "Tokens"], ["money", value.prices.currency]]} onChange=${setUnit} />`}
        <${Segments} label="Time" value=${days} options=${SPANS} onChange=${setDays} />
      <//>
      ${error && html`<${Failure} error=${error} onRetry=${reload} />`}
      ${!value ? !error && html`<div class="card"><${Waiting} /></div>` : value.total.lists === 0 && value.total.searches === 0
        ? html`<div class="card"><${Empty} icon="savings" title="Nothing to count yet">As soon as a client lists or searches tools, its savings appear here.<//></div><${Formula} value=${value} />`
        : html`<${Figures} value=${value} /><${Days} value=${value} isMoney=${isMoney} />
            <div class="columns"><${Parts} title="By client" parts=${value.clients} value=${value} isMoney=${isMoney} /><${Parts} title="By server" parts=${value.servers} value=${value} isMoney=${isMoney} /></div>
            <${Formula} value=${value} />`}
      <${ProxyCards} />
    </div>`;
}

/** @param {{ value: Totals }} props */
const Figures = ({ value: { total, prices } }) => html`
  <${Facts} facts=${[
    ["Net tokens saved", short(total.saved), total.tokensOfAll > 0 ? `${percent(total.saved / total.tokensOfAll)} of ${short(total.tokensOfAll)}` : null],
    ...(prices && total.money != null ? [["Money saved", money(total.money, prices.currency)]] : []),
    ["Lists sent", short(total.lists)], ["Searches", short(total.searches)], ["Calls", short(total.calls)],
  ]} />`;

/** Returns all days from the first to the last, also those without anything. @param {Totals["days"]} days */
function filled(days) {
  const known = new Map(days.map((one) => [one.date, one]));
  const dates = [...known.keys()].sort();
  const [first, last] = [dates[0], dates.at(-1)];
  if (first === undefined || last === undefined) return [];
  const all = [];
  for (let at = Date.parse(first); at <= Date.parse(last) && all.length < 400; at += 86_400_000) {
    const date = new Date(at).toISOString().slice(0, 10);
    all.push({ date, at, day: known.get(date) ?? null });
  }
  return all;
}

/** Returns the sums of a day for one client (`c` and its name) or one server (`s`); all of it without a choice. @param {Totals["days"][number] | null} one @param {string} chosen */
function partOf(one, chosen) {
  if (one === null || chosen === "") return one;
  return (chosen.startsWith("c") ? one.clients : one.servers).find((part) => part.key === chosen.slice(1)) ?? null;
}

/** @param {{ value: Totals, isMoney: boolean }} props */
function Days({ value, isMoney }) {
  const [chosen, setChosen] = useState("");
  const currency = value.prices?.currency ?? "";
  const choices = (/** @type {string} */ mark, /** @type {string} */ kind, /** @type {readonly Part[]} */ parts) => parts.map((part) => [mark + part.key, `${kind} ${part.key || "unknown"}`]);
  // The money of a server is not known: clients have different prices.
  const options = [["", "All clients and servers"], ...choices("c", "Client", value.clients), ...(isMoney ? [] : choices("s", "Server", value.servers))];
  const shown = options.some(([key]) => key === chosen) ? chosen : "";
  const bars = filled(value.days).map(({ date, at, day }) => ({ date, at, day: partOf(day, shown) })).map(({ date, at, day: one }) => {
    const saved = one?.saved ?? 0;
    const title = `${date}: ${count(saved)} of ${count(one?.tokensOfAll ?? 0)} tokens saved${one?.money != null ? `, ${money(one.money, currency)}` : ""}`;
    return isMoney ? { key: date, label: day(at), title, value: one?.money ?? 0 } : { key: date, label: day(at), title, value: saved, behind: one?.tokensOfAll ?? 0 };
  });
  return html`
    <${Card} title="By day" actions=${!isMoney && html`<span class="legend"><span><i></i>Saved</span><span><i class="pale"></i>Without Pegboard</span></span>`}>
      <div class="stack">
        <div class="filters"><${Select} label="Client or server" value=${shown} options=${options} onChange=${setChosen} /></div>
        <${Bars} label=${`Saved by day: ${plural(bars.length, "day")}${shown === "" ? `, in total ${count(value.total.saved)} tokens` : ""}`} bars=${bars} format=${isMoney ? (/** @type {number} */ amount) => amount.toFixed(2) : short} />
        <details><summary class="small muted">The same as a table</summary>
          <${Table} caption="Savings by day" rows=${[...value.days].sort((first, second) => (first.date < second.date ? 1 : -1))} rowKey=${(/** @type {{ date: string }} */ one) => one.date} columns=${[
            { title: "Day (UTC)", kind: "head", cell: (/** @type {Totals["days"][number]} */ one) => one.date }, ...sumColumns(value)]} />
        </details>
      </div>
    <//>`;
}

/** @param {Totals} value */
const sumColumns = (value) => [
  { title: "All tools", kind: "number", cell: (/** @type {Part} */ part) => count(part.tokensOfAll) },
  { title: "Lists sent", kind: "number", cell: (/** @type {Part} */ part) => count(part.tokensShown) },
  { title: "Answers", kind: "number", cell: (/** @type {Part} */ part) => count(part.tokensOfReplies) },
  { title: "Saved", kind: "number", cell: (/** @type {Part} */ part) => html`<b>${count(part.saved)}</b>` },
  ...(value.prices ? [{ title: value.prices.currency, kind: "number", cell: (/** @type {Part} */ part) => money(part.money, "").trim() }] : []),
];

/** @param {{ title: string, parts: readonly Part[], value: Totals, isMoney: boolean }} props */
function Parts({ title, parts, value, isMoney }) {
  const amount = (/** @type {Part} */ part) => (isMoney ? part.money ?? 0 : part.saved);
  const sorted = [...parts].sort((first, second) => amount(second) - amount(first));
  const most = Math.max(amount(sorted[0] ?? value.total), Number.MIN_VALUE);
  return html`
    <${Card} title=${title} flush=${true}>
      ${sorted.length === 0 ? html`<p class="muted pad">Nothing yet.</p>` : html`
        <${Table} caption=${title} isSmall=${true} rows=${sorted} rowKey=${(/** @type {Part} */ part) => part.key} columns=${[
          { title: title.slice(3, 4).toUpperCase() + title.slice(4), kind: "head", cell: (/** @type {Part} */ part) => part.key || "unknown" },
          { title: "Share", cell: (/** @type {Part} */ part) => html`<${Meter} share=${amount(part) / most} label=${percent(amount(part) / most)} />` },
          { title: "Calls", kind: "number", cell: (/** @type {Part} */ part) => short(part.calls) },
          { title: "Saved", kind: "number", cell: (/** @type {Part} */ part) => html`<b>${isMoney ? money(part.money, value.prices?.currency ?? "") : short(part.saved)}</b>` },
        ]} />`}
    <//>`;
}

/** @param {{ value: Totals }} props */
const Formula = ({ value: { formula, prices, total } }) => html`
  <${Card} title="How this is counted">
    <div class="stack tight">
      <p class="wrap">${formula}</p>
      <p class="formula num" aria-label="The formula with the sums"><span><b>${count(total.tokensOfAll)}</b> all tools</span><span>−</span><span><b>${count(total.tokensShown)}</b> lists sent</span><span>−</span><span><b>${count(total.tokensOfReplies)}</b> search answers</span><span>=</span><span class="tone-ok"><b>${count(total.saved)}</b> saved</span></p>
      ${prices ? html`<p class="muted small">Prices from the configuration: ${money(prices.perMillionTokens, prices.currency)} for a million tokens${prices.clients.map((one) => `; ${one.client} ${money(one.perMillionTokens, prices.currency)}`)}.</p>`
        : html`<p class="muted small">Set <code>pegboard.console.prices</code> in the configuration to see money.</p>`}
    </div>
  <//>`;
