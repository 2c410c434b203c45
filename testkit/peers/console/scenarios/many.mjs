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
    let added = 0;
    const isRow = (node) => node instanceof Element && node.classList.contains("entry");
    const observer = new MutationObserver((changes) => { for (const change of changes) added += [...change.addedNodes].filter(isRow).length; });
    observer.observe(list, { childList: true, subtree: true });
    /** Scrolls to each place, and returns the most rows in the page, the most rows made for a step, and the times of frames. */
    const scroll = async (places) => {
      const found = { rows: 0, made: 0, times: [] };
      for (const place of places) {
        added = 0;
        const begin = performance.now();
        list.scrollTop = place;
        await frame();
        await frame();
        found.times.push((performance.now() - begin) / 2);
        found.rows = Math.max(found.rows, list.querySelectorAll(".entry").length);
        found.made = Math.max(found.made, added);
      }
      found.times.sort((first, second) => first - second);
      return found;
    };
    const jumps = await scroll(Array.from({ length: 120 }, (_, at) => (list.scrollHeight * at) / 120));
    const height = list.querySelector(".entry").getBoundingClientRect().height;
    await scroll([40 * height]);
    const steps = await scroll(Array.from({ length: 120 }, (_, at) => 40 * height + at * height));
    observer.disconnect();
    return { jumps, steps };
  });
  const { jumps, steps } = figures;
  assert.ok(jumps.rows > 5 && jumps.rows < 120, `${jumps.rows} rows are in the page`);
  // What a step costs does not depend on the number of entries, and little on how far it goes: the time itself is up to the machine.
  assert.ok(jumps.made <= 2 * jumps.rows, `a jump makes ${jumps.made} rows`);
  assert.ok(steps.made <= jumps.rows / 2, `a step by one row makes ${steps.made} rows`);
  await page.evaluate(() => { const list = document.querySelector(".virtual"); list.scrollTop = list.scrollHeight; });
  await tab.until("the oldest entry is in view", async () => (await page.locator(".entry").last().innerText()).includes("github___list_issues"));
  const frames = ({ times }) => `${times[60].toFixed(1)} ms (median) and ${times[114].toFixed(1)} ms (95th percentile)`;
  step(`${ENTRIES} entries: at most ${jumps.rows} rows in the page, ${jumps.made} made by a jump and ${steps.made} by a step of one row; frames of ${frames(jumps)} at jumps and ${frames(steps)} at steps`);
  await tab.close();
}
