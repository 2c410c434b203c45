// The configuration file and the settings in effect, with their places in the file.

import { html, useEffect, useRef, useState } from "../../vendor/htm-preact.js";
import { request } from "../../control.js";
import { epoch } from "../../events.js";
import { configurationTurn } from "../../live.js";
import { replaceRoute } from "../../route.js";
import { useStore } from "../../store.js";
import { Badge, Card, Check, Empty, Failure, Note, Waiting, onValue, useId, useLoaded } from "../../ui.js";

/** @typedef {import("../../api.d.ts").Configuration} Configuration */
/** @typedef {import("../../api.d.ts").Setting} Setting */

/** @param {{ line: number | null }} props */
export function ConfigurationView({ line }) {
  const { value, error, reload } = useLoaded((signal) => request("GET /control/configuration", { signal }), [useStore(configurationTurn), useStore(epoch)]);
  if (!value) return error ? html`<${Failure} error=${error} onRetry=${reload} />` : html`<div class="card"><${Waiting} /></div>`;
  const show = (/** @type {number} */ next) => replaceRoute(["health", "configuration"], { line: String(next) });
  return html`
    ${value.refused && html`<${Note} tone="bad" role="alert"><b>The current content of the file is not in use.</b><span>${value.refused}</span><//>`}
    ${value.problems.map((problem) => html`<${Note} key=${problem.message} tone=${problem.severity === "error" ? "bad" : "warn"}><span>${problem.message} ${problem.line !== null && html`<button type="button" class="link" onClick=${() => show(problem.line ?? 1)}>line ${problem.line}</button>`}</span>${problem.hint && html`<span class="small">${problem.hint}</span>`}<//>`)}
    <div class="configuration"><${Settings} settings=${value.settings} onLine=${show} /><${File} configuration=${value} line=${line} /></div>`;
}

/** @param {{ settings: readonly Setting[], onLine: (line: number) => void }} props */
function Settings({ settings, onLine }) {
  const [filter, setFilter] = useState("");
  const [hasDefaults, setDefaults] = useState(false);
  const id = useId();
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = settings.filter((setting) => (hasDefaults || !setting.isDefault) && words.every((word) => setting.path.toLowerCase().includes(word)));
  return html`
    <section class="card" aria-label="Settings">
      <div class="head"><h2 class="grow">Settings</h2><${Check} label="Show defaults" checked=${hasDefaults} onChange=${setDefaults} />
        <label class="hidden-visually" for=${id}>Filter settings</label><input class="input filter" id=${id} type="search" data-search placeholder="Filter settings" value=${filter} autocomplete="off" onInput=${onValue(setFilter)} /></div>
      ${shown.length === 0 ? html`<${Empty} title="No settings">${hasDefaults ? "No setting matches." : "The file sets nothing here. Defaults are in effect."}<//>` : html`
        <ul class="settings">${shown.map((setting) => html`
          <li key=${setting.path}><code class="wrap path">${setting.path}</code><code class="wrap value">${valueText(setting)}</code>
            ${setting.line === null ? html`<${Badge}>default<//>` : html`<button type="button" class="link small" aria-label=${`Show ${setting.path} in the file, line ${setting.line}`} onClick=${() => onLine(setting.line ?? 1)}>line ${setting.line}</button>`}</li>`)}</ul>`}
    </section>`;
}

/** @param {Setting} setting */
const valueText = ({ value }) => (typeof value === "string" ? value : JSON.stringify(value));

/** @param {{ configuration: Configuration, line: number | null }} props */
function File({ configuration, line }) {
  const marked = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => marked.current?.scrollIntoView({ block: "center" }), [line, configuration]);
  return html`
    <${Card} title="File" flush=${true} actions=${configuration.file && html`<code class="muted small wrap">${configuration.file}</code>`}>
      ${configuration.text === null ? html`<${Empty} title="The file is not shown">The file cannot be parsed, so its secrets cannot be hidden.<//>` : html`
        <div class="file" tabindex="0" role="region" aria-label="Configuration file"><ol>${configuration.text.split("\n").map((text, at) => html`
          <li class=${at + 1 === line ? "marked" : ""} ref=${at + 1 === line ? marked : null} aria-current=${at + 1 === line ? "true" : undefined}><span aria-hidden="true">${at + 1}</span><code>${text || " "}</code></li>`)}</ol></div>`}
    <//>`;
}
