// Checks without a browser: the types of the page, and that they are those of the control API.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const TOOLS = process.env.PEG_TOOLS ?? here("../../../.tools/");

const runs = [
  [here("types.mjs"), "--check"],
  [join(TOOLS, "npm-console/node_modules/typescript/bin/tsc"), "--project", here("../../../crates/pegboard-console/assets")],
];
for (const run of runs) {
  const { status } = spawnSync(process.execPath, run, { stdio: "inherit" });
  if (status !== 0) process.exit(1);
}
console.log("passed: static");
