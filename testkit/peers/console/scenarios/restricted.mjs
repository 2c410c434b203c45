// A token with a selection sees its part only.

import assert from "node:assert/strict";
import { step, Tab } from "../browser.mjs";

export default async function restricted(browser, { base, token, server }) {
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
}
