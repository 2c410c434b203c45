// The MCP clients of this machine: preview a connection, write it, undo it.

import { html, useState } from "../../vendor/htm-preact.js";
import { access, request } from "../../control.js";
import { Dialog, confirmed } from "../../dialog.js";
import { Diff } from "../../diff.js";
import { epoch } from "../../events.js";
import { useStore } from "../../store.js";
import { Table } from "../../table.js";
import { Badge, Button, Card, Check, Code, Copy, Empty, Failure, Note, Select, Waiting, attempt, useLoaded } from "../../ui.js";

/** @typedef {import("../../api.d.ts").McpClient} McpClient */

export function Clients() {
  const { value, error, reload } = useLoaded((signal) => request("GET /control/clients", { signal }), [useStore(epoch)]);
  const [chosen, setChosen] = useState(/** @type {McpClient | null} */ (null));
  const endpoint = useStore(access)?.endpoint;
  const undo = async (/** @type {McpClient} */ client) => {
    if (!(await confirmed({ title: `Undo the change of ${client.title}?`, text: `The backup replaces ${client.path}.`, action: "Undo" }))) return;
    if (await attempt(() => request("POST /control/clients", { body: { client: client.id, action: "undo" } }), `${client.title} restored`)) reload();
  };
  return html`
    ${endpoint && html`<${Card} title="Any MCP client"><div class="stack tight"><p>Give a client this URL (Streamable HTTP):</p><div class="row"><${Code} text=${endpoint} label="URL for clients" /><${Copy} text=${endpoint} what="URL" /></div></div><//>`}
    ${error && html`<${Failure} error=${error} onRetry=${reload} />`}
    ${!value ? !error && html`<div class="card"><${Waiting} /></div>` : html`
      <${Card} title="Clients of this machine" flush=${true}>${value.clients.length === 0 ? html`<${Empty} title="No clients known" />` : html`
        <${Table} caption="Clients of this machine" rows=${[...value.clients].sort((first, second) => Number(second.found) - Number(first.found))} rowKey=${(/** @type {McpClient} */ client) => client.id} columns=${[
          { title: "Client", kind: "head", cell: (/** @type {McpClient} */ client) => html`${client.title}<div class="muted small wrap"><code>${client.path}</code></div>${client.problem && html`<div class="tone-bad small">${client.problem}</div>`}` },
          { title: "State", cell: (/** @type {McpClient} */ client) => client.connected ? html`<${Badge} tone="ok" dot=${true}>connected<//>` : client.found ? html`<${Badge}>not connected<//>` : html`<span class="muted">not found</span>` },
          { title: "Other servers", kind: "number", cell: (/** @type {McpClient} */ client) => client.servers },
          { title: "", kind: "actions", cell: (/** @type {McpClient} */ client) => html`<span class="row wraps action-row">
            ${client.canUndo && html`<${Button} kind="small" label=${`Undo the change of ${client.title}`} onClick=${() => undo(client)}>Undo<//>`}
            ${client.transports.length > 0 && html`<${Button} kind="small" label=${`Preview the connection of ${client.title}`} onClick=${() => setChosen(client)}>Preview<//>`}</span>` },
        ]} />`}<//>`}
    ${chosen && html`<${ConnectDialog} client=${chosen} onClose=${() => setChosen(null)} onDone=${() => { setChosen(null); reload(); }} />`}`;
}

/** @param {{ client: McpClient, onClose: () => void, onDone: () => void }} props */
function ConnectDialog({ client, onClose, onDone }) {
  const [transport, setTransport] = useState(client.transports[0] ?? "http");
  const [replace, setReplace] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const change = { client: client.id, transport, replace };
  const { value, error, reload } = useLoaded((signal) => request("POST /control/clients", { body: { ...change, action: "preview" }, signal }), [transport, replace]);
  const write = async () => {
    setBusy(true);
    const done = await attempt(() => request("POST /control/clients", { body: { ...change, action: "write", expects: value?.version ?? null } }), `${client.title} uses Pegboard after its next start`);
    setBusy(false);
    if (done) onDone();
    else reload();
  };
  return html`
    <${Dialog} title=${`Connect ${client.title}`} wide=${true} onClose=${onClose} foot=${html`
      <${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" busy=${isBusy} disabled=${!value || value.old === value.new} onClick=${write}>Write the file<//>`}>
      <div class="filters">
        ${client.transports.length > 1 && html`<${Select} label="Transport" value=${transport} options=${client.transports} onChange=${(/** @type {"stdio" | "http"} */ next) => setTransport(next)} />`}
        <${Check} label="Remove servers that this gateway has too" checked=${replace} onChange=${setReplace} />
      </div>
      ${error ? html`<${Failure} error=${error} />` : !value ? html`<${Waiting} />` : html`
        <p class="wrap small"><code>${value.path}</code> ${value.old === null && html`<${Badge} tone="info">new file<//>`}</p>
        ${value.notes.map((note) => html`<${Note} key=${note}>${note}<//>`)}
        <${Diff} label="Change of the file" before=${value.old ?? ""} after=${value.new} />
        <p class="muted small">A backup is kept beside the file; Undo restores it.</p>`}
    <//>`;
}
