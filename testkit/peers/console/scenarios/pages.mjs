// The pages of the demo in both themes at three widths, and what its controls do.

import assert from "node:assert/strict";
import { SIZES, step, Tab } from "../browser.mjs";
import { Client } from "../mcp.mjs";

const PAGES = [
  ["playground", "playground", "?q=send%20a%20mail%20to%20alice"],
  ["servers", "servers", ""],
  ["server", "servers/github", ""],
  ["tool", "servers/github/create_issue", ""],
  ["server-log", "servers/github", "?tab=log"],
  ["server-details", "servers/github", "?tab=details"],
  ["activity", "activity", ""],
  ["sessions", "sessions", ""],
  ["savings", "savings", ""],
];

export default async function pages(browser, { base, login }) {
  const tab = await Tab.open(browser, base);
  await checkFirstLoad(tab, base, login);
  await checkPlayground(tab);
  await checkServers(tab);
  await checkKeyboard(tab);
  await checkActivity(tab);
  await useGateway(tab, base);
  await checkLooks(tab);
  await tab.close();
  step("no console error, no request left the gateway, axe-core found nothing serious");
}

async function checkFirstLoad(tab, base, login) {
  let bytes = 0;
  const files = [];
  tab.page.on("response", async (response) => {
    if (!response.url().startsWith(`${base}/console/`)) return;
    const { length } = await response.body().catch(() => "");
    bytes += length;
    files.push(response.url());
  });
  await tab.signIn(login);
  await tab.sees("Playground");
  assert.ok(bytes > 0 && bytes < 100_000, `the first load is ${bytes} bytes: ${files.join(" ")}`);
  const stored = await tab.page.evaluate(() => ({ cookies: document.cookie, local: localStorage.length, session: sessionStorage.length }));
  assert.equal(stored.cookies, "");
  assert.equal(stored.local, 0);
  assert.ok(stored.session > 0, "the tab does not stay signed in");
  step(`signed in with the printed URL; the first load is ${bytes} bytes uncompressed in ${files.length} files`);
}

async function checkPlayground(tab) {
  const { page } = tab;
  await tab.show("playground");
  const search = page.getByRole("searchbox", { name: "Search query" });
  await search.pressSequentially("send a mail to alice");
  const hits = page.locator(".hit");
  await tab.until("mail___send is the first hit", async () => (await hits.first().locator(".tool-name").textContent()) === "mail___send");
  assert.match(await page.locator(".hits .head").innerText(), /of 207 tools match[\s\S]*Confidence/);
  await hits.first().getByRole("button", { name: "Why mail___send" }).click();
  assert.match(await hits.first().locator(".reasons").innerText(), /meaning[\s\S]*\+0\.\d/);
  const reply = await page.getByRole("region", { name: "Text for the model" }).textContent();
  assert.match(reply, /send/);
  assert.match(await page.locator("section[aria-label='What the model reads']").innerText(), /\d+ tokens?/);
  step("playground: hits as you type, with reasons, confidence, and the text for the model with its tokens");
  await page.getByRole("combobox", { name: "Tool" }).fill("calendar___deleteEvent");
  await tab.until("why-not answers", () => page.locator("section[aria-label='Why not this tool?'] [role=status]").isVisible());
  step("playground: why not a tool");
  await search.fill("send a mail to alice xyzzyqua");
  await tab.sees("xyzzyqua");
  await tab.until("unmatched words are shown", () => page.locator(".remarks .chip.missed", { hasText: "xyzzyqua" }).isVisible());
  await page.getByRole("button", { name: "Compare" }).click();
  await tab.until("two lanes", async () => (await page.locator(".lanes.two .hits").count()) === 2);
  const lanes = page.locator(".lane");
  await lanes.nth(1).getByLabel("Ranker").selectOption("bm25");
  await tab.until("the second lane is bm25", async () => (await lanes.nth(1).locator(".hits .head").innerText()).includes("bm25"));
  await tab.shoot("compare");
  await page.getByRole("button", { name: "Compare" }).click();
  step("playground: two rankers side by side");
}

async function checkServers(tab) {
  const { page } = tab;
  await tab.show("servers");
  await tab.until("15 servers", async () => (await page.locator("tbody tr").count()) === 15);
  await page.getByRole("searchbox", { name: "Filter servers" }).fill("mail");
  await tab.until("the filter leaves mail", async () => (await page.locator("tbody tr").count()) < 15);
  await page.getByRole("link", { name: "mail", exact: true }).click();
  await tab.sees("An email mailbox");
  await page.locator(".tool-list a").first().click();
  await tab.show("servers/calendar/list_events");
  await tab.show("servers/github/list_issues");
  await page.getByRole("textbox", { name: "owner (required)" }).waitFor();
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await tab.sees("Required");
  await page.getByRole("textbox", { name: "owner (required)" }).fill("acme");
  await page.getByRole("textbox", { name: "repo (required)" }).fill("website");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await tab.until("the call has a result", () => page.locator("section[aria-label=Call] [role=status] .badge").isVisible());
  step("servers: a tool is called with the form of its schema");
  await tab.show("servers/home");
  await page.getByRole("button", { name: "Restart home" }).click();
  await tab.until("it asks first", () => page.getByRole("dialog").isVisible());
  await page.keyboard.press("Escape");
  await tab.until("escape closes the dialog", async () => (await page.getByRole("dialog").count()) === 0);
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("aria-label")), "Restart home");
  await page.getByRole("button", { name: "Restart home" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Restart" }).click();
  await tab.sees("home is restarting");
  await tab.until("it is ready again", async () => (await page.locator(".page-head .badge").first().textContent()) === "ready");
  step("servers: a restart asks first, and the focus returns");
}

async function checkKeyboard(tab) {
  const { page } = tab;
  await tab.show("servers");
  await page.evaluate(() => { if (document.activeElement instanceof HTMLElement) document.activeElement.blur(); });
  await page.keyboard.press("g");
  await page.keyboard.press("p");
  await tab.until("g p shows the playground", async () => (await page.title()) === "Playground · Pegboard");
  await page.evaluate(() => { if (document.activeElement instanceof HTMLElement) document.activeElement.blur(); });
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement?.hasAttribute("data-search")), true);
  await page.keyboard.press("Escape");
  await page.evaluate(() => { if (document.activeElement instanceof HTMLElement) document.activeElement.blur(); });
  await page.keyboard.press("?");
  await tab.sees("Keyboard shortcuts");
  await tab.checkAccessibility("help");
  await page.keyboard.press("Escape");
  await page.locator("body").press("Tab");
  await page.locator(".skip").focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "main");
  step("keyboard: shortcuts and skip link");
}

async function checkActivity(tab) {
  const { page } = tab;
  await tab.show("activity");
  await page.locator(".entry .plain", { hasText: "github___list_issues" }).first().click();
  await tab.until("the entry opens", () => page.getByRole("dialog").isVisible());
  await tab.sees("acme");
  await tab.shoot("entry");
  await tab.checkAccessibility("entry");
  await page.keyboard.press("Escape");
  await page.getByLabel("Kind").selectOption("call");
  await tab.until("only calls", async () => (await page.locator(".entry .badge", { hasText: "list" }).count()) === 0);
  const waiting = page.waitForEvent("download");
  await page.getByRole("button", { name: "JSON Lines" }).click();
  const file = await (await waiting).path();
  const { readFileSync } = await import("node:fs");
  const lines = readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line));
  assert.ok(lines.length > 0 && lines.every((line) => line.kind === "call"), "the export has the calls");
  step("activity: details, filter and export");
}

/** Lists, searches and calls as clients do, so that the pages about them have something to show. */
async function useGateway(tab, base) {
  for (const name of ["claude-code", "cursor"]) {
    const client = await Client.connect(`${base}/mcp`, { name });
    const { tools } = await client.listTools();
    const search = tools.find((tool) => tool.name.includes("search")).name;
    for (const query of ["open issues of the website", "send a mail to alice", "unpaid invoices of march"]) await client.call(search, { query });
    await client.call("github___list_issues", { owner: "acme", repo: "website" });
  }
  await tab.show("sessions");
  await tab.until("both sessions are listed", async () => (await tab.page.locator("section[aria-label^='Session ']").count()) === 2);
  await tab.show("savings");
  await tab.until("the savings name the client", async () => (await tab.page.locator("section[aria-label='By client']").innerText()).includes("claude-code"));
  await tab.page.getByLabel("Client or server", { exact: true }).selectOption("cclaude-code");
  await tab.until("the plot is that of the client", async () => (await tab.page.locator(".plot svg").getAttribute("aria-label")) === "Saved by day: 1 day");
  await tab.show("activity", "?kind=search");
  await tab.until("searches of both clients are listed", async () => /claude-code[\s\S]*cursor|cursor[\s\S]*claude-code/.test(await tab.page.locator(".virtual").innerText()));
  step("sessions, savings and activity of two clients");
}

async function checkLooks(tab) {
  const { page } = tab;
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      for (const [name, path, query] of PAGES) {
        await tab.show(path, query);
        const label = `${name}-${size}-${colorScheme}`;
        await tab.checkWidth(label);
        await tab.checkAccessibility(label);
        await tab.shoot(label);
      }
    }
  }
  await page.setViewportSize(SIZES.small);
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("link", { name: "Servers", exact: true }).click();
  await tab.until("the menu leads to the servers", async () => (await page.title()) === "Servers · Pegboard");
  step(`${PAGES.length} pages in two themes at three widths`);
}
