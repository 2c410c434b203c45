// The stream of live changes, which connects again by itself.

import { send, signIn, RequestError, refreshAccess } from "./control.js";
import { store } from "./store.js";

/** @typedef {import("./api.d.ts").Event} LiveEvent */
/** @typedef {{ state: "connecting" | "open" | "lost", retryAt: number | null, hasFailed: boolean }} Connection */

/** The longest line of the stream that is read, in characters. */
const MAX_LINE = 4_000_000;
/** A stream without a line for this long is taken as lost; the gateway writes one every 15 s. */
const SILENCE_MS = 45_000;
const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 15_000;

/** Whether live changes arrive. */
export const connection = store(/** @type {Connection} */ ({ state: "connecting", retryAt: null, hasFailed: false }));

/** Grows whenever everything that is shown has to be asked anew: after a lost connection, or lost events. */
export const epoch = store(0);

/** Grows when another run of the gateway answers, which may number its entries anew. */
export const runs = store(0);

/** Starts of the same run may differ by this much, because the clock of the machine may be set. */
const SAME_START_MS = 2_000;
/** When the run started that answered last. @type {number | null} */
let startedAt = null;

/** @type {Set<(event: LiveEvent) => void>} */
const listeners = new Set();

/** Calls `listener` with every event until the returned function is called. @param {(event: LiveEvent) => void} listener */
export function onEvent(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** @type {(() => void) | null} */
let wake = null;
let isRunning = false;
/** The last event id of the stream, sent when connecting again. @type {string | null} */
let lastEventId = null;

/** Connects, and keeps connecting while the tab is signed in. */
export async function runEvents() {
  if (isRunning) return;
  isRunning = true;
  let failures = 0;
  while (signIn.get() === "done") {
    try {
      await readOnce(() => {
        if (connection.get().hasFailed) epoch.set((turn) => turn + 1);
        failures = 0;
        connection.set({ state: "open", retryAt: null, hasFailed: false });
      });
    } catch (error) {
      if (error instanceof RequestError && error.status === 401) break;
    }
    await waitForRetry(failures);
    failures += 1;
  }
  isRunning = false;
}

/** Connects now instead of after the delay. */
export const reconnectNow = () => wake?.();

/** @param {number} failures */
async function waitForRetry(failures) {
  const delay = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** failures) * (0.8 + Math.random() * 0.4);
  connection.set({ state: "lost", retryAt: Date.now() + delay, hasFailed: true });
  await new Promise((resolve) => {
    const timer = setTimeout(resolve, delay);
    wake = () => {
      clearTimeout(timer);
      resolve(undefined);
    };
  });
  wake = null;
  connection.set({ state: "connecting", retryAt: null, hasFailed: true });
  // A restarted gateway does not know the credential any more.
  await refreshAccess().catch(() => {});
}

/** Reads one stream until it ends. @param {() => void} onOpen */
async function readOnce(onOpen) {
  const abort = new AbortController();
  let timer = setTimeout(() => abort.abort(), SILENCE_MS);
  const stop = signIn.watch(() => signIn.get() !== "done" && abort.abort());
  try {
    const response = await send("GET /control/events", { signal: abort.signal, lastEventId });
    if (!response.body) throw new RequestError(0, "The event stream has no body");
    onOpen();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser(dispatch);
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => abort.abort(), SILENCE_MS);
      parser.push(value);
    }
  } finally {
    clearTimeout(timer);
    stop();
  }
}

/** @param {number} at */
function noteStart(at) {
  if (startedAt !== null && Math.abs(at - startedAt) > SAME_START_MS) runs.set((turn) => turn + 1);
  startedAt = at;
}

/** @param {string} kind @param {string} data @param {string | null} id */
function dispatch(kind, data, id) {
  if (id !== null) lastEventId = id;
  /** @type {LiveEvent} */
  let event;
  try {
    event = { ...JSON.parse(data), kind };
  } catch {
    return;
  }
  if (event.kind === "hello") noteStart(event.started);
  if (event.kind === "lagged") epoch.set((turn) => turn + 1);
  for (const listener of [...listeners]) listener(event);
}

/** Reads server-sent events from parts of text. */
export class Parser {
  /** @param {(kind: string, data: string, id: string | null) => void} onEvent */
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = "";
    this.kind = "";
    this.id = /** @type {string | null} */ (null);
    this.data = /** @type {string[]} */ ([]);
  }

  /** @param {string} text */
  push(text) {
    this.rest += text;
    for (;;) {
      const end = this.rest.search(/\r\n|\n|\r(?=.)/s);
      if (end < 0) break;
      const line = this.rest.slice(0, end);
      this.rest = this.rest.slice(end + (this.rest.startsWith("\r\n", end) ? 2 : 1));
      this.readLine(line);
    }
    if (this.rest.length > MAX_LINE) throw new RequestError(0, "A line of the event stream is too long");
  }

  /** @param {string} line */
  readLine(line) {
    if (line === "") return this.finish();
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.kind = value;
    else if (field === "data") this.data.push(value);
    else if (field === "id") this.id = value;
  }

  finish() {
    if (this.data.length > 0) this.onEvent(this.kind || "message", this.data.join("\n"), this.id);
    this.kind = "";
    this.data = [];
  }
}
