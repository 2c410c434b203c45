// The frame of the console: sign-in, navigation, and the page that the address names.

import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { access, refreshAccess, signIn, signInWithCode, signOut } from "./control.js";
import { connection, reconnectNow, runEvents } from "./events.js";
import { clock } from "./format.js";
import { Icon, Mark } from "./icons.js";
import { Lazy } from "./lazy.js";
import { followGateway, refreshAll, status, waitingApprovals } from "./live.js";
import { go, href, route } from "./route.js";
import { store, useStore } from "./store.js";
import { Button, Failure, Toasts, Waiting } from "./ui.js";

/** @typedef {import("./route.js").Route} Route */
/** @typedef {{ key: string, title: string, shortcut: string, permission?: keyof import("./api.d.ts").Permissions, load: () => Promise<{ default: unknown }> }} Page */

/** @type {readonly Page[]} */
const PAGES = [
  { key: "playground", title: "Playground", shortcut: "p", load: () => import("./pages/playground.js") },
  { key: "servers", title: "Servers", shortcut: "s", load: () => import("./pages/servers.js") },
  { key: "activity", title: "Activity", shortcut: "a", load: () => import("./pages/activity.js") },
  { key: "sessions", title: "Sessions", shortcut: "e", load: () => import("./pages/sessions.js") },
  { key: "savings", title: "Savings", shortcut: "v", permission: "savings", load: () => import("./pages/savings.js") },
  { key: "approvals", title: "Approvals", shortcut: "r", permission: "approve", load: () => import("./pages/approvals.js") },
  { key: "health", title: "Health", shortcut: "h", permission: "health", load: () => import("./pages/health.js") },
];

const isHelpOpen = store(false);
const problem = store(/** @type {unknown} */ (null));

function App() {
  const state = useStore(signIn);
  const reason = useStore(problem);
  const isReady = useStore(access) !== null;
  if (!isReady && reason) {
    return html`<main class="sign-in"><${Failure} error=${reason} onRetry=${() => void begin()} /></main>`;
  }
  if (state === "unknown" || !isReady) return html`<main class="sign-in"><${Waiting} /></main>`;
  return html`${state === "needed" ? html`<${Lazy} load=${() => import("./signin.js")} name="SignIn" isStyled=${false} problem=${reason} />` : html`<${Shell} />`}<${Toasts} />`;
}

function Shell() {
  const current = useStore(route);
  const page = PAGES.find((one) => one.key === current.page);
  useEffect(() => {
    document.title = `${page?.title ?? "Not found"} · Pegboard`;
  }, [page]);
  return html`
    <div class="shell">
      <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); focusMain(); }}>Skip to content</a>
      <${Side} current=${current.page} />
      <main class="main" id="main" tabindex="-1"><${Banner} /><${PageView} key=${current.page} page=${page} route=${current} /></main>
    </div>
    <${Help} />`;
}

const focusMain = () => document.getElementById("main")?.focus();

/** @param {{ current: string }} props */
function Side({ current }) {
  const [isOpen, setOpen] = useState(false);
  const waiting = useStore(waitingApprovals);
  const rights = useStore(access)?.may;
  useEffect(() => setOpen(false), [current]);
  return html`
    <header class="side">
      <a class="brand" href=${href(["playground"])} aria-label="Pegboard"><${Mark} /><span>Pegboard</span></a>
      <button type="button" class="button quiet menu-button" aria-expanded=${String(isOpen)} aria-controls="nav" onClick=${() => setOpen(!isOpen)}>
        <${Icon} name=${isOpen ? "close" : "menu"} />Menu</button>
      <nav class=${isOpen ? "nav open" : "nav"} id="nav" aria-label="Pages"><ul>
        ${PAGES.filter((page) => !page.permission || rights?.[page.permission]).map((page) => html`
          <li key=${page.key}><a href=${href([page.key])} aria-current=${page.key === current ? "page" : undefined} onClick=${() => setOpen(false)}>
            <${Icon} name=${page.key} />${page.title}
            ${page.key === "approvals" && waiting > 0 && html`<span class="count">${waiting}<span class="hidden-visually"> waiting</span></span>`}
          </a></li>`)}
      </ul></nav>
      <${SideFoot} />
    </header>`;
}

function SideFoot() {
  const who = useStore(access);
  const { state } = useStore(connection);
  const gateway = useStore(status)?.gateway;
  return html`
    <div class="side-foot">
      <span class="row" title=${gateway ? `Running since ${clock(gateway.since)}` : undefined}>
        <span class=${state === "open" ? "dot tone-ok" : "dot tone-warn"}></span>${state === "open" ? "Live" : "Offline"}</span>
      <span class="wide">Pegboard ${who?.version}</span>
      ${who?.name && html`<span class="wide wrap">Token ${who.name}${who.restricted && " (restricted)"}</span>`}
      <span class="row wraps">
        <button type="button" class="link" onClick=${() => isHelpOpen.set(true)}>Shortcuts</button>
        <button type="button" class="link" onClick=${() => void signOut().catch(() => {})}>Sign out</button>
      </span>
    </div>`;
}

/** Says that live changes do not arrive. */
function Banner() {
  const { state, retryAt, hasFailed } = useStore(connection);
  const [, tick] = useState(0);
  useEffect(() => {
    if (retryAt === null) return undefined;
    const timer = setInterval(() => tick((turn) => turn + 1), 500);
    return () => clearInterval(timer);
  }, [retryAt]);
  const isShown = hasFailed && state !== "open";
  const seconds = retryAt === null ? 0 : Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
  return html`
    <div role="status" aria-live="polite">${isShown && html`
      <div class="banner"><${Icon} name="plug" /><span class="grow">Connection to the gateway lost. What you see may be out of date.</span>
        <span class="nowrap num" aria-hidden="true">${seconds > 0 ? `Next retry in ${seconds} s` : "Connecting…"}</span>
        <${Button} kind="small" onClick=${reconnectNow}>Connect now<//></div>`}</div>`;
}

/** @param {{ page: Page | undefined, route: Route }} props */
const PageView = ({ page, route: current }) => (page
  ? html`<${Lazy} load=${page.load} name="default" isStyled=${page.key !== "playground"} route=${current} wait=${html`<div class="page"><h1>${page.title}</h1><${Waiting} /></div>`} />`
  : html`<div class="page"><h1>Page not found</h1><p><a href=${href(["playground"])}>Open the playground</a></p></div>`);

const Help = () => useStore(isHelpOpen) && html`<${Lazy} load=${() => import("./help.js")} name="Help" wait=${null} pages=${PAGES} onClose=${() => isHelpOpen.set(false)} />`;

// Shortcuts

let isGoing = false;

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = event.target instanceof Element ? event.target : null;
  if (event.ctrlKey || event.metaKey || event.altKey || target?.closest("input, textarea, select, dialog, [contenteditable]")) return;
  const page = isGoing && PAGES.find((one) => one.shortcut === event.key);
  isGoing = event.key === "g";
  if (page) go([page.key]);
  else if (event.key === "?") isHelpOpen.set(true);
  else if (event.key === "/") focusSearch(event);
}

/** @param {KeyboardEvent} event */
function focusSearch(event) {
  const field = document.querySelector("[data-search]");
  if (!(field instanceof HTMLInputElement)) return;
  event.preventDefault();
  field.focus();
  field.select();
}

// Start

/** Takes the code of a printed URL out of the address. */
function takeCode() {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1] ?? null;
  if (code !== null) {
    history.replaceState(null, "", location.pathname);
    route.set({ page: "playground", parts: [], query: new URLSearchParams() });
  }
  return code;
}

/** Signs in with the code of the URL, else with what the tab has. */
async function begin() {
  const code = takeCode();
  problem.set(null);
  try {
    if (code === null) await refreshAccess();
    else await signInWithCode(code);
  } catch (error) {
    problem.set(error);
    if (code !== null) await refreshAccess().catch(() => {});
  }
}

signIn.watch(() => {
  if (signIn.get() !== "done") return;
  problem.set(null);
  followGateway();
  refreshAll();
  void runEvents();
});
addEventListener("hashchange", () => location.hash.startsWith("#code=") && void begin());
addEventListener("keydown", onKey);
addEventListener("online", reconnectNow);

const root = document.getElementById("app");
if (root) render(html`<${App} />`, root);
void begin();
