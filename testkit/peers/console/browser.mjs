// A browser that watches what it is not to do: errors, requests to other machines, and scripts of others.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const TOOLS = process.env.PEG_TOOLS ?? fileURLToPath(new URL("../../../.tools/", import.meta.url));
const require = createRequire(join(TOOLS, "npm-console/"));
const { chromium } = require("playwright-core");
const AXE = require.resolve("axe-core/axe.min.js");

/** How long a condition may take to become true. */
export const DEADLINE_MS = 60_000;
export const SIZES = { small: { width: 360, height: 780 }, middle: { width: 820, height: 900 }, large: { width: 1440, height: 900 } };

/** Browser messages of requests that the test itself makes fail. */
const NETWORK_MESSAGE = /Failed to load resource/;

export async function openBrowser() {
  const program = process.env.PEG_CHROMIUM ?? join(TOOLS, "chromium");
  return chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu"] });
}

/** A tab with a record of its errors and of requests that left the machine. */
export class Tab {
  /** `origin` is the only address that the page may ask. */
  static async open(browser, origin, options = {}) {
    const context = await browser.newContext({ viewport: SIZES.large, colorScheme: "light", acceptDownloads: true, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(DEADLINE_MS);
    return new Tab(context, page, origin);
  }

  constructor(context, page, origin) {
    Object.assign(this, { context, page, origin: new URL(origin).origin, problems: [], isNetworkDown: false });
    page.on("console", (message) => {
      const isExpected = NETWORK_MESSAGE.test(message.text()) && this.isNetworkDown;
      if (["error", "warning"].includes(message.type()) && !isExpected) this.problems.push(`console ${message.type()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => this.problems.push(`exception: ${error.stack ?? error}`));
    page.on("dialog", (dialog) => {
      this.problems.push(`a script opened a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("popup", (popup) => this.problems.push(`a window was opened: ${popup.url()}`));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (!["data:", "blob:"].includes(url.protocol) && url.origin !== this.origin) this.problems.push(`a request left the gateway: ${request.url()}`);
    });
  }

  async signIn(login) {
    await this.page.goto(login);
    await this.page.locator(".nav").waitFor({ state: "attached" });
    assert.ok(!this.page.url().includes("code="), "the code stays in the address");
    await this.until("the event stream is open", () => this.page.locator(".side-foot").textContent().then((text) => text.includes("Live")));
  }

  /** Shows a page by its address and waits until nothing is loading. */
  async show(path, query = "") {
    await this.page.evaluate((hash) => { location.hash = hash; }, `#/${path}${query}`);
    await this.settled();
  }

  async settled() {
    await this.until("the page has loaded", () => this.page.evaluate(() =>
      document.querySelector("#main h1") !== null && document.querySelector(".waiting, [aria-busy='true']") === null));
  }

  text() {
    return this.page.locator("body").innerText();
  }

  async sees(text) {
    await this.until(`the page shows ${JSON.stringify(text)}`, async () => (await this.text()).includes(text));
  }

  async until(what, condition) {
    const end = Date.now() + DEADLINE_MS;
    let last;
    for (;;) {
      try {
        if (await condition()) return;
      } catch (error) {
        last = error;
      }
      if (Date.now() > end) throw new Error(`not within ${DEADLINE_MS / 1000} s: ${what}; the page shows: ${await this.excerpt()}`, { cause: last });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** Waits until a figure reaches `wanted`. Only a figure that stops growing is an error: how long all of it takes is up to the machine. */
  async untilReached(what, wanted, figure) {
    let reached = await figure();
    while (reached < wanted) {
      const before = reached;
      await this.until(`${what}: ${before} of ${wanted}`, async () => (reached = await figure()) > before);
    }
  }

  /** Returns the beginning and the end of the page's text. */
  async excerpt() {
    const text = await this.text().catch(() => "nothing");
    return text.length > 2000 ? `${text.slice(0, 1000)}\n…\n${text.slice(-1000)}` : text;
  }

  /** Fails if axe-core finds a serious problem. */
  async checkAccessibility(name) {
    // The content security policy of the page does not bind what the test evaluates.
    if (!(await this.page.evaluate(() => "axe" in window))) await this.page.evaluate(await axeSource());
    const { violations } = await this.page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const serious = violations.filter((violation) => ["serious", "critical"].includes(violation.impact));
    const lines = serious.flatMap((violation) => violation.nodes.slice(0, 3).map((node) => `${name}: ${violation.id}: ${node.html.slice(0, 200)}: ${node.failureSummary.replaceAll("\n", " ")}`));
    this.problems.push(...lines);
  }

  /** Fails if the page can be scrolled sideways. */
  async checkWidth(name) {
    const over = await this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (over > 0) this.problems.push(`${name}: the page is ${over} px wider than the window`);
  }

  async shoot(name) {
    const folder = process.env.PEG_SHOTS;
    if (!folder) return;
    mkdirSync(folder, { recursive: true });
    await this.page.screenshot({ path: join(folder, `${name}.png`) });
  }

  /** Ends the tab; throws if anything happened that must not. */
  async close() {
    await this.context.close();
    assert.deepEqual(this.problems, []);
  }
}

let axe;

async function axeSource() {
  const { readFile } = await import("node:fs/promises");
  axe ??= await readFile(AXE, "utf8");
  return axe;
}

export function step(text) {
  console.log(`ok: ${text}`);
}
