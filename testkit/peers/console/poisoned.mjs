// An MCP server on standard input and output whose every text holds markup and scripts.
//
//     node poisoned.mjs [FILE]     changes the tool `poison_tool` when FILE appears

import { existsSync, watchFile } from "node:fs";
import { createInterface } from "node:readline";

/** Text that does something if any part of it is taken as markup. */
export const POISON = [
  `<img src=x onerror="window.poisoned=1">`,
  `<script>window.poisoned=2</script>`,
  `<svg onload="window.poisoned=3"></svg>`,
  `"><iframe srcdoc="<script>parent.poisoned=4</script>"></iframe>`,
  `<a href="javascript:window.poisoned=5">poison</a>`,
  `{{constructor.constructor('window.poisoned=6')()}}`,
  `<style>body{display:none}</style>`,
  "\u001b]8;;javascript:1\u0007",
].join(" ");

const tool = (name, more = {}) => ({
  name,
  title: `title ${POISON}`,
  description: `poison ${POISON}`,
  inputSchema: {
    type: "object",
    properties: {
      text: { type: "string", description: POISON },
      [`<b onclick="window.poisoned=7">`]: { type: "string", enum: [POISON, "b"], description: POISON },
      constructor: { type: "string" },
    },
  },
  annotations: { readOnlyHint: true, title: POISON },
  ...more,
});

const [file] = process.argv.slice(2);
const INTERVAL_MS = 200;

const isChanged = () => file !== undefined && existsSync(file);

const tools = () => [tool("poison_tool", isChanged() ? { description: `changed poison ${POISON}` } : {}), tool("markup_<img_src=x_onerror=window.poisoned=8>"), tool("failing_poison")];

function answer({ method, params }) {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: POISON, version: POISON },
        instructions: POISON,
      };
    case "tools/list":
      return { tools: tools() };
    case "tools/call":
      return {
        content: [
          { type: "text", text: `result ${POISON}` },
          { type: "text", text: JSON.stringify({ [POISON]: POISON, __proto__: POISON, html: [POISON] }) },
        ],
        structuredContent: { [POISON]: { constructor: POISON } },
        isError: params.name === "failing_poison",
      };
    case "ping":
      return {};
    default:
      return null;
  }
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  console.error(`started ${POISON}`);
  if (file !== undefined) watchFile(file, { interval: INTERVAL_MS }, () => console.log(JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed" })));
  for await (const line of createInterface({ input: process.stdin })) {
    const message = JSON.parse(line);
    if (message.id === undefined) continue;
    const result = answer(message);
    const rest = result === null ? { error: { code: -32601, message: POISON } } : { result };
    console.log(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...rest }));
  }
  process.exit(0);
}
