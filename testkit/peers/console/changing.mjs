// An MCP server on standard input and output that offers what a file says, also after the file has changed.
//
//     node changing.mjs FILE     FILE is a JSON array of tools

import { readFileSync, watchFile } from "node:fs";
import { createInterface } from "node:readline";

const [file] = process.argv.slice(2);
const INTERVAL_MS = 200;

const send = (message) => console.log(JSON.stringify({ jsonrpc: "2.0", ...message }));

function answer({ method, params }) {
  switch (method) {
    case "initialize":
      return { protocolVersion: params.protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo: { name: "changing", version: "1" } };
    case "tools/list":
      return { tools: JSON.parse(readFileSync(file, "utf8")) };
    case "tools/call":
      return { content: [{ type: "text", text: `called ${params.name}` }] };
    case "ping":
      return {};
    default:
      return null;
  }
}

watchFile(file, { interval: INTERVAL_MS }, () => send({ method: "notifications/tools/list_changed" }));
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const message = JSON.parse(line);
  if (message.id === undefined) return;
  const result = answer(message);
  send({ id: message.id, ...(result === null ? { error: { code: -32601, message: "no such method" } } : { result }) });
});
lines.on("close", () => process.exit(0));
