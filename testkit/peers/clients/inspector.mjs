// Drives a gateway with MCP Inspector's command lines. `mcpdo` keeps one connection over many
// commands, so a session can be followed; the plain CLI connects anew for each command and
// serves here for one listing:
//
//   node .tools/npm/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js \
//     --cli URL --transport http --protocol-era legacy|modern|auto --format json -q --method tools/list
//
// Neither reports notifications, so `list_changed` stays unknown. Both look a tool up in the
// listing before they call it, and refuse to call one that is not listed.

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { contentText, names, promptText, readTask, Report, resourceText, run, tools, version } from "./common.mjs";

const inspector = path.join(tools, "npm/node_modules/@modelcontextprotocol/inspector/clients");
const task = readTask();
const report = new Report("inspector", version("@modelcontextprotocol/inspector"), task);
const { values } = report;
values.list_changed = null;
values.progress = null;

// Its own home and daemon: the user's catalog, secrets and connections are none of ours.
const home = mkdtempSync(path.join(tmpdir(), "peg-"));
const env = {
  ...process.env,
  HOME: home,
  MCP_INSPECTOR_DAEMON_DIR: home,
  MCP_INSPECTOR_DAEMON_TOKEN: randomBytes(16).toString("hex"),
  MCP_INSPECTOR_SECRET_STORE: "memory",
};

async function inspect(script, args) {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [path.join(inspector, script), ...args], {
      env,
      maxBuffer: 64 << 20,
    });
    return JSON.parse(stdout);
  } catch (error) {
    // A tool's own error comes with its result and a failing exit code.
    if (error.stdout) return JSON.parse(error.stdout);
    throw complaint(error.stderr) ?? error;
  }
}

// Failures are one line of JSON, after remarks about how secrets are kept.
function complaint(stderr) {
  const line = stderr?.split("\n").findLast((line) => line.startsWith('{"error":'));
  return line && JSON.parse(line).error.message;
}

const mcpdo = (...args) => inspect("mcpdo/build/mcp-bin.js", ["--format", "json", "--connection", "peg", ...args]);
const cli = (...args) =>
  inspect("launcher/build/index.js", [
    ...["--cli", task.url, "--transport", "http", "--protocol-era", task.era, "--format", "json", "-q"],
    ...args,
  ]);
const call = (tool) => mcpdo("tools/call", tool.name, "--tool-args-json", JSON.stringify(tool.arguments));

await run(report, {
  connect: () => mcpdo("connect", "--era", task.era, "--elicit", "off", "--transport", "http", task.url),
  async steps() {
    let offers = {};
    await report.step("connection", async () => {
      const { protocolVersion, serverInfo, capabilities } = await mcpdo("connections/show");
      values.protocol = protocolVersion;
      values.server = serverInfo?.name ?? null;
      offers = capabilities ?? {};
    });
    await report.step("tools/list", async () => {
      values.tools_before = names((await mcpdo("tools/list")).tools);
    });
    await report.step("search", async () => {
      const found = await call(task.search);
      values.search = contentText(found.content);
      if (found.isError) throw values.search;
    });
    await report.step("tools/list again", async () => {
      values.tools_after = names((await mcpdo("tools/list")).tools);
    });
    // The list of a modern connection does not change with what was called on it.
    const modern = values.protocol >= "2026";
    if (task.call && modern && !values.tools_after?.includes(task.call.name)) {
      values.call_skipped = `\`${task.call.name}\` is not listed`;
    } else if (task.call) {
      await report.step("call", async () => {
        const answer = await call(task.call);
        values.call = contentText(answer.content);
        values.call_is_error = answer.isError === true;
      });
    }
    if (offers.prompts) {
      await report.step("prompts/list", async () => {
        values.prompts = names((await mcpdo("prompts/list")).prompts);
      });
    }
    if (task.prompt) {
      await report.step("prompts/get", async () => {
        const given = Object.entries(task.prompt.arguments).map(([name, value]) => `${name}=${value}`);
        const options = given.length > 0 ? ["--prompt-args", ...given] : [];
        values.prompt = promptText((await mcpdo("prompts/get", task.prompt.name, ...options)).messages);
      });
    }
    if (offers.resources) {
      await report.step("resources/list", async () => {
        values.resources = (await mcpdo("resources/list")).resources.map(({ uri }) => uri);
      });
    }
    if (task.resource) {
      await report.step("resources/read", async () => {
        values.resource = resourceText((await mcpdo("resources/read", task.resource.uri)).contents);
      });
    }
    await report.step("tools/list of the CLI", async () => {
      values.cli_tools = names((await cli("--method", "tools/list")).result.tools);
    });
  },
  close: () => mcpdo("disconnect"),
  async always() {
    await mcpdo("daemon", "stop").catch(() => {});
    rmSync(home, { recursive: true, force: true });
  },
});
