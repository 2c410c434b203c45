// 100,000 entries of the activity can be scrolled: only those in view are in the page.

import assert from "node:assert/strict";
import { step, Tab } from "../browser.mjs";

const ENTRIES = 100_000;

/** An entry as the control API describes it. */
export const entry = (seq) => ({
  seq, at: 1_790_000_000_000 + seq * 1000, kind: seq % 3 === 0 ? "search" : "call", source: "client", client: `client-${seq % 5}`, session: `s-${seq % 9}`,
  token: null, server: "github", tool: seq % 3 === 0 ? null : "github___list_issues", query: seq % 3 === 0 ? `query ${seq}` : null, dialect: "bridge",
  hits: seq % 3 === 0 ? ["github___list_issues"] : [], matches: 5, search: null, rank: null, durationUs: 1200, outcome: "ok", error: null,
  bytesIn: 10, bytesOut: 20, tokens: 30, hasContents: false,
});

export default async function many(browser, { base, login }) {
  const tab = await Tab.open(browser, base);
  const { page } = tab;
  await page.route("**/control/activity?*", (route) => {
    const query = new URL(route.request().url()).searchParams;
    const before = Number(query.get("before")) || ENTRIES + 1;
    const limit = Number(query.get("limit"));
    const length = Math.min(limit, before - 1);
    const entries = Array.from({ length }, (_, at) => entry(before - 1 - at));
    return route.fulfill({ json: { entries, next: before - length > 1 ? before - length : null, total: ENTRIES, newest: ENTRIES } });
  });
  await tab.signIn(login);
  await tab.show("activity");
  await tab.untilReached("entries are loaded", ENTRIES, () => page.evaluate(() => {
    const list = document.querySelector(".virtual");
    list.scrollTop = list.scrollHeight;
    // The browser sends this event when it draws the next frame, which a busy machine may put off for long.
    list.dispatchEvent(new Event("scroll"));
    return Number(list.getAttribute("aria-rowcount"));
  }));
  const figures = await page.evaluate(async () => {
    const list = document.querySelector(".virtual");
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    let rows = 0;
    const times = [];
    for (let at = 0; at < 120; at += 1) {
      const begin = performance.now();
      list.scrollTop = (list.scrollHeight * at) / 120;
      await frame();
      await frame();
      times.push((performance.now() - begin) / 2);
      rows = Math.max(rows, list.querySelectorAll(".entry").length);
    }
    times.sort((first, second) => first - second);
    return { rows, median: times[60], p95: times[114] };
  });
  assert.ok(figures.rows > 5 && figures.rows < 120, `${figures.rows} rows are in the page`);
  await page.evaluate(() => { const list = document.querySelector(".virtual"); list.scrollTop = list.scrollHeight; });
  await tab.until("the oldest entry is in view", async () => (await page.locator(".entry").last().innerText()).includes("github___list_issues"));
  step(`${ENTRIES} entries: at most ${figures.rows} rows in the page; frames of ${figures.median.toFixed(1)} ms (median) and ${figures.p95.toFixed(1)} ms (95th percentile) while scrolling`);
  await tab.close();
}
