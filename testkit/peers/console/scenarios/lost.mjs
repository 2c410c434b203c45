// A lost connection is shown and comes back by itself, without losing what happened.

import { step, Tab } from "../browser.mjs";
import { Client } from "../mcp.mjs";
import { Proxy } from "../proxy.mjs";

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
  await tab.close();
  await proxy.cut();
}
