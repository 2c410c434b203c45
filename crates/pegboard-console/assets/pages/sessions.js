// The conversations of clients, and the tools that each of them sees.

import { html, useState } from "../vendor/htm-preact.js";
import { request } from "../control.js";
import { confirmed } from "../dialog.js";
import { epoch } from "../events.js";
import { clock, count, duration, percent, plural, short } from "../format.js";
import { countersTurn, sessionsTurn } from "../live.js";
import { href } from "../route.js";
import { useStore } from "../store.js";
import { Pairs } from "../table.js";
import { Badge, Button, Empty, Failure, Meter, PageHead, Waiting, attempt, useLoaded } from "../ui.js";
import { ToolName } from "./playground/hits.js";

/** @typedef {import("../api.d.ts").Session} Session */
/** @typedef {import("../api.d.ts").LoadedTool} LoadedTool */

export default function Sessions() {
  const { value, error, reload } = useLoaded((signal) => request("GET /control/sessions", { signal }), [useStore(sessionsTurn), useStore(countersTurn), useStore(epoch)]);
  return html`
    <div class="page">
      <${PageHead} title="Sessions" about="The conversations of clients: which tools each model sees, and what they cost it." />
      ${error && html`<${Failure} error=${error} onRetry=${reload} />`}
      ${!value ? !error && html`<div class="card"><${Waiting} /></div>` : value.sessions.length === 0
        ? html`<div class="card"><${Empty} icon="sessions" title="No sessions">Connect a client and it appears here. Clients of protocol 2026-07-28 have no sessions over HTTP.<//></div>`
        : html`<div class="stack">${value.sessions.map((session) => html`<${SessionCard} key=${session.handle} session=${session} onChange=${reload} />`)}
            ${value.total > value.sessions.length && html`<p class="muted">${count(value.total - value.sessions.length)} more sessions are not shown.</p>`}</div>`}
    </div>`;
}

/** @param {{ session: Session, onChange: () => void }} props */
function SessionCard({ session, onChange }) {
  const saved = session.tokensOfAll > 0 ? 1 - session.tokensShown / session.tokensOfAll : 0;
  return html`
    <section class="card" aria-label=${`Session ${session.handle}`}>
      <div class="head"><h2 class="wrap">${session.client || "Unknown client"}</h2><${Badge}>${session.era}<//><${Badge}>${session.transport}<//><${Badge} tone="accent">${session.dialect}<//>
        ${session.token && html`<${Badge} tone="info">token ${session.token}<//>`}
        <span class="muted small right">${session.idleMs < 10_000 ? html`<${Badge} tone="ok" dot=${true} live=${true}>active<//>` : `idle for ${duration(session.idleMs)}`}</span></div>
      <div class="body session">
        <div class="stack">
          <div class="stack tight">
            <div class="row"><span class="grow">Tools shown to the model</span><b class="num">${count(session.tokensShown)}</b><span class="muted small">of ${plural(session.tokensOfAll, "token")}</span></div>
            <${Meter} share=${1 - saved} label=${`${percent(1 - saved)} of the tokens of all tools`} />
            <span class="muted small">${percent(saved)} less than a list of all ${plural(session.tools, "tool")}</span>
          </div>
          <${Pairs} pairs=${[["Session", html`<code>${session.handle}</code>`], ["Profile", session.profile], ["Since", clock(session.since)], ["Searches", count(session.searches)], ["Calls", count(session.calls)]]} />
          <p class="small"><a href=${href(["activity"], { session: session.handle })}>Follow in activity</a></p>
        </div>
        <${Loaded} session=${session} onChange=${onChange} />
      </div>
    </section>`;
}

/** @param {{ session: Session, onChange: () => void }} props */
function Loaded({ session, onChange }) {
  const [isBusy, setBusy] = useState(false);
  const change = async (/** @type {"unload" | "keep"} */ action, /** @type {{ tools: string[], keep?: boolean }} */ body, /** @type {string} */ done) => {
    setBusy(true);
    if (await attempt(() => request(`POST /control/sessions/{handle}/${action}`, { path: { handle: session.handle }, body }), done)) onChange();
    setBusy(false);
  };
  const unload = async (/** @type {string[]} */ names) => {
    const what = names.length === 1 ? names[0] : plural(names.length, "tool");
    if (await confirmed({ title: `Unload ${what}?`, text: "The model no longer sees it in its list. A search can load it again.", action: "Unload" })) await change("unload", { tools: names }, `Unloaded ${what}`);
  };
  const loose = session.loaded.filter((tool) => !tool.isFixed).map((tool) => tool.name);
  return html`
    <div class="stack tight">
      <div class="row"><h3 class="grow">${plural(session.loaded.length, "visible tool")}</h3>
        ${session.canUnload && loose.length > 1 && html`<${Button} kind="quiet small danger" busy=${isBusy} onClick=${() => unload(loose)}>Unload all ${loose.length}<//>`}</div>
      ${session.loaded.length === 0 && html`<p class="muted small">The model has loaded no tools; it calls them through the tools of the dialect.</p>`}
      <ul class="loaded">${session.loaded.map((tool) => html`
        <li class="row" key=${tool.name}><span class="grow"><${ToolName} name=${tool.name} server=${tool.server} /></span><span class="muted small num nowrap">${short(tool.tokens)} tokens</span>
          ${tool.isFixed ? html`<${Badge} title="Visible from the start">fixed<//>` : html`
            ${session.canKeep && html`<${Button} kind="quiet small" icon="pin" busy=${isBusy} pressed=${tool.isKept} label=${`Keep ${tool.name}`}
              onClick=${() => change("keep", { tools: [tool.name], keep: !tool.isKept }, tool.isKept ? `${tool.name} can be evicted again` : `${tool.name} stays visible`)}>Keep<//>`}
            ${session.canUnload && html`<${Button} kind="quiet small danger" busy=${isBusy} label=${`Unload ${tool.name}`} onClick=${() => unload([tool.name])}>Unload<//>`}`}</li>`)}</ul>
    </div>`;
}
