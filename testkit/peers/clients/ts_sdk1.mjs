// Drives a gateway with @modelcontextprotocol/sdk, the 1.x line, over Streamable HTTP.

import { exercise, readTask, Report, run, Signal, version } from "./common.mjs";

const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");

const task = readTask();
const report = new Report("ts-sdk1", version("@modelcontextprotocol/sdk"), task);

if (task.era === "modern") {
  report.values.skipped = "this client speaks the legacy era only";
  report.finish();
} else {
  const changed = new Signal();
  // With its defaults the client lists again by itself and then tells its host.
  const onChanged = (error) => {
    if (error) report.fail(error);
    report.values.list_changed += 1;
    changed.happen();
  };
  const transport = new StreamableHTTPClientTransport(new URL(task.url));
  const client = new Client({ name: "pegboard-peer", version: "1" }, { listChanged: { tools: { onChanged } } });
  await run(report, {
    connect: () => client.connect(transport),
    steps: () =>
      exercise(client, task, report, {
        protocol: transport.protocolVersion,
        changed,
        call: (params, options) => client.callTool(params, undefined, options),
      }),
    async close() {
      await transport.terminateSession();
      await client.close();
    },
  });
}
