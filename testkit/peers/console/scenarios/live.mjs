// What clients and servers do appears without a reload.

import assert from "node:assert/strict";
import { step, Tab } from "../browser.mjs";
import { Client } from "../mcp.mjs";

export default async function live(browser, { base, login }) {
  const tab = await Tab.open(browser, base);
  await tab.signIn(login);
  await tab.show("activity");
  const client = await Client.connect(`${base}/mcp`, { name: "live-check" });
  const { tools } = await client.listTools();
  const search = tools.find((tool) => tool.name.includes("search"));
  assert.ok(search, `a search tool: ${tools.map((tool) => tool.name)}`);
  await client.call(search.name, { query: "unpaid invoices of march" });
  await tab.until("the search appears", async () => (await tab.page.locator(".entry", { hasText: "unpaid invoices of march" }).count()) === 1);
  const row = await tab.page.locator(".entry", { hasText: "unpaid invoices of march" }).innerText();
  assert.match(row, /live-check/);
  step("activity: a search of a client appears as it happens");
  await tab.page.getByRole("button", { name: "Pause" }).click();
  await client.call(search.name, { query: "weather in oslo" });
  await tab.sees("new)");
  assert.equal(await tab.page.locator(".entry", { hasText: "weather in oslo" }).count(), 0);
  await tab.page.getByRole("button", { name: /Resume/ }).click();
  await tab.until("resume shows what came", async () => (await tab.page.locator(".entry", { hasText: "weather in oslo" }).count()) === 1);
  step("activity: pause and resume");
  await tab.page.locator(".entry .plain", { hasText: "weather in oslo" }).click();
  await tab.page.getByRole("button", { name: "Follow this session" }).click();
  await tab.sees("Following session");
  await tab.show("sessions");
  await tab.sees("live-check");
  await Client.connect(`${base}/mcp`, { name: "second-client" });
  await tab.sees("second-client");
  step("sessions: a new session appears");
  await tab.show("savings");
  await tab.sees("How this is counted");
  await tab.until("the savings name the client", async () => (await tab.page.locator("section[aria-label='By client']").innerText()).includes("live-check"));
  step("savings: by client");
  await tab.close();
}
