// What several pages show of the running gateway, kept up to date by its events.

import { access, may, request } from "./control.js";
import { epoch, onEvent } from "./events.js";
import { store } from "./store.js";

/** The status of the gateway. */
export const status = store(/** @type {import("./api.d.ts").Status | null} */ (null));
/** Why the last request for the status failed. */
export const statusError = store(/** @type {unknown} */ (null));
/** The tools that the caller may see. */
export const tools = store(/** @type {import("./api.d.ts").ToolList | null} */ (null));
/** How many tools wait for approval. */
export const waitingApprovals = store(0);
/** Grows when the approvals have changed. */
export const approvalsTurn = store(0);
/** Grows when a session has changed. */
export const sessionsTurn = store(0);
/** Grows a while after searches and calls. */
export const countersTurn = store(0);
/** Grows when the configuration was read again. */
export const configurationTurn = store(0);

/** Changes come in bursts, for example when all servers start: one request is enough for them. */
const BURST_MS = 250;

/** Returns a function that runs `action` once, `delay` after the first of several calls. @param {() => void} action @param {number} delay */
function gathered(action, delay) {
  let timer = 0;
  return () => {
    timer ||= setTimeout(() => {
      timer = 0;
      action();
    }, delay);
  };
}

/** Returns a function that asks, and drops an answer that comes behind that of a later request. @template T @param {() => Promise<T>} ask @param {(answer: T) => void} show @param {(error: unknown) => void} fail */
function newest(ask, show, fail) {
  let asked = 0;
  let shown = 0;
  return async () => {
    const turn = ++asked;
    /** @param {() => void} act */
    const inOrder = (act) => {
      if (turn < shown) return;
      shown = turn;
      act();
    };
    try {
      const answer = await ask();
      inOrder(() => show(answer));
    } catch (error) {
      inOrder(() => fail(error));
    }
  };
}

/** Asks for the status now. */
export const refreshStatus = newest(
  () => request("GET /control/status"),
  (answer) => {
    status.set(answer);
    statusError.set(null);
  },
  (error) => statusError.set(error),
);

/** Asks for the tools now. */
export const refreshTools = newest(
  () => request("GET /control/tools"),
  (answer) => tools.set(answer),
  // The list before stays; the banner and the status say that the gateway does not answer.
  () => {},
);

async function refreshApprovals() {
  if (!may("approve")) return;
  const answer = await request("GET /control/approvals").catch(() => null);
  if (answer) waitingApprovals.set(answer.approvals.length);
}

const statusSoon = gathered(refreshStatus, BURST_MS);
const toolsSoon = gathered(refreshTools, BURST_MS * 2);
const approvalsSoon = gathered(() => {
  void refreshApprovals();
  approvalsTurn.set((turn) => turn + 1);
}, BURST_MS * 2);
const sessionsSoon = gathered(() => sessionsTurn.set((turn) => turn + 1), BURST_MS * 2);
/** Counters change with every call: they are asked for once in a while, and not for a tab that nobody sees. */
const COUNTERS_MS = 3_000;
const countersLater = gathered(() => {
  if (document.hidden) return;
  void refreshStatus();
  countersTurn.set((turn) => turn + 1);
}, COUNTERS_MS);

/** Asks for everything once. */
export function refreshAll() {
  void refreshStatus();
  void refreshTools();
  void refreshApprovals();
}

let isFollowing = false;

/** Keeps the values up to date from now on. */
export function followGateway() {
  if (isFollowing) return;
  isFollowing = true;
  onEvent((event) => {
    switch (event.kind) {
      case "server":
        statusSoon();
        toolsSoon();
        approvalsSoon();
        break;
      case "activity":
        countersLater();
        break;
      case "session":
        sessionsSoon();
        break;
      case "approvals":
        waitingApprovals.set(event.waiting);
        approvalsTurn.set((turn) => turn + 1);
        toolsSoon();
        break;
      case "configuration":
        configurationTurn.set((turn) => turn + 1);
        statusSoon();
        toolsSoon();
        approvalsSoon();
        break;
      default:
        break;
    }
  });
  epoch.watch(refreshAll);
  addEventListener("visibilitychange", countersLater);
  access.watch(() => void refreshApprovals());
}
