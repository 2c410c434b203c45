// The page that the address names, in its fragment: `#/servers/github?tab=log`.

import { store } from "./store.js";

/** @typedef {{ page: string, parts: string[], query: URLSearchParams }} Route */

/** @returns {Route} */
function read() {
  const [path = "", search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", ...parts] = path.split("/").map(decoded);
  return { page: page || "playground", parts: parts.filter(Boolean), query: new URLSearchParams(search) };
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The current route. */
export const route = store(read());

addEventListener("hashchange", () => route.set(read()));

/**
 * Returns the address of a page.
 * @param {readonly string[]} path
 * @param {Record<string, string | null | undefined>} [query]
 */
export function href(path, query = {}) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value) search.set(key, value);
  return `#/${path.map(encodeURIComponent).join("/")}${search.size > 0 ? `?${search}` : ""}`;
}

/** Shows a page. @param {readonly string[]} path @param {Record<string, string | null | undefined>} [query] */
export const go = (path, query) => { location.hash = href(path, query); };

/** Changes the address without an entry in the history. @param {readonly string[]} path @param {Record<string, string | null | undefined>} [query] */
export function replaceRoute(path, query) {
  const address = href(path, query);
  if (location.hash === address) return;
  history.replaceState(null, "", address);
  route.set(read());
}
