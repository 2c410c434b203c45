// A lost connection is shown and comes back by itself, without losing what happened.

import { step, Tab } from "../browser.mjs";
import { Client } from "../mcp.mjs";
import { Proxy } from "../proxy.mjs";
import { entry } from "./many.mjs";

export default async function lost(browser, { base, login }) {
  const proxy = await Proxy.listen(base);
  const tab = await Tab.open(browser, proxy.origin);
  const { page } = tab;
  await tab.signIn(login.replace(base, proxy.origin));
  await tab.show("activity");
  tab.isNetworkDown = true;
  await proxy.cut();
  await tab.sees("Connection to the gateway lost");
  await tab.checkAccessibility("banner");
  await tab.shoot("lost");
  step("a lost connection is shown");
  const client = await Client.connect(`${base}/mcp`, { name: "while-away" });
  const { tools } = await client.listTools();
  await client.call(tools.find((tool) => tool.name.includes("search")).name, { query: "said while the console was away" });
  await proxy.open();
  await page.getByRole("button", { name: "Connect now" }).click().catch(() => {});
  await tab.until("the banner is gone", async () => !(await tab.text()).includes("Connection to the gateway lost"));
  tab.isNetworkDown = false;
  await tab.until("what happened meanwhile is listed", async () => (await page.locator(".entry", { hasText: "said while the console was away" }).count()) === 1);
  step("it connects again and shows what it missed");
  await checkRestart(tab, proxy);
  await tab.close();
  await proxy.cut();
}

/** A gateway that keeps no file numbers its entries from 1 on after a restart. */
async function checkRestart(tab, proxy) {
  const { page } = tab;
  const answer = (seq, query) => page.route("**/control/activity?*", (route) => route.fulfill({
    json: { entries: [{ ...entry(3), seq, query }], next: null, total: 1, newest: seq },
  }));
  const isListed = async (query) => (await page.locator(".entry", { hasText: query }).count()) === 1;
  await answer(900, "before the restart");
  await tab.show("servers");
  await tab.show("activity");
  await tab.until("the entry is listed", () => isListed("before the restart"));
  tab.isNetworkDown = true;
  await proxy.cut();
  await tab.sees("Connection to the gateway lost");
  await answer(1, "after the restart");
  await proxy.open();
  await page.getByRole("button", { name: "Connect now" }).click().catch(() => {});
  await tab.until("the entries of the new run replace the others", async () => (await isListed("after the restart")) && !(await isListed("before the restart")));
  tab.isNetworkDown = false;
  step("after a restart the entries begin anew");
}
