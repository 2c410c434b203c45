// The pages of a gateway with a configuration file and a state folder: cases, approvals, health, the file, clients.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { SIZES, step, Tab } from "../browser.mjs";

const PAGES = [["approvals", ""], ["health", ""], ["health/configuration", ""], ["health/clients", ""], ["servers", ""], ["playground", ""]];

export default async function configured(browser, { base, login, file }) {
  const tab = await Tab.open(browser, base);
  await tab.signIn(login);
  await checkCases(tab);
  await checkApprovals(tab, file);
  await checkHealth(tab);
  await checkClients(tab);
  await tab.close();
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
  await tab.checkAccessibility("approvals");
  await tab.shoot("approvals");
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

async function checkHealth(tab) {
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
  await tab.show("health");
  await tab.until("findings", () => page.locator("section[aria-label=Findings]").isVisible());
  await tab.show("health/configuration");
  await tab.sees("mcpServers.changing.command");
  await page.getByRole("button", { name: /Show mcpServers.changing.command in the file/ }).click();
  await tab.until("the line is marked", async () => (await page.locator(".file .marked").innerText()).includes("command"));
  step("health: findings, and the configuration with the places of its settings");
}

async function checkClients(tab) {
  const { page } = tab;
  await tab.show("health/clients");
  await page.getByRole("button", { name: /^Preview the connection of/ }).first().click();
  await tab.until("a preview", () => page.getByRole("dialog").locator(".diff").isVisible());
  assert.match(await page.getByRole("dialog").locator(".diff").innerText(), /pegboard/i);
  await tab.checkAccessibility("preview");
  await tab.shoot("connect");
  await page.getByRole("button", { name: "Cancel" }).click();
  step("health: a connection of a client is previewed");
}
