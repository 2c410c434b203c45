// Plots as SVG.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { short } from "./format.js";

const MARGIN = { top: 10, right: 6, bottom: 24, left: 52 };

/** Returns round values from 0 to at least `most`. @param {number} most */
export function ticks(most) {
  if (!(most > 0)) return [0, 1];
  const raw = most / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw) ?? 10) * power;
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, at) => at * step);
}

/** Returns a reference and the width of its element. @returns {[import("./vendor/htm-preact.js").Ref<HTMLElement | null>, number]} */
function useWidth() {
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, setWidth] = useState(640);
  useEffect(() => {
    if (!element.current) return undefined;
    const observer = new ResizeObserver((entries) => setWidth(Math.max(240, Math.round(entries[0]?.contentRect.width ?? 640))));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

/**
 * A bar for each entry; `behind` is drawn as a paler bar from the same foot.
 * @param {{ label: string, bars: readonly { key: string, label: string, title: string, value: number, behind?: number }[], height?: number,
 *   format?: (value: number) => string }} props
 */
export function Bars({ label, bars, height = 220, format = short }) {
  const [element, width] = useWidth();
  const scale = ticks(Math.max(0, ...bars.map((bar) => Math.max(bar.value, bar.behind ?? 0))));
  const top = scale.at(-1) ?? 1;
  const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  const step = inner.width / Math.max(1, bars.length);
  const y = (/** @type {number} */ value) => MARGIN.top + inner.height * (1 - Math.max(0, value) / top);
  const every = Math.max(1, Math.ceil(56 / step));
  const bar = (/** @type {number} */ at, /** @type {number} */ value, /** @type {string} */ kind) => {
    const wide = Math.max(1, Math.min(40, step * 0.72));
    return html`<rect class=${kind} x=${MARGIN.left + step * (at + 0.5) - wide / 2} y=${y(value)} width=${wide} height=${Math.max(0, MARGIN.top + inner.height - y(value))} rx=${Math.min(3, wide / 3)} />`;
  };
  return html`
    <figure class="plot" ref=${element}>
      <svg viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="img" aria-label=${label}>
        ${scale.map((value) => html`<g key=${value}><line class="grid" x1=${MARGIN.left} x2=${width - MARGIN.right} y1=${y(value)} y2=${y(value)} /><text x=${MARGIN.left - 8} y=${y(value) + 4} text-anchor="end">${format(value)}</text></g>`)}
        ${bars.map((one, at) => html`<g key=${one.key}><title>${one.title}</title>${one.behind !== undefined && bar(at, one.behind, "bar second")}${bar(at, one.value, "bar")}
          ${at % every === 0 && html`<text x=${MARGIN.left + step * (at + 0.5)} y=${height - 6} text-anchor="middle">${one.label}</text>`}</g>`)}
      </svg>
    </figure>`;
}
