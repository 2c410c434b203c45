// Calls a tool with @modelcontextprotocol/sdk over a connection that breaks after the first event, and
// prints what arrived. The client resumes the stream by itself.

import { version } from "./common.mjs";

const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");

const [url, name, argumentsText] = process.argv.slice(2);
const report = { version: version("@modelcontextprotocol/sdk"), broken: 0, resumed: 0, progress: [], text: null };

/** A body that fails after its first chunk. */
function breaking(body) {
  const reader = body.getReader();
  let chunks = 0;
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await reader.read();
      if (done) return controller.close();
      controller.enqueue(value);
      chunks += 1;
      if (chunks > 1) return;
      report.broken += 1;
      await reader.cancel();
      controller.error(new Error("the connection is lost"));
    },
  });
}

async function brokenFetch(input, init) {
  const headers = new Headers(init?.headers);
  if (headers.has("last-event-id")) report.resumed += 1;
  const response = await fetch(input, init);
  const isCall = init?.method === "POST" && String(init.body).includes('"tools/call"');
  if (!isCall || !response.headers.get("content-type")?.includes("text/event-stream")) return response;
  return new Response(breaking(response.body), { status: response.status, headers: response.headers });
}

const transport = new StreamableHTTPClientTransport(new URL(url), { fetch: brokenFetch });
const client = new Client({ name: "pegboard-peer", version: "1" });
client.onerror = () => {};
await client.connect(transport);
const result = await client.callTool({ name, arguments: JSON.parse(argumentsText) }, undefined, {
  onprogress: ({ progress }) => report.progress.push(progress),
  timeout: 60_000,
});
report.text = result.content?.[0]?.text ?? null;
await transport.terminateSession();
await client.close();
process.stdout.write(`${JSON.stringify(report)}\n`);
process.exit(0);
