// Requests to the control API, with the credential of this tab.

import { store } from "./store.js";

/** @typedef {import("./api.d.ts").Operations} Operations */
/** @typedef {import("./api.d.ts").Console} Access */

const KEY = "pegboard.credential";

/** A request that the gateway rejected or did not answer; `status` is 0 if it could not be reached. */
export class RequestError extends Error {
  /** @param {number} status @param {string} text @param {string} [hint] */
  constructor(status, text, hint) {
    super(text);
    this.name = "RequestError";
    this.status = status;
    this.hint = hint;
  }
}

/** Whether the gateway knows who asks: `unknown` until it has said so. */
export const signIn = store(/** @type {"unknown" | "needed" | "done"} */ ("unknown"));

/** Who asks and what it may do; null until the gateway has answered. */
export const access = store(/** @type {Access | null} */ (null));

/** The credential if the browser permits no storage. @type {string | null} */
let inMemory = null;

/** Returns the credential of this tab. */
function credential() {
  try {
    return sessionStorage.getItem(KEY) ?? inMemory;
  } catch {
    return inMemory;
  }
}

/** @param {string | null} value */
function keepCredential(value) {
  inMemory = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch {
    // It lives as long as the page.
  }
}

/** Forgets the credential and shows the page to sign in. */
export function forgetCredential() {
  keepCredential(null);
  signIn.set("needed");
}

/** Returns the headers of a request. @param {boolean} hasBody */
function headers(hasBody) {
  const held = credential();
  return {
    ...(held === null ? {} : { Authorization: `Bearer ${held}` }),
    ...(hasBody ? { "Content-Type": "application/json" } : {}),
  };
}

/**
 * @template {keyof Operations} Name
 * @typedef {object} Options
 * @property {Operations[Name]["path"]} [path]
 * @property {Operations[Name]["query"]} [query]
 * @property {Operations[Name]["body"]} [body]
 * @property {AbortSignal} [signal]
 * @property {string | null} [lastEventId]
 */

/** Returns the address of an operation. @param {string} template @param {object} [path] @param {object} [query] */
function address(template, path, query) {
  const filled = Object.entries(path ?? {}).reduce((text, [key, value]) => text.replace(`{${key}}`, encodeURIComponent(value)), template);
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {})) {
    if (value != null && value !== "") search.set(key, String(value));
  }
  return search.size > 0 ? `${filled}?${search}` : filled;
}

/**
 * Sends a request and returns the response; throws a `RequestError` unless it succeeded.
 * @template {keyof Operations} Name
 * @param {Name} name
 * @param {Options<Name>} [options]
 * @returns {Promise<Response>}
 */
export async function send(name, { path, query, body, signal, lastEventId } = {}) {
  const [method = "GET", template = ""] = name.split(" ");
  const isRead = method === "GET";
  let response;
  try {
    response = await fetch(address(template, path, query), {
      method,
      headers: { ...headers(!isRead), ...(lastEventId ? { "Last-Event-ID": lastEventId } : {}) },
      body: isRead || body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (signal?.aborted && signal.reason?.name !== "TimeoutError") throw error;
    throw new RequestError(0, "The gateway does not answer", "Check that `pegboard serve` is running.");
  }
  if (response.ok) return response;
  throw await rejection(response, name);
}

/** Returns the error of a response. @param {Response} response @param {string} name */
async function rejection(response, name) {
  const text = await response.text().catch(() => "");
  let reason = "";
  let hint;
  try {
    const answer = JSON.parse(text);
    reason = typeof answer.error === "string" ? answer.error : String(answer.error?.message ?? "");
    if (typeof answer.hint === "string") hint = answer.hint;
  } catch {
    reason = text.slice(0, 300);
  }
  const isOwn = name === "POST /control/console/login" || name === "GET /control/console";
  if (response.status === 401 && !isOwn) forgetCredential();
  return new RequestError(response.status, reason || `HTTP status ${response.status}`, hint);
}

/**
 * Sends a request and returns the JSON of the response.
 * @template {keyof Operations} Name
 * @param {Name} name
 * @param {Options<Name>} [options]
 * @returns {Promise<Operations[Name]["result"]>}
 */
export async function request(name, options) {
  const response = await send(name, options);
  return response.json();
}

/** Exchanges the code of a printed URL for a credential. @param {string} code */
export async function signInWithCode(code) {
  const { credential: granted } = await request("POST /control/console/login", { body: { code } });
  keepCredential(granted);
  await refreshAccess();
}

/** Uses a token as the credential; throws if the gateway does not know it. @param {string} token */
export async function signInWithToken(token) {
  const before = credential();
  keepCredential(token.trim());
  try {
    await refreshAccess();
    if (signIn.get() !== "done") throw new RequestError(401, "The gateway does not accept this token");
  } catch (error) {
    keepCredential(before);
    throw error;
  }
}

/** Asks who this tab is for the gateway. */
export async function refreshAccess() {
  try {
    const answer = await request("GET /control/console");
    access.set(answer);
    signIn.set(answer.signedIn ? "done" : "needed");
  } catch (error) {
    if (error instanceof RequestError && error.status === 401) {
      forgetCredential();
      const answer = await request("GET /control/console");
      access.set(answer);
    }
    throw error;
  }
}

/** Ends the credential at the gateway and forgets it. */
export async function signOut() {
  try {
    await send("POST /control/console/logout");
  } finally {
    forgetCredential();
  }
}

/** Returns whether the caller may do something. @param {keyof import("./api.d.ts").Permissions} what */
export const may = (what) => access.get()?.may?.[what] ?? false;
