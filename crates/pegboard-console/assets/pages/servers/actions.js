// The buttons that start, stop and change a server.

import { html, useState } from "../../vendor/htm-preact.js";
import { may, request } from "../../control.js";
import { Dialog, confirmed } from "../../dialog.js";
import { refreshStatus } from "../../live.js";
import { Button, Code, attempt } from "../../ui.js";

/** @typedef {import("../../api.d.ts").Server} Server */
/** @typedef {Server["actions"][number]} Action */

/** @type {Record<Action, { title: string, done: string, icon?: string, kind?: string, question?: string, permission: "change" | "configure" | "login" }>} */
const ACTIONS = {
  start: { title: "Start", done: "is starting", icon: "play", permission: "change" },
  restart: { title: "Restart", done: "is restarting", icon: "restart", permission: "change", question: "Running calls may finish for ten seconds. Later calls wait for the new process." },
  login: { title: "Log in", done: "needs a login", icon: "key", permission: "login" },
  enable: { title: "Enable", done: "is enabled", permission: "configure" },
  stop: { title: "Stop", done: "is stopping", icon: "stop", kind: "danger", permission: "change", question: "Its tools cannot be called until it is started again." },
  disable: { title: "Disable", done: "is disabled", kind: "danger", permission: "configure", question: "This edits the configuration file: clients lose the tools of this server until it is enabled again." },
};
const ORDER = /** @type {Action[]} */ (Object.keys(ACTIONS));

/** @param {{ server: Server, isSmall?: boolean }} props */
export function ServerActions({ server, isSmall = false }) {
  const [url, setUrl] = useState(/** @type {string | null} */ (null));
  const [busy, setBusy] = useState(/** @type {Action | null} */ (null));
  const possible = ORDER.filter((action) => server.actions.includes(action) && may(ACTIONS[action].permission));
  const shown = isSmall ? possible.filter((action) => action === "restart" || action === "start" || action === "login" || action === "enable").slice(0, 1) : possible;
  const act = async (/** @type {Action} */ action) => {
    const { title, done, question, kind } = ACTIONS[action];
    if (question && !(await confirmed({ title: `${title} ${server.name}?`, text: question, action: title, danger: kind === "danger" }))) return;
    setBusy(action);
    await attempt(async () => {
      const answer = await request(`POST /control/servers/{name}/${action}`, { path: { name: server.name } });
      if (answer.url) setUrl(answer.url);
      await refreshStatus();
    }, `${server.name} ${done}`);
    setBusy(null);
  };
  return html`
    <span class="row wraps action-row">
      ${shown.map((action) => html`
        <${Button} key=${action} kind=${`${ACTIONS[action].kind ?? ""} ${isSmall ? "small" : ""}`} icon=${ACTIONS[action].icon} busy=${busy === action}
          label=${`${ACTIONS[action].title} ${server.name}`} onClick=${() => act(action)}>${ACTIONS[action].title}<//>`)}
      ${url && html`<${LoginDialog} server=${server.name} url=${url} onClose=${() => setUrl(null)} />`}
    </span>`;
}

/** @param {{ server: string, url: string, onClose: () => void }} props */
const LoginDialog = ({ server, url, onClose }) => html`
  <${Dialog} title=${`Log in to ${server}`} onClose=${onClose} foot=${html`
    <${Button} onClick=${onClose}>Close<//>
    ${/^https?:\/\//i.test(url) && html`<a class="button primary" href=${url} target="_blank" rel="noopener noreferrer" onClick=${onClose}>Open the login page</a>`}`}>
    <p>Log in at the server's provider. The gateway then reconnects automatically.</p>
    <${Code} text=${url} label="Address of the login page" />
  <//>`;
