// A token with a selection sees its part only.

import assert from "node:assert/strict";
import { step, Tab } from "../browser.mjs";

export default async function restricted(browser, { base, token, admin, server }) {
  const tab = await Tab.open(browser, base);
  const { page } = tab;
  await page.goto(`${base}/console/`);
  await tab.sees("Sign in to Pegboard");
  await tab.checkAccessibility("sign-in");
  await tab.shoot("sign-in");
  tab.isNetworkDown = true;
  await page.getByLabel("Token").fill("not a token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await tab.until("a wrong token is refused", () => page.getByRole("alert").isVisible());
  tab.isNetworkDown = false;
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator(".nav").waitFor();
  step("sign-in with a token");
  await tab.show("servers");
  await tab.until("the one server", async () => (await page.locator("tbody tr").count()) === 1);
  assert.equal(await page.locator("tbody th .name").textContent(), server);
  step("servers: only those of the selection");
  const links = await page.locator(".nav a").allInnerTexts();
  for (const hidden of ["Savings", "Approvals", "Health"]) assert.ok(!links.some((link) => link.includes(hidden)), `${hidden} is offered`);
  await tab.show("playground");
  await page.getByRole("searchbox", { name: "Search query" }).fill("list everything");
  await tab.until("hits or none", async () => /hits?|No tool matches/.test(await page.locator(".hits").innerText()));
  const names = await page.locator(".hit .tool-name").allInnerTexts();
  assert.ok(names.every((name) => name.startsWith(`${server}___`) || !name.includes("___")), `hits of others: ${names}`);
  assert.equal(await page.getByLabel("See as").count(), 0);
  step("playground: only tools of the selection, and no other tokens");
  for (const path of ["activity", "sessions"]) await tab.show(path);
  await page.getByRole("button", { name: "Sign out" }).click();
  await tab.sees("Sign in to Pegboard");
  assert.equal(await page.evaluate(() => sessionStorage.getItem("pegboard.credential")), null);
  step("sign-out forgets the credential");
  await tab.close();
  await checkAsToken(browser, { base, admin, server });
}

/** Signs in with a token that sees everything, and searches as the other one. */
async function checkAsToken(browser, { base, admin, server }) {
  const tab = await Tab.open(browser, base);
  const { page } = tab;
  await page.goto(`${base}/console/`);
  await page.getByLabel("Token").fill(admin);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator(".nav").waitFor();
  await tab.show("playground");
  await page.getByRole("searchbox", { name: "Search query" }).fill("poison");
  const servers = async () => new Set((await page.locator(".hit .tool-name").allInnerTexts()).map((name) => name.split("___")[0]));
  await tab.until("hits of both servers", async () => (await servers()).size === 2);
  await page.getByLabel("See as").selectOption("part");
  await tab.until("it says whose view it is", async () => /seen as token\s+part/.test(await page.locator(".remarks").innerText()));
  await tab.until("only hits of the token's server", async () => [...(await servers())].join() === server);
  await page.getByLabel("See as").selectOption("");
  await tab.until("hits of both servers again", async () => (await servers()).size === 2);
  step("playground: an admin sees what a token sees");
  await tab.close();
}
