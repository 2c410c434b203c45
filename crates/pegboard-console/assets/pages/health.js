// What does not work, the configuration as it was read, and how clients connect.

import { html, useState } from "../vendor/htm-preact.js";
import { may, request } from "../control.js";
import { epoch } from "../events.js";
import { clock, count, duration, plural } from "../format.js";
import { configurationTurn, refreshAll } from "../live.js";
import { go, href } from "../route.js";
import { useStore } from "../store.js";
import { Facts } from "../table.js";
import { Badge, Button, Empty, Failure, PageHead, Segments, Waiting, attempt, useLoaded } from "../ui.js";
import { Clients } from "./health/clients.js";
import { ConfigurationView } from "./health/configuration.js";

/** @typedef {import("../api.d.ts").Finding} Finding */

const SEVERITIES = /** @type {const} */ ({ error: ["bad", "error"], warning: ["warn", "warning"], note: ["info", "note"] });

/** @param {{ route: import("../route.js").Route }} props */
export default function Health({ route }) {
  const tab = route.parts[0] ?? "findings";
  const tabs = [["findings", "Findings"], ["configuration", "Configuration"], ...(may("clients") ? [["clients", "Connect a client"]] : [])];
  return html`
    <div class="page">
      <${PageHead} title="Health" about="What needs your attention, the configuration in effect, and how to connect clients."><${Reload} /><//>
      <div><${Segments} label="Part" value=${tab} options=${tabs} onChange=${(/** @type {string} */ next) => go(["health", next])} /></div>
      ${tab === "configuration" ? html`<${ConfigurationView} line=${Number(route.query.get("line")) || null} />` : tab === "clients" ? html`<${Clients} />` : html`<${Findings} />`}
    </div>`;
}

function Reload() {
  const [isBusy, setBusy] = useState(false);
  const reload = async () => {
    setBusy(true);
    await attempt(() => request("POST /control/reload"), "Configuration reloaded");
    setBusy(false);
  };
  return may("configure") ? html`<${Button} icon="restart" busy=${isBusy} onClick=${reload}>Reload configuration<//>` : null;
}

function Findings() {
  const { value, error, isLoading, reload } = useLoaded((signal) => request("GET /control/health", { signal }), [useStore(configurationTurn), useStore(epoch)]);
  if (!value) return error ? html`<${Failure} error=${error} onRetry=${reload} />` : html`<div class="card"><${Waiting} /></div>`;
  const number = (/** @type {Finding["severity"]} */ severity) => value.findings.filter((finding) => finding.severity === severity).length;
  return html`
    ${error && html`<${Failure} error=${error} onRetry=${reload} />`}
    <${Facts} facts=${[["Errors", html`<span class=${number("error") > 0 ? "tone-bad" : ""}>${count(number("error"))}</span>`], ["Warnings", html`<span class=${number("warning") > 0 ? "tone-warn" : ""}>${count(number("warning"))}</span>`], ["Notes", count(number("note"))], ["Servers checked", count(value.servers.length)]]} />
    <section class="card" aria-label="Findings">
      <div class="head"><h2 class="grow">${plural(value.findings.length, "finding")}</h2><span class="muted small">checked ${clock(value.checkedAt)} in ${duration(value.tookMs)}</span><${Button} kind="small" icon="restart" busy=${isLoading} onClick=${reload}>Check again<//></div>
      ${value.findings.length === 0 ? html`<${Empty} icon="check" title="No problems found">The configuration and all servers look fine.<//>` : html`<ul>${value.findings.map((finding, at) => html`<${FindingRow} key=${`${finding.check}-${finding.server}-${at}`} finding=${finding} onDone=${reload} />`)}</ul>`}
    </section>`;
}

/** @param {{ finding: Finding, onDone: () => void }} props */
const FindingRow = ({ finding, onDone }) => {
  const [tone, text] = SEVERITIES[finding.severity] ?? ["", finding.severity];
  return html`
    <li class="finding">
      <${Badge} tone=${tone}>${text}<//>
      <div class="grow stack tight">
        <p class="wrap"><b>${finding.message}</b></p>
        ${finding.details.length > 0 && html`<pre class="code">${finding.details.join("\n")}</pre>`}
        ${finding.hint && html`<p class="wrap">${finding.hint}</p>`}
        <p class="muted small"><code>${finding.check}</code>${finding.server && html` · <a href=${href(["servers", finding.server])}>${finding.server}</a>`}</p>
      </div>
      ${finding.fix && html`<${FixButton} fix=${finding.fix} onDone=${onDone} />`}
    </li>`;
};

/** @param {{ fix: NonNullable<Finding["fix"]>, onDone: () => void }} props */
function FixButton({ fix, onDone }) {
  const [isBusy, setBusy] = useState(false);
  const { action, server, label } = fix;
  if (action === "approve") return html`<a class="button small" href=${href(["approvals"])}>${label}</a>`;
  if (action === "login") return server ? html`<a class="button small" href=${href(["servers", server])}>${label}</a>` : null;
  const run = async () => {
    setBusy(true);
    const done = await attempt(() => (action === "reload" || server === null ? request("POST /control/reload") : request(`POST /control/servers/{name}/${action}`, { path: { name: server } })), `${label}: done`);
    setBusy(false);
    if (done) {
      refreshAll();
      onDone();
    }
  };
  return html`<${Button} kind="small" busy=${isBusy} onClick=${run}>${label}<//>`;
}
