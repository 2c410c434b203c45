// Holds a long conversation by means of a provider's own SDK in TypeScript; see `converse.py`,
// whose task and report are the same:
//
//     node converse.mjs BASE_URL anthropic|chat|responses|gemini plain|streamed < task.json

import { registerHooks } from "node:module";
import { readFileSync } from "node:fs";
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

const [url, wire, mode] = process.argv.slice(2);
const task = JSON.parse(readFileSync(0, "utf8"));
const isStreamed = mode === "streamed";
// Answers to one question; a model that calls for longer is in a loop.
const MOST = 12;

const answers = [];
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
  answers.push({ calls, text, stop, thinking, usage });
}

const count = (kinds, kind) => kinds.filter((known) => known === kind).length;

function once(kinds, ...wanted) {
  for (const kind of wanted) {
    if (count(kinds, kind) !== 1) faults.add(`${count(kinds, kind)} events \`${kind}\` in one stream`);
  }
}

async function anthropic() {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const client = new Anthropic({ baseURL: url, apiKey: "a-key", maxRetries: 0, timeout: 60_000 });
  const messages = [];
  const definitions = task.tools.map(({ name, description, parameters }) => ({
    name,
    description,
    input_schema: parameters,
  }));
  const body = { model: task.model, max_tokens: 4000, tools: definitions, messages };
  if (task.thinking) body.thinking = { type: "enabled", budget_tokens: 2000 };

  async function ask() {
    if (!isStreamed) return client.messages.create(body);
    const kinds = [];
    const stream = client.messages.stream(body);
    stream.on("streamEvent", (event) => kinds.push(event.type));
    const message = await stream.finalMessage();
    once(kinds, "message_start", "message_delta", "message_stop");
    return message;
  }

  for (const question of task.questions) {
    messages.push({ role: "user", content: question });
    for (let round = 0; round < MOST; round += 1) {
      const message = await ask();
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
}

async function chat() {
  const { default: OpenAI } = await import("openai");
  const client = new OpenAI({ baseURL: url, apiKey: "a-key", maxRetries: 0, timeout: 60_000 });
  const messages = [];
  const definitions = task.tools.map((tool) => ({ type: "function", function: { ...tool, strict: true } }));
  const body = { model: task.model, tools: definitions, messages };

  async function ask() {
    if (!isStreamed) return client.chat.completions.create(body);
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

  for (const question of task.questions) {
    messages.push({ role: "user", content: question });
    for (let round = 0; round < MOST; round += 1) {
      const completion = await ask();
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
  const client = new OpenAI({ baseURL: url, apiKey: "a-key", maxRetries: 0, timeout: 60_000 });
  const definitions = task.tools.map((tool) => ({ type: "function", ...tool, strict: true }));
  const chain = task.chain ?? false;
  let items = [];
  let previous;

  async function ask() {
    const body = { model: task.model, tools: definitions, input: items, store: chain };
    if (previous) body.previous_response_id = previous;
    if (!chain) body.include = ["reasoning.encrypted_content"];
    if (!isStreamed) return client.responses.create(body);
    const kinds = [];
    let last = -1;
    const stream = client.responses.stream(body);
    for await (const event of stream) {
      kinds.push(event.type);
      if (event.sequence_number <= last) faults.add(`sequence number ${event.sequence_number} after ${last}`);
      last = event.sequence_number;
    }
    once(kinds, "response.created", "response.in_progress", "response.completed");
    return stream.finalResponse();
  }

  for (const question of task.questions) {
    items.push({ role: "user", content: question });
    for (let round = 0; round < MOST; round += 1) {
      const response = await ask();
      const of = (kind) => response.output.filter((item) => item.type === kind);
      const calls = of("function_call");
      const called = calls.map((call) => [call.name, JSON.parse(call.arguments)]);
      const used = response.usage;
      const text = of("message").flatMap((item) => item.content).map((part) => part.text ?? "").join("");
      const thinking = of("reasoning").flatMap((item) => item.summary).map((part) => part.text).join("");
      const cached = used.input_tokens_details.cached_tokens;
      note(called, text, response.status, [used.input_tokens, used.output_tokens, cached], thinking);
      if (chain) {
        previous = response.id;
        items = [];
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
}

async function gemini() {
  const { GoogleGenAI } = await import("@google/genai");
  const client = new GoogleGenAI({ apiKey: "a-key", httpOptions: { baseUrl: url } });
  const functionDeclarations = task.tools.map(({ name, description, parameters }) => ({
    name,
    description,
    parametersJsonSchema: parameters,
  }));
  const contents = [];
  const body = { model: task.model, contents, config: { tools: [{ functionDeclarations }] } };

  async function ask() {
    const chunks = [];
    if (isStreamed) {
      for await (const chunk of await client.models.generateContentStream(body)) chunks.push(chunk);
    } else {
      chunks.push(await client.models.generateContent(body));
    }
    const ends = chunks.filter((chunk) => chunk.candidates?.[0]?.finishReason);
    if (ends.length !== 1) faults.add(`${ends.length} finish reasons in one answer`);
    return [chunks.flatMap((chunk) => chunk.candidates?.[0]?.content?.parts ?? []), chunks.at(-1)];
  }

  for (const question of task.questions) {
    contents.push({ role: "user", parts: [{ text: question }] });
    for (let round = 0; round < MOST; round += 1) {
      const [parts, last] = await ask();
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
}

try {
  await { anthropic, chat, responses, gemini }[wire]();
} catch (error) {
  // What was understood until then is told as well.
  faults.add(`${error.name}: ${error.message}`);
}
process.stdout.write(`${JSON.stringify({ answers, faults: [...faults].sort() })}\n`);
