// Holds conversations by means of the providers' own SDKs in TypeScript; see `converse.py`,
// whose tasks and reports are the same:
//
//     node converse.mjs < tasks.jsonl

import { registerHooks } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import path from "node:path";

const tools = path.resolve(process.env.PEG_TOOLS ?? path.join(import.meta.dirname, "../../../.tools"));
const modules = pathToFileURL(path.join(tools, "npm-sdks", "sdks.mjs")).href;
const here = pathToFileURL(import.meta.dirname).href;

// Packages are looked for beside the importing file, and ours are installed elsewhere.
registerHooks({
  resolve(specifier, context, next) {
    const ours = context.parentURL?.startsWith(here) && /^@?[a-z]/.test(specifier) && !specifier.includes(":");
    return next(specifier, ours ? { ...context, parentURL: modules } : context);
  },
});

// Answers to one question; a model that calls for longer is in a loop.
const MOST = 12;
// What is said where only tokens are asked for.
const LAST = "And now?";

// The task, the report on it, and the history of the conversation.
let task = {};
let report = { answers: [] };
let past = { items: [] };
const faults = new Set();

/** JSON as Python's `json.dumps` with sorted keys writes it, so that both clients send the same results. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const pairs = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}: ${canonical(value[key])}`);
  return `{${pairs.join(", ")}}`;
}

/** What a tool of ours gives: the same for the same call. */
const result = (number, args) => `result ${number} for ${canonical(args)}`;

function note(calls, text, stop, usage, thinking = "") {
  report.answers.push({ calls, text, stop, thinking, usage });
}

/** Gives the tool that the first answer to a question must call, if any, with the question in the history. */
function* questions(messages, message) {
  const [at, tool] = task.force ?? [];
  for (const [number, question] of task.questions.entries()) {
    messages.push(message(question));
    yield number === at ? tool : undefined;
  }
}

const user = (text) => ({ role: "user", content: text });

const count = (kinds, kind) => kinds.filter((known) => known === kind).length;

function once(kinds, ...wanted) {
  for (const kind of wanted) {
    if (count(kinds, kind) !== 1) faults.add(`${count(kinds, kind)} events \`${kind}\` in one stream`);
  }
}

async function anthropic() {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const client = new Anthropic({ baseURL: task.url, apiKey: "a-key", maxRetries: 0, timeout: 60_000 });
  const messages = past.items;
  const definitions = task.tools.map(({ name, description, parameters }) => ({
    name,
    description,
    input_schema: parameters,
  }));
  const base = { model: task.model, tools: definitions, messages };
  if (task.thinking) base.thinking = { type: "enabled", budget_tokens: 2000 };

  async function ask(forced) {
    const body = { ...base, max_tokens: 4000 };
    if (forced) body.tool_choice = { type: "tool", name: forced };
    if (!task.streamed) return client.messages.create(body);
    const kinds = [];
    const stream = client.messages.stream(body);
    stream.on("streamEvent", (event) => kinds.push(event.type));
    const message = await stream.finalMessage();
    once(kinds, "message_start", "message_delta", "message_stop");
    return message;
  }

  for (const forced of questions(messages, user)) {
    for (let round = 0; round < MOST; round += 1) {
      const message = await ask(round === 0 ? forced : undefined);
      const of = (kind) => message.content.filter((block) => block.type === kind);
      const calls = of("tool_use");
      const used = message.usage;
      note(
        calls.map((call) => [call.name, call.input]),
        of("text").map((block) => block.text).join(""),
        message.stop_reason,
        [used.input_tokens, used.output_tokens, used.cache_read_input_tokens],
        of("thinking").map((block) => block.thinking).join(""),
      );
      messages.push({ role: "assistant", content: message.content });
      if (calls.length === 0) break;
      const results = calls.map((call, number) => ({
        type: "tool_result",
        tool_use_id: call.id,
        content: result(number, call.input),
      }));
      messages.push({ role: "user", content: results });
    }
  }
  if (task.count) {
    const counted = await client.messages.countTokens({ ...base, messages: [...messages, user(LAST)] });
    report.counted = counted.input_tokens;
  }
}

async function chat() {
  const { default: OpenAI } = await import("openai");
  const client = new OpenAI({ baseURL: task.url, apiKey: "a-key", maxRetries: 0, timeout: 60_000 });
  const messages = past.items;
  const definitions = task.tools.map((tool) => ({ type: "function", function: { ...tool, strict: task.strict ?? true } }));

  async function ask(forced) {
    const body = { model: task.model, tools: definitions, messages };
    if (forced) body.tool_choice = { type: "function", function: { name: forced } };
    if (!task.streamed) return client.chat.completions.create(body);
    const kinds = [];
    const stream = client.chat.completions.stream({ ...body, stream_options: { include_usage: true } });
    stream.on("chunk", (chunk) => {
      if (chunk.usage) kinds.push("usage");
      for (const choice of chunk.choices) {
        if (choice.delta.role) kinds.push("role");
        if (choice.finish_reason) kinds.push("finish");
      }
    });
    const completion = await stream.finalChatCompletion();
    once(kinds, "role", "finish", "usage");
    return completion;
  }

  for (const forced of questions(messages, user)) {
    for (let round = 0; round < MOST; round += 1) {
      const completion = await ask(round === 0 ? forced : undefined);
      const [{ message, finish_reason: stop }] = completion.choices;
      const calls = message.tool_calls ?? [];
      const used = completion.usage;
      const called = calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
      const cached = used.prompt_tokens_details.cached_tokens;
      note(called, message.content ?? "", stop, [used.prompt_tokens, used.completion_tokens, cached]);
      const said = { role: "assistant", content: message.content };
      if (calls.length > 0) {
        said.tool_calls = calls.map(({ id, type, function: { name, arguments: args } }) => ({
          id,
          type,
          function: { name, arguments: args },
        }));
      }
      messages.push(said);
      if (calls.length === 0) break;
      calls.forEach((call, number) => {
        messages.push({ role: "tool", tool_call_id: call.id, content: result(number, called[number][1]) });
      });
    }
  }
}

async function responses() {
  const { default: OpenAI } = await import("openai");
  const client = new OpenAI({ baseURL: task.url, apiKey: "a-key", maxRetries: 0, timeout: 60_000 });
  const definitions = task.tools.map((tool) => ({ type: "function", ...tool, strict: task.strict ?? true }));
  const chain = task.chain ?? false;
  const { items } = past;

  function request() {
    const body = { model: task.model, tools: definitions, input: items };
    if (past.previous) body.previous_response_id = past.previous;
    return body;
  }

  async function ask(forced) {
    const body = { ...request(), store: chain };
    if (forced) body.tool_choice = { type: "function", name: forced };
    if (!chain) body.include = ["reasoning.encrypted_content"];
    if (!task.streamed) return client.responses.create(body);
    const kinds = [];
    let last = -1;
    const stream = client.responses.stream(body);
    for await (const event of stream) {
      kinds.push(event.type);
      if (event.sequence_number <= last) faults.add(`sequence number ${event.sequence_number} after ${last}`);
      last = event.sequence_number;
    }
    const response = await stream.finalResponse();
    const end = response.status === "completed" ? "response.completed" : "response.incomplete";
    once(kinds, "response.created", "response.in_progress", end);
    return response;
  }

  for (const forced of questions(items, user)) {
    for (let round = 0; round < MOST; round += 1) {
      const response = await ask(round === 0 ? forced : undefined);
      const of = (kind) => response.output.filter((item) => item.type === kind);
      const calls = of("function_call");
      const called = calls.map((call) => [call.name, JSON.parse(call.arguments)]);
      const used = response.usage;
      const text = of("message").flatMap((item) => item.content).map((part) => part.text ?? "").join("");
      const thinking = of("reasoning").flatMap((item) => item.summary).map((part) => part.text).join("");
      const cached = used.input_tokens_details.cached_tokens;
      const stop = response.incomplete_details?.reason ?? response.status;
      note(called, text, stop, [used.input_tokens, used.output_tokens, cached], thinking);
      if (chain) {
        past.previous = response.id;
        items.length = 0;
      } else {
        for (const { parsed_arguments: _, ...item } of response.output) {
          if (item.content) item.content = item.content.map(({ parsed: _, ...part }) => part);
          items.push(item);
        }
      }
      if (calls.length === 0) break;
      calls.forEach((call, number) => {
        const output = result(number, called[number][1]);
        items.push({ type: "function_call_output", call_id: call.call_id, output });
      });
    }
  }
  if (task.count) {
    const counted = await client.responses.inputTokens.count({ ...request(), input: [...items, user(LAST)] });
    report.counted = counted.input_tokens;
  }
}

async function gemini() {
  const { GoogleGenAI } = await import("@google/genai");
  const client = new GoogleGenAI({ apiKey: "a-key", httpOptions: { baseUrl: task.url } });
  const functionDeclarations = task.tools.map(({ name, description, parameters }) => ({
    name,
    description,
    parametersJsonSchema: parameters,
  }));
  const contents = past.items;
  const said = (text) => ({ role: "user", parts: [{ text }] });

  async function ask(forced) {
    const config = { tools: [{ functionDeclarations }] };
    if (forced) config.toolConfig = { functionCallingConfig: { mode: "ANY", allowedFunctionNames: [forced] } };
    const body = { model: task.model, contents, config };
    const chunks = [];
    if (task.streamed) {
      for await (const chunk of await client.models.generateContentStream(body)) chunks.push(chunk);
    } else {
      chunks.push(await client.models.generateContent(body));
    }
    const ends = chunks.filter((chunk) => chunk.candidates?.[0]?.finishReason);
    if (ends.length !== 1) faults.add(`${ends.length} finish reasons in one answer`);
    return [chunks.flatMap((chunk) => chunk.candidates?.[0]?.content?.parts ?? []), chunks.at(-1)];
  }

  for (const forced of questions(contents, said)) {
    for (let round = 0; round < MOST; round += 1) {
      const [parts, last] = await ask(round === 0 ? forced : undefined);
      const calls = parts.filter((part) => part.functionCall).map((part) => part.functionCall);
      const text = parts.filter((part) => !part.thought).map((part) => part.text ?? "").join("");
      const used = last.usageMetadata;
      const usage = [used.promptTokenCount, used.candidatesTokenCount, used.cachedContentTokenCount ?? 0];
      note(calls.map((call) => [call.name, call.args]), text, last.candidates[0].finishReason, usage);
      contents.push({ role: "model", parts });
      if (calls.length === 0) break;
      const replies = calls.map((call, number) => ({
        functionResponse: { id: call.id, name: call.name, response: { output: result(number, call.args) } },
      }));
      contents.push({ role: "user", parts: replies });
    }
  }
  if (task.count) {
    // This SDK refuses tools here.
    const counted = await client.models.countTokens({ model: task.model, contents: [...contents, said(LAST)] });
    report.counted = counted.totalTokens;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  task = JSON.parse(line);
  report = { answers: [] };
  faults.clear();
  if (!task.goOn) past = { items: [] };
  try {
    await { anthropic, chat, responses, gemini }[task.wire]();
  } catch (error) {
    // What was understood until then is told as well.
    faults.add(`${error.name}: ${error.message}`);
  }
  process.stdout.write(`${JSON.stringify({ ...report, faults: [...faults].sort() })}\n`);
}
