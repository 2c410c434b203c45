// Opens the console once for each printed URL, on different pages, and keeps them open until standard input ends.
//
//     node watch.mjs URL...
//
// Prints `ready` once all of them follow the gateway. Fails if one of them has written an error, or asked another address.

import { openBrowser, Tab } from "./browser.mjs";

const PAGES = ["activity", "servers", "savings", "sessions", "playground"];

const browser = await openBrowser();
const tabs = [];
try {
  for (const [at, login] of process.argv.slice(2).entries()) {
    const tab = await Tab.open(browser, login);
    await tab.signIn(login);
    await tab.show(PAGES[at % PAGES.length]);
    tabs.push(tab);
  }
  console.log("ready");
  for await (const _ of process.stdin);
  for (const tab of tabs) await tab.close();
} finally {
  await browser.close();
}
