// A server on the TypeScript SDK with the fixtures of the conformance suite.
//
//     node ts_server.mjs --stdio
//     node ts_server.mjs --http PORT
//
// The packages are found through PEG_MODULES, a folder `node_modules`.

import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const packages = (path) => import(join(process.env.PEG_MODULES, "@modelcontextprotocol", path));
const sdk = await packages("server/dist/index.mjs");
const { serveStdio } = await packages("server/dist/stdio.mjs");
const node = await packages("node/dist/index.mjs");

const FIXTURES = JSON.parse(readFileSync(new URL("fixtures.json", import.meta.url), "utf8"));
const TOOLS = new Map(FIXTURES.tools.map((tool) => [tool.name, tool]));
const PROMPTS = new Map(FIXTURES.prompts.map((prompt) => [prompt.name, prompt]));
const RESOURCES = new Map(FIXTURES.resources.map((resource) => [resource.uri, resource]));
const STEP_MS = 50;
const INVALID_PARAMS = -32602;
const MISSING_CAPABILITY = -32021;

const revision = { tools: 1, prompts: 1 };
const states = sdk.createRequestStateCodec({ key: randomBytes(32) });

const pick = (source, ...keys) => Object.fromEntries(keys.filter((key) => key in source).map((key) => [key, source[key]]));

/** Replaces `{path.to.value}` in all strings below `value` by what is known. */
function fill(value, known) {
  if (Array.isArray(value)) return value.map((inner) => fill(inner, known));
  if (value !== null && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, fill(inner, known)]));
  return typeof value === "string" ? value.replace(/\{([\w.]+)\}/g, (_, path) => lookUp(path, known)) : value;
}

function lookUp(path, known) {
  const found = path.split(".").reduce((value, key) => value?.[key], known);
  return typeof found === "string" ? found : JSON.stringify(found ?? null);
}

const capability = (question) => question.method.split("/")[0];

function declared(server, ctx) {
  return ctx.mcpReq.envelope?.[sdk.CLIENT_CAPABILITIES_META_KEY] ?? server.getClientCapabilities() ?? {};
}

function require(server, ctx, name) {
  if (name in declared(server, ctx)) return;
  const data = { requiredCapabilities: { [name]: {} } };
  throw new sdk.ProtocolError(MISSING_CAPABILITY, `the client does not offer ${name}`, data);
}

/** Whether an answer is complete; an error if it answers something else. */
function isAnswer(question, answer) {
  const fits = {
    "elicitation/create": () => ["accept", "decline", "cancel"].includes(answer?.action),
    "sampling/createMessage": () => typeof answer?.content === "object",
    "roots/list": () => Array.isArray(answer?.roots),
  }[question.method]();
  if (!fits) throw new sdk.ProtocolError(INVALID_PARAMS, `no answer to ${question.method}`);
  const required = answer.action === "accept" ? question.params.requestedSchema.required : [];
  return required.every((key) => key in (answer.content ?? {}));
}

/** Asks all rounds of questions; an `input_required` result if the client must come back. */
async function gather(server, ctx, fixture, known) {
  const given = ctx.mcpReq.inputResponses ?? {};
  Object.assign(known, ctx.mcpReq.requestState() ?? {});
  for (const all of fill(fixture.rounds ?? [], known)) {
    const may = ([, question]) => !fixture.withinCapabilities || capability(question) in declared(server, ctx);
    const questions = Object.entries(all).filter(may);
    for (const [key, question] of questions) {
      if (key in known) continue;
      if (fixture.onConnection) known[key] = await ctx.mcpReq.send(question);
      else if (key in given && isAnswer(question, given[key])) known[key] = given[key];
    }
    const missing = questions.filter(([key]) => !(key in known));
    if (missing.length === 0) continue;
    const { arguments: _, ...state } = known;
    return {
      resultType: "input_required",
      inputRequests: Object.fromEntries(missing),
      ...(fixture.state ? { requestState: await states.mint(state, ctx) } : {}),
    };
  }
}

/** What a tool does before it asks or answers. */
async function work(server, ctx, tool, notifier) {
  if (tool.require) require(server, ctx, tool.require);
  const progressToken = ctx.mcpReq._meta?.progressToken;
  for (const progress of tool.report ?? []) {
    const params = { progressToken, progress, total: 100 };
    if (progressToken !== undefined) await ctx.mcpReq.notify({ method: "notifications/progress", params });
    await sleep(STEP_MS);
  }
  for (const text of tool.log ?? []) {
    await ctx.mcpReq.log("info", text);
    await sleep(STEP_MS);
  }
  if (tool.closeStream) {
    await sleep(STEP_MS);
    ctx.http?.closeSSE?.();
    await sleep(4 * STEP_MS);
  }
  if (tool.change) await announce(server, tool.change, notifier);
}

/** Over HTTP the modern era has streams of their own for this, which the handler knows. */
async function announce(server, list, notifier) {
  revision[list] += 1;
  if (notifier) return list === "tools" ? notifier().toolsChanged() : notifier().promptsChanged();
  return list === "tools" ? server.sendToolListChanged() : server.sendPromptListChanged();
}

async function callTool(server, { params }, ctx, notifier) {
  const tool = TOOLS.get(params.name);
  if (!tool) throw new sdk.ProtocolError(INVALID_PARAMS, `unknown tool: ${params.name}`);
  const known = { arguments: params.arguments ?? {} };
  await work(server, ctx, tool, notifier);
  const unfinished = await gather(server, ctx, tool, known);
  if (unfinished) return unfinished;
  if (tool.error) return { isError: true, content: [{ type: "text", text: tool.error }] };
  return { content: tool.content ?? [{ type: "text", text: fill(tool.reply, known) }] };
}

async function getPrompt(server, { params }, ctx) {
  const prompt = PROMPTS.get(params.name);
  if (!prompt) throw new sdk.ProtocolError(INVALID_PARAMS, `unknown prompt: ${params.name}`);
  const known = { arguments: params.arguments ?? {} };
  const unfinished = await gather(server, ctx, prompt, known);
  if (unfinished) return unfinished;
  return { messages: fill(prompt.content, known).map((content) => ({ role: "user", content })) };
}

function readResource({ params: { uri } }, era) {
  const resource = RESOURCES.get(uri);
  if (resource) return { contents: [pick(resource, "uri", "mimeType", "text", "blob")] };
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  const code = era === "modern" ? INVALID_PARAMS : -32002;
  if (id === undefined) throw new sdk.ProtocolError(code, "resource not found", { uri });
  const text = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
  return { contents: [{ uri, mimeType: "application/json", text }] };
}

/** A server for one connection, or for one request of the modern era. */
function create({ era }, notifier) {
  const capabilities = {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { subscribe: true },
    completions: {},
    logging: {},
  };
  const info = { name: "conformance-typescript", version: "1" };
  const server = new sdk.Server(info, { capabilities, requestState: { verify: states.verify } });
  const withSchema = (tool) => ({ inputSchema: { type: "object", properties: {} }, ...pick(tool, "name", "description", "inputSchema") });
  const handlers = {
    "tools/list": () => fill({ tools: FIXTURES.tools.map(withSchema) }, { revision }),
    "tools/call": (request, ctx) => callTool(server, request, ctx, era === "modern" ? notifier : undefined),
    "prompts/list": () =>
      fill({ prompts: FIXTURES.prompts.map((prompt) => pick(prompt, "name", "description", "arguments")) }, { revision }),
    "prompts/get": (request, ctx) => getPrompt(server, request, ctx),
    "resources/list": () => ({
      resources: FIXTURES.resources.map((resource) => pick(resource, "uri", "name", "description", "mimeType")),
    }),
    "resources/templates/list": () => ({ resourceTemplates: [FIXTURES.template] }),
    "resources/read": (request) => readResource(request, era),
    "resources/subscribe": () => ({}),
    "resources/unsubscribe": () => ({}),
    "completion/complete": ({ params }) => {
      const values = FIXTURES.words.filter((word) => word.startsWith(params.argument.value));
      return { completion: { values, total: values.length, hasMore: false } };
    },
  };
  for (const [method, handle] of Object.entries(handlers)) server.setRequestHandler(method, async (...request) => handle(...request));
  return server;
}

/** All events of all streams, in memory, so that a closed stream can be resumed. */
function eventStore() {
  const events = [];
  return {
    async storeEvent(streamId, message) {
      events.push({ streamId, message });
      return String(events.length);
    },
    async getStreamIdForEventId(id) {
      return events[Number(id) - 1]?.streamId;
    },
    async replayEventsAfter(last, { send }) {
      const { streamId } = events[Number(last) - 1];
      for (let at = Number(last); at < events.length; at++)
        if (events[at].streamId === streamId && Object.keys(events[at].message).length > 0)
          await send(String(at + 1), events[at].message);
      return streamId;
    },
  };
}

/** The legacy era over HTTP: a server for each session. */
function sessions() {
  const open = new Map();
  return async (request) => {
    const id = request.headers.get("mcp-session-id");
    if (open.has(id)) return open.get(id).handleRequest(request);
    if (id !== null) return Response.json({ jsonrpc: "2.0", id: null, error: { code: -32001, message: "no such session" } }, { status: 404 });
    const transport = new sdk.WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      eventStore: eventStore(),
      retryInterval: 100,
      onsessioninitialized: (session) => void open.set(session, transport),
      onsessionclosed: (session) => void open.delete(session),
    });
    await create({ era: "legacy" }).connect(transport);
    return transport.handleRequest(request);
  };
}

function serveHttp(port) {
  const legacy = sessions();
  const modern = sdk.createMcpHandler((context) => create(context, () => modern.notify), { legacy: "reject" });
  const handler = { fetch: async (request) => ((await sdk.isLegacyRequest(request)) ? legacy(request) : modern.fetch(request)) };
  const handle = node.toNodeHandler(handler);
  const [isHost, isOrigin] = [node.localhostHostValidation(), node.localhostOriginValidation()];
  createServer((request, response) => {
    if (isHost(request, response) && isOrigin(request, response)) void handle(request, response);
  }).listen(port, "127.0.0.1");
}

const [mode, port] = process.argv.slice(2);
if (mode === "--stdio") serveStdio(create);
else if (mode === "--http") serveHttp(Number(port));
else throw new Error("usage: ts_server.mjs --stdio | --http PORT");
