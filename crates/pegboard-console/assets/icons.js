// Icons as strokes on a 24 by 24 grid.

import { html } from "./vendor/htm-preact.js";

/** @type {Record<string, string>} */
const STROKES = {
  playground: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M20 20l-4-4M8 11h6",
  servers: "M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01M12 8h4M12 16h4",
  activity: "M3 12h4l3-8 4 16 3-8h4",
  sessions: "M4 5h16v11H9l-5 4zM8 9h8M8 12h5",
  savings: "M4 20V4M4 20h16M8 16v-4M12 16V8M16 16v-6",
  approvals: "M12 3l8 3v6c0 5-3.5 8-8 9-4.5-1-8-4-8-9V6zM8.5 12l2.5 2.5 4.5-5",
  health: "M12 20s-8-4.6-8-10.4A4.6 4.6 0 0 1 12 7a4.6 4.6 0 0 1 8 2.6C20 15.4 12 20 12 20z",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M20 20l-4-4",
  menu: "M4 6h16M4 12h16M4 18h16",
  close: "M6 6l12 12M18 6L6 18",
  check: "M5 13l4 4L19 7",
  chevron: "M9 6l6 6-6 6",
  back: "M15 6l-6 6 6 6",
  warning: "M12 4l9 16H3zM12 10v4M12 17h.01",
  info: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18M12 11v5M12 8h.01",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  bookmark: "M6 4h12v16l-6-4-6 4z",
  play: "M7 5l11 7-11 7z",
  stop: "M6 6h12v12H6z",
  restart: "M4 12a8 8 0 1 0 3-6.2M4 4v5h5",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  pause: "M8 5v14M16 5v14",
  key: "M14.5 4a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M10.5 13.5L4 20M6 18l2 2M15 9h.01",
  pin: "M9 4h6l-1 6 3 3v2H7v-2l3-3zM12 15v5",
  compare: "M4 5h7v14H4zM13 5h7v14h-7z",
  plug: "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4",
};

/** An icon without meaning of its own. @param {{ name: string }} props */
export const Icon = ({ name }) => html`
  <svg class="icon" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"
    stroke-linejoin="round" aria-hidden="true"><path d=${STROKES[name] ?? STROKES.info} /></svg>`;

/** The mark of Pegboard: eight holes and a peg. */
export const Mark = () => html`
  <svg viewBox="0 0 24 24" aria-hidden="true" fill="var(--line-strong)">
    ${[5, 12, 19].flatMap((x) => [5, 12, 19].map((y) => html`<circle cx=${x} cy=${y} r=${x === 12 && y === 12 ? 4 : 1.9}
      fill=${x === 12 && y === 12 ? "var(--accent)" : null} />`))}
  </svg>`;
