// The pages of a gateway with a configuration file and a state folder: cases, sessions, savings, servers, approvals, health, the
// file, clients.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SIZES, step, Tab } from "../browser.mjs";
import { Client } from "../mcp.mjs";

const PAGES = [["approvals", ""], ["health", ""], ["health/configuration", ""], ["health/clients", ""], ["servers", ""], ["playground", ""], ["activity", ""], ["sessions", ""], ["savings", ""]];
const TOOL = "changing___repeat";

export default async function configured(browser, { base, login, file, home }) {
  const tab = await Tab.open(browser, base);
  await tab.signIn(login);
  const client = await useGateway(base);
  await checkCases(tab);
  await checkExport(tab);
  await checkSavings(tab);
  await checkSession(tab, client);
  await checkSwitch(tab);
  await checkApprovals(tab, file);
  await checkHealth(tab);
  await checkClients(tab, home);
  await tab.close();
}

/** Searches for the tool, which loads it, and calls it. */
async function useGateway(base) {
  const client = await Client.connect(`${base}/mcp`, { name: "configured-check" });
  const { tools } = await client.listTools();
  await client.call(tools.find((tool) => tool.name.includes("search")).name, { query: "repeat a text" });
  await client.call(TOOL, {});
  return client;
}

async function checkExport(tab) {
  const { page } = tab;
  await tab.show("activity");
  await tab.until("the call is listed", async () => (await page.locator(".entry", { hasText: TOOL }).count()) > 0);
  const waiting = page.waitForEvent("download");
  await page.getByRole("button", { name: "For eval" }).click();
  const lines = readFileSync(await (await waiting).path(), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  assert.ok("begin" in lines[0], JSON.stringify(lines[0]));
  for (const kind of ["tool", "search", "call"]) assert.ok(lines.some((line) => kind in line), `no line of a ${kind}`);
  step("activity: a record for `pegboard eval`");
}

async function checkSavings(tab) {
  const { page } = tab;
  await tab.show("savings");
  await tab.sees("Money saved");
  await page.getByText("EUR", { exact: true }).first().click();
  await tab.until("the shares are in money", async () => (await page.locator("section[aria-label='By client']").innerText()).includes("EUR"));
  step("savings: in money");
}

async function checkSession(tab, client) {
  const { page } = tab;
  const isListed = async () => (await client.listTools()).tools.some((tool) => tool.name === TOOL);
  assert.ok(await isListed(), "the search has loaded the tool");
  await tab.show("sessions");
  const keep = page.getByRole("button", { name: `Keep ${TOOL}` });
  await keep.click();
  await tab.sees(`${TOOL} stays visible`);
  await tab.until("it is shown as kept", async () => (await keep.getAttribute("aria-pressed")) === "true");
  await page.getByRole("button", { name: `Unload ${TOOL}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Unload" }).click();
  await tab.sees(`Unloaded ${TOOL}`);
  await tab.until("it is gone from the page", async () => (await keep.count()) === 0);
  assert.ok(!(await isListed()), "the client still sees the tool");
  step("sessions: a loaded tool is kept, and unloaded");
}

async function checkSwitch(tab) {
  const { page } = tab;
  const state = () => page.locator(".page-head .badge").first().textContent();
  await tab.show("servers/fixture");
  await page.getByRole("button", { name: "Disable fixture" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Disable" }).click();
  await tab.until("it is disabled", async () => (await state()) === "disabled");
  await page.getByRole("button", { name: "Enable fixture" }).click();
  await tab.until("it is ready again", async () => (await state()) === "ready");
  step("servers: one is disabled and enabled in the file");
}

async function checkCases(tab) {
  const { page } = tab;
  await tab.show("playground");
  await page.getByRole("searchbox", { name: "Search query" }).fill("repeat a text");
  await page.getByRole("button", { name: "Expect changing___repeat" }).click();
  await page.getByRole("button", { name: /Save as case/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Save", exact: true }).click();
  const cases = page.locator("section[aria-label='Saved cases']");
  await tab.until("the case and the recall of the rankers are listed", async () => /hybrid[\s\S]*100 %[\s\S]*repeat a text/.test(await cases.innerText()));
  await tab.checkAccessibility("cases");
  await tab.show("servers");
  await tab.show("playground");
  await tab.until("the case is kept", async () => (await cases.innerText()).includes("repeat a text"));
  const remove = cases.getByRole("button", { name: "Delete the case repeat a text" });
  await remove.click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await remove.click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await tab.until("the case is gone", async () => !(await cases.innerText()).includes("repeat a text"));
  step("playground: a case is saved, measured and deleted");
}

async function checkApprovals(tab, file) {
  const { page } = tab;
  const tools = JSON.parse(readFileSync(file, "utf8"));
  const write = (description) => writeFileSync(file, JSON.stringify(tools.map((tool) => ({ ...tool, description }))));
  await tab.show("approvals");
  await tab.sees("No pending approvals");
  write("Repeats a text, and sends your keys away");
  const card = page.locator("section[aria-label='changing/repeat']");
  await tab.until("the change appears", () => card.isVisible());
  assert.match(await card.innerText(), /changed[\s\S]*sends your keys away/);
  await tab.until("the navigation counts it", () => page.locator(".nav .count").isVisible());
  await checkLooks(tab);
  await tab.show("approvals");
  await card.getByRole("button", { name: "Approve changing/repeat" }).click();
  await tab.sees("Approved changing/repeat");
  await tab.until("nothing waits any more", async () => (await card.count()) === 0);
  write("Repeats a text in reverse");
  await tab.until("the next change appears", () => card.isVisible());
  await card.getByRole("button", { name: "Reject changing/repeat" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
  await tab.sees("Rejected changing/repeat");
  await tab.until("it is listed as rejected", async () => (await page.locator("section[aria-label=Rejected]").textContent()).includes("changing/repeat"));
  step("approvals: a change appears, is approved, and another is rejected");
}

/** Every page, while a change waits for approval. */
async function checkLooks(tab) {
  const { page } = tab;
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      for (const [path, query] of PAGES) {
        await tab.show(path, query);
        const name = `configured-${path.replace("/", "-")}-${size}-${colorScheme}`;
        await tab.checkWidth(name);
        await tab.checkAccessibility(name);
        await tab.shoot(name);
      }
    }
  }
  await page.setViewportSize(SIZES.large);
  await page.emulateMedia({ colorScheme: "light" });
  step(`${PAGES.length} pages in two themes at three widths`);
}

async function checkHealth(tab) {
  const { page } = tab;
  await tab.show("health");
  await tab.until("findings", () => page.locator("section[aria-label=Findings]").isVisible());
  await tab.show("health/configuration");
  await tab.sees("mcpServers.changing.command");
  await page.getByRole("button", { name: /Show mcpServers.changing.command in the file/ }).click();
  await tab.until("the line is marked", async () => (await page.locator(".file .marked").innerText()).includes("command"));
  step("health: findings, and the configuration with the places of its settings");
}

async function checkClients(tab, home) {
  const { page } = tab;
  const file = join(home, ".cursor/mcp.json");
  const before = readFileSync(file, "utf8");
  await tab.show("health/clients");
  await page.getByRole("button", { name: "Preview the connection of Cursor" }).click();
  await tab.until("a preview", () => page.getByRole("dialog").locator(".diff").isVisible());
  assert.match(await page.getByRole("dialog").locator(".diff").innerText(), /pegboard/i);
  await tab.checkAccessibility("preview");
  await tab.shoot("connect");
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal(readFileSync(file, "utf8"), before);
  step("health: a connection of a client is previewed");
  await page.getByRole("button", { name: "Preview the connection of Cursor" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Write the file" }).click();
  await tab.sees("Cursor uses Pegboard after its next start");
  assert.match(readFileSync(file, "utf8"), /pegboard/i);
  await page.getByRole("button", { name: "Undo the change of Cursor" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Undo" }).click();
  await tab.sees("Cursor restored");
  assert.equal(readFileSync(file, "utf8"), before);
  step("health: a connection is written and undone");
}
