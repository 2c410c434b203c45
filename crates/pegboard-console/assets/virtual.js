// A list of very many rows, of which only those in view are in the page.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";

/** Rows above and below those in view. */
const MARGIN = 12;

/** Returns whether the screen matches a media query, and renders again when that changes. @param {string} query */
export function useMedia(query) {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const update = () => setMatches(list.matches);
    list.addEventListener("change", update);
    return () => list.removeEventListener("change", update);
  }, [query]);
  return matches;
}

/**
 * Rows of one height. Rows that are added at the top leave those in view where they are, unless the top is in view.
 * While the last row is near, every new `onEnd` is called.
 * @template Item
 * @param {{ items: readonly Item[], itemKey: (item: Item) => string | number, height: number, label: string, row: (item: Item, at: number) => unknown,
 *   onEnd?: () => void }} props
 */
export function VirtualList({ items, itemKey, height, label, row, onEnd }) {
  const view = useRef(/** @type {HTMLElement | null} */ (null));
  const anchor = useRef(/** @type {string | number | null} */ (null));
  const [top, setTop] = useState(0);
  const [space, setSpace] = useState(600);
  const first = Math.max(0, Math.floor(top / height) - MARGIN);
  const last = Math.min(items.length, Math.ceil((top + space) / height) + MARGIN);
  const newest = items[0] === undefined ? null : itemKey(items[0]);
  useLayoutEffect(() => {
    const element = view.current;
    if (!element) return;
    const before = anchor.current;
    anchor.current = newest;
    if (before === null || before === newest || element.scrollTop < height) return;
    const added = items.findIndex((item) => itemKey(item) === before);
    if (added > 0) element.scrollTop += added * height;
  }, [newest]);
  useEffect(() => {
    const element = view.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setSpace(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = view.current;
    if (!element) return;
    // Where nothing is drawn, for example in a covered window, scroll events are late: what counts is where the list stands.
    if (element.scrollTop !== top) setTop(element.scrollTop);
    if (element.scrollTop + element.clientHeight >= (items.length - MARGIN) * height) onEnd?.();
  }, [top, space, items.length, newest, onEnd]);
  return html`
    <div class="virtual" ref=${view} tabindex="0" role="table" aria-label=${label} aria-rowcount=${items.length}
      onScroll=${(/** @type {Event} */ event) => setTop(/** @type {HTMLElement} */ (event.currentTarget).scrollTop)}>
      <div class="virtual-space" role="rowgroup" style=${{ height: `${items.length * height}px` }}>
        <div class="virtual-rows" role="presentation" style=${{ transform: `translateY(${first * height}px)` }}>
          ${items.slice(first, last).map((item, at) => row(item, first + at))}
        </div>
      </div>
    </div>`;
}
