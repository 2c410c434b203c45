// Checks the console in a real browser, with a gateway that runs already.
//
//     node check.mjs SCENARIO --base URL [--login URL] [--token TOKEN] [--admin TOKEN] [--server NAME] [--file FILE] [--home FOLDER] [--proxy URL]
//
// --base is the address of the gateway (http://127.0.0.1:8080), --login the printed address with its
// single-use code. Prints a line for each step; exits with 1 and the reason if one fails. With
// PEG_SHOTS=FOLDER it writes screenshots there.
//
// units       what the page computes; needs no credential
// pages       every page in both themes at three widths; the gateway runs with --demo
// configured  pages of a configuration file; server `changing` is `changing.mjs FILE`, with the tool `repeat`, server `fixture` is
//             another one, tools are held, clients get the dialect `select`, and the FOLDER is the user's, with a file of Cursor
// live        changes appear without a reload; the gateway runs with --demo
// poisoned    nothing of a server or a client is markup; the server NAME is `poisoned.mjs FILE`, and tools are held
// restricted  a token sees its part only: the server NAME, and no others; an admin's sees everything
// lost        a lost connection is shown, and comes back; the gateway runs with --demo
// many        100,000 entries scroll; the gateway runs with --demo
// routes      numbers of the LLM API proxy on the gateway, in front of a scripted provider, and of the one at URL beside it

import { parseArgs } from "node:util";
import { openBrowser } from "./browser.mjs";

const SCENARIOS = ["units", "pages", "live", "poisoned", "configured", "restricted", "lost", "many", "routes"];

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { base: { type: "string" }, login: { type: "string" }, token: { type: "string" }, admin: { type: "string" }, server: { type: "string" }, file: { type: "string" }, home: { type: "string" }, proxy: { type: "string" } },
});
const [scenario] = positionals;
if (!SCENARIOS.includes(scenario) || !values.base) {
  console.error(`usage: check.mjs ${SCENARIOS.join("|")} --base URL [--login URL] [--token TOKEN] [--admin TOKEN] [--server NAME] [--file FILE] [--home FOLDER] [--proxy URL]`);
  process.exit(2);
}

const browser = await openBrowser();
try {
  const { default: run } = await import(`./scenarios/${scenario}.mjs`);
  await run(browser, { ...values, base: values.base.replace(/\/$/, "") });
  console.log(`passed: ${scenario}`);
} catch (error) {
  console.error(`failed: ${scenario}: ${error.stack ?? error}`);
  if (error.cause) console.error(`cause: ${error.cause.stack ?? error.cause}`);
  process.exitCode = 1;
} finally {
  await browser.close();
}
