// Texts of servers are text: no markup, no script, no request.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { step, Tab } from "../browser.mjs";
import { Client } from "../mcp.mjs";

const MARK = `<img src=x onerror="window.poisoned=1">`;

export default async function poisoned(browser, { base, login, server, file }) {
  const tab = await Tab.open(browser, base);
  const { page } = tab;
  await tab.signIn(login);
  await tab.show("playground");
  await page.getByRole("searchbox", { name: "Search query" }).fill("poison");
  await tab.until("the hits show the markup as text", async () => (await page.locator(".hit").first().innerText()).includes(MARK));
  await page.locator(".hit").first().getByRole("button", { name: /^Why/ }).click();
  await clean(tab, "playground");
  await tab.show(`servers/${encodeURIComponent(server)}/poison_tool`);
  await tab.sees(MARK);
  await page.getByRole("textbox", { name: "text", exact: true }).fill(MARK);
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await tab.until("the result is shown", () => page.locator("section[aria-label=Call] [role=status] .badge").isVisible());
  await page.getByText("The whole result").click();
  await clean(tab, "call");
  await tab.show(`servers/${encodeURIComponent(server)}`, "?tab=log");
  await tab.sees(MARK);
  await clean(tab, "log");
  await tab.show("activity");
  await page.locator(".entry .plain", { hasText: "poison_tool" }).first().click();
  await tab.sees("Arguments");
  await clean(tab, "entry");
  await page.keyboard.press("Escape");
  await checkClient(tab, base);
  await checkApproval(tab, file);
  for (const path of ["servers", `servers/${encodeURIComponent(server)}`, "sessions", "savings", "approvals", "health", "health/configuration"]) {
    await tab.show(path);
    await clean(tab, path);
  }
  const asked = await page.evaluate(() => {
    location.hash = `#/servers/${encodeURIComponent("<img src=x onerror=window.poisoned=9>")}`;
    return document.title;
  });
  assert.ok(asked);
  await tab.sees("No server is named");
  await clean(tab, "an address with markup");
  await tab.close();
}

/** A client names itself, and so does the page. */
async function checkClient(tab, base) {
  const client = await Client.connect(`${base}/mcp`, { name: `client ${MARK}` });
  await client.listTools();
  await client.call("poison_tool", { text: MARK });
  for (const path of ["sessions", "activity"]) {
    await tab.show(path);
    await tab.sees(`client ${MARK}`);
    await clean(tab, `${path} of a client with markup in its name`);
  }
}

/** A tool that changes is shown as a diff. */
async function checkApproval(tab, file) {
  writeFileSync(file, "");
  await tab.show("approvals");
  await tab.sees(`changed poison ${MARK}`);
  await clean(tab, "a changed tool");
}

/** Fails if the page has elements or effects of the texts of a server. */
async function clean(tab, where) {
  const found = await tab.page.evaluate(() => ({
    poisoned: "poisoned" in window ? window.poisoned : null,
    elements: [...document.querySelectorAll("img, iframe, script:not([src^='/console/']), style, object, embed, [onerror], [onload], [onclick], a[href^='javascript' i]")].map((element) => element.outerHTML.slice(0, 200)),
    isShown: getComputedStyle(document.body).display !== "none",
  }));
  assert.deepEqual(found, { poisoned: null, elements: [], isShown: true }, where);
  step(`${where}: text of the server stays text`);
}
