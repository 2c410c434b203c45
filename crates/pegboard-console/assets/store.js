// Values that several parts of the page watch.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";

/**
 * @template T
 * @typedef {object} Store
 * @property {() => T} get
 * @property {(next: T | ((before: T) => T)) => void} set
 * @property {(watch: () => void) => () => void} watch
 */

/**
 * Returns a value that can be watched.
 * @template T
 * @param {T} value
 * @returns {Store<T>}
 */
export function store(value) {
  /** @type {Set<() => void>} */
  const watchers = new Set();
  return {
    get: () => value,
    set(next) {
      const after = typeof next === "function" ? /** @type {(before: T) => T} */ (next)(value) : next;
      if (Object.is(after, value)) return;
      value = after;
      for (const watcher of [...watchers]) watcher();
    },
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

/**
 * Returns the value of a store, and renders again when it changes.
 * @template T
 * @param {Store<T>} source
 * @returns {T}
 */
export function useStore(source) {
  const [, render] = useState(0);
  const shown = source.get();
  const latest = useRef(shown);
  latest.current = shown;
  useEffect(() => {
    const update = () => {
      if (source.get() !== latest.current) render((turn) => turn + 1);
    };
    const stop = source.watch(update);
    // The value may have changed between the render and this effect.
    update();
    return stop;
  }, [source]);
  return shown;
}

/**
 * Keeps a value in the tab's storage, if the browser permits it.
 * @template T
 * @param {string} key
 * @param {T} initial
 * @returns {Store<T>}
 */
export function keptStore(key, initial) {
  let value = initial;
  try {
    const text = sessionStorage.getItem(key);
    if (text != null) value = /** @type {T} */ (JSON.parse(text));
  } catch {
    // Storage is off, or holds something else: begin with the initial value.
  }
  const kept = store(value);
  kept.watch(() => {
    try {
      sessionStorage.setItem(key, JSON.stringify(kept.get()));
    } catch {
      // The value lives as long as the page.
    }
  });
  return kept;
}
