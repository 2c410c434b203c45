// Tools that are new or have changed since the user approved them.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { request } from "../control.js";
import { confirmed } from "../dialog.js";
import { Diff, jsonLines } from "../diff.js";
import { epoch } from "../events.js";
import { clock, plural } from "../format.js";
import { approvalsTurn, waitingApprovals } from "../live.js";
import { useStore } from "../store.js";
import { Badge, Button, Card, Check, Empty, Failure, Note, PageHead, Waiting, attempt, useLoaded } from "../ui.js";

/** @typedef {import("../api.d.ts").Approval} Approval */

const KINDS = /** @type {const} */ ({ new: ["info", "new"], changed: ["warn", "changed"], removed: ["", "removed"] });

/** A change that is undone and made again between two looks of the gateway causes no event: ask now and then. */
const REFRESH_MS = 5_000;

export default function Approvals() {
  const { value, error, reload } = useLoaded((signal) => request("GET /control/approvals", { signal }), [useStore(approvalsTurn), useStore(epoch)]);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || reload(), REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const [chosen, setChosen] = useState(/** @type {readonly string[]} */ ([]));
  const approvals = value?.approvals ?? [];
  const ids = chosen.filter((id) => approvals.some((one) => one.id === id));
  const decide = async (/** @type {"approve" | "reject"} */ action, /** @type {readonly string[]} */ about) => {
    const names = about.map((id) => approvals.find((one) => one.id === id)).map((one) => `${one?.server}/${one?.tool}`);
    const what = names.length === 1 ? names[0] : plural(names.length, "tool");
    if (action === "reject" && !(await confirmed({ title: `Reject ${what}?`, text: "The tool is hidden from all clients. The rule is written to the configuration file, where you can remove it.", action: "Reject" }))) return;
    await attempt(() => request(`POST /control/approvals/${action}`, { body: { ids: about } }), `${action === "approve" ? "Approved" : "Rejected"} ${what}`);
    setChosen([]);
    waitingApprovals.set((before) => Math.max(0, before - about.length));
    reload();
  };
  return html`
    <div class="page">
      <${PageHead} title="Approvals" about="Servers can change tool definitions after approval. Review each change before models see it.">
        ${approvals.length > 0 && html`
          <${Button} kind="danger" disabled=${ids.length === 0} onClick=${() => decide("reject", ids)}>Reject ${ids.length || ""}<//>
          <${Button} kind="primary" disabled=${ids.length === 0} onClick=${() => decide("approve", ids)}>Approve ${ids.length || ""}<//>`}
      <//>
      ${error && html`<${Failure} error=${error} onRetry=${reload} />`}
      ${value && !value.enabled && html`<${Note}>Approvals are off. Set <code>pinning</code> in the configuration to keep the form in which you approved each tool.<//>`}
      ${!value ? !error && html`<div class="card"><${Waiting} /></div>` : approvals.length === 0 ? html`<div class="card"><${Empty} icon="approvals" title="No pending approvals">${value.isHolding ? "New and changed tools are held until you approve them here." : "New and changed tools appear here."}<//></div>`
        : html`<${Check} label=${`Select all ${approvals.length}`} checked=${ids.length === approvals.length} onChange=${(/** @type {boolean} */ all) => setChosen(all ? approvals.map((one) => one.id) : [])} />
            ${approvals.map((one) => html`<${ApprovalCard} key=${one.id} approval=${one} isChosen=${ids.includes(one.id)}
              onChoose=${(/** @type {boolean} */ is) => setChosen(is ? [...ids, one.id] : ids.filter((id) => id !== one.id))} onDecide=${(/** @type {"approve" | "reject"} */ action) => decide(action, [one.id])} />`)}`}
      ${value && value.rejected.length > 0 && html`<${Card} title="Rejected"><p class="row wraps">${value.rejected.map((one) => html`<span class="chip" key=${`${one.server}/${one.tool}`}>${one.server}/<b>${one.tool}</b></span>`)}</p><//>`}
    </div>`;
}

/** @param {{ approval: Approval, isChosen: boolean, onChoose: (is: boolean) => void, onDecide: (action: "approve" | "reject") => void }} props */
function ApprovalCard({ approval, isChosen, onChoose, onDecide }) {
  const [tone, kind] = KINDS[approval.kind] ?? ["", approval.kind];
  const name = `${approval.server}/${approval.tool}`;
  return html`
    <section class="card" aria-label=${name}>
      <div class="head"><span class="grow row wraps"><${Check} checked=${isChosen} onChange=${onChoose} label=${html`<code><span class="muted">${approval.server}/</span><b>${approval.tool}</b></code>`} />
        <${Badge} tone=${tone}>${kind}<//>${approval.isHeld && html`<${Badge} tone="bad">held<//>`}${approval.isVariant && html`<${Badge}>on a client's connection<//>`}<span class="muted small">since ${clock(approval.since)}</span></span>
        <span class="row"><${Button} kind="small danger" label=${`Reject ${name}`} onClick=${() => onDecide("reject")}>Reject<//><${Button} kind="small primary" label=${`Approve ${name}`} onClick=${() => onDecide("approve")}>Approve<//></span></div>
      <div class="body stack">
        ${approval.diff.length > 0 && html`<ul class="stack tight small">${approval.diff.map((line) => html`<li class="wrap mono">${line}</li>`)}</ul>`}
        ${(approval.old || approval.new) && html`<${Diff} label=${`Change of ${name}`} before=${jsonLines(approval.old)} after=${jsonLines(approval.new)} />`}
      </div>
    </section>`;
}
