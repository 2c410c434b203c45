// Drives a gateway with @modelcontextprotocol/client, the 2.x line, over Streamable HTTP.

import { exercise, readTask, Report, run, Signal, version } from "./common.mjs";

const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");

const MODES = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } };

const task = readTask();
const report = new Report("ts-client2", version("@modelcontextprotocol/client"), task);
const changed = new Signal();
// With its defaults the client lists again by itself and then tells its host.
const onChanged = (error) => {
  if (error) report.fail(error);
  report.values.list_changed += 1;
  changed.happen();
};
const transport = new StreamableHTTPClientTransport(new URL(task.url));
const client = new Client(
  { name: "pegboard-peer", version: "1" },
  { listChanged: { tools: { onChanged } }, versionNegotiation: { mode: MODES[task.era] } },
);

await run(report, {
  connect: () => client.connect(transport),
  async steps() {
    // On a modern connection the client asked for changes while it connected.
    report.values.listen = client.autoOpenedSubscription?.honoredFilter ?? null;
    await exercise(client, task, report, {
      protocol: client.getNegotiatedProtocolVersion(),
      changed,
      call: (params, options) => client.callTool(params, options),
      // Each listing is to reach the server; a modern client may answer from its cache.
      fresh: { cacheMode: "bypass" },
    });
  },
  async close() {
    await transport.terminateSession();
    await client.close();
  },
});
