// What the JavaScript clients share: where packages come from, the task, and the report
// with its one line of output.

import { registerHooks } from "node:module";
import { pathToFileURL } from "node:url";
import { readFileSync } from "node:fs";
import path from "node:path";

export const tools = path.resolve(process.env.PEG_TOOLS ?? path.join(import.meta.dirname, "../../../.tools"));
const modules = pathToFileURL(path.join(tools, "npm", "clients.mjs")).href;
const here = pathToFileURL(import.meta.dirname).href;

// Packages are looked for beside the importing file, and ours are installed elsewhere.
registerHooks({
  resolve(specifier, context, next) {
    const ours = context.parentURL?.startsWith(here) && /^@?[a-z]/.test(specifier) && !specifier.includes(":");
    return next(specifier, ours ? { ...context, parentURL: modules } : context);
  },
});

// Generous, as machines may be busy: some clients start a program for every step.
const TOTAL_MS = 300_000;
// How long a client waits for the news that a search changed its tool list.
const CHANGE_MS = 60_000;
// Closing is part of the exercise, but a peer that does not answer must not hide the report.
const CLOSE_MS = 60_000;

/** The version of an installed package. */
export function version(name) {
  const manifest = path.join(tools, "npm/node_modules", name, "package.json");
  return JSON.parse(readFileSync(manifest, "utf8")).version;
}

/** What to do, from the arguments and the environment. */
export function readTask() {
  const [url, era, dialect, ...rest] = process.argv.slice(2);
  if (!["legacy", "modern", "auto"].includes(era) || !["bridge", "gateway"].includes(dialect) || rest.length > 0) {
    process.stderr.write(`usage: ${path.basename(process.argv[1])} URL legacy|modern|auto bridge|gateway\n`);
    process.exit(2);
  }
  const { PEG_QUERY, PEG_TOOL, PEG_ARGS, PEG_PROMPT, PEG_PROMPT_ARGS, PEG_RESOURCE } = process.env;
  const [tool, toolArguments] = [PEG_TOOL, JSON.parse(PEG_ARGS || "{}")];
  return {
    url,
    era,
    dialect,
    search: {
      name: dialect === "bridge" ? "search_tools" : "search_available_tools",
      arguments: { query: PEG_QUERY ?? "echo a message" },
    },
    call: !tool
      ? undefined
      : dialect === "bridge" || era === "modern"
        ? { name: "call_tool", arguments: { name: tool, arguments: toolArguments } }
        : { name: tool, arguments: toolArguments },
    prompt: PEG_PROMPT ? { name: PEG_PROMPT, arguments: JSON.parse(PEG_PROMPT_ARGS || "{}") } : undefined,
    resource: PEG_RESOURCE ? { uri: PEG_RESOURCE } : undefined,
  };
}

/** What happened, printed as one JSON object whatever happened. */
export class Report {
  #at = "connect";

  constructor(client, clientVersion, task) {
    this.values = {
      client,
      version: clientVersion,
      era: task.era,
      dialect: task.dialect,
      protocol: null,
      server: null,
      tools_before: null,
      listen: null,
      search: null,
      list_changed: 0,
      tools_after: null,
      call: null,
      call_is_error: null,
      progress: 0,
      prompts: null,
      prompt: null,
      resources: null,
      resource: null,
      errors: [],
    };
  }

  at(step) {
    this.#at = step;
  }

  fail(error) {
    this.values.errors.push(`${this.#at}: ${describe(error)}`);
  }

  /** One failing step is a line in the report; the steps after it still run. */
  async step(name, work) {
    this.at(name);
    try {
      await work();
    } catch (error) {
      this.fail(error);
    }
  }

  finish() {
    const { client, errors } = this.values;
    process.stderr.write(errors.map((error) => `${client}: ${error}\n`).join(""));
    // Exit from the callback: a pipe may take the line later than this call returns.
    process.stdout.write(`${JSON.stringify(this.values)}\n`, () => process.exit(errors.length > 0 ? 1 : 0));
  }
}

function describe(error) {
  if (!(error instanceof Error)) return String(error);
  // What `fetch` throws says nothing without its cause.
  return `${error.name}: ${error.message}${error.cause ? ` (${describe(error.cause)})` : ""}`;
}

/** Something that may happen again, waited for in bounded time. */
export class Signal {
  #happened = Promise.withResolvers();

  happen() {
    this.#happened.resolve();
  }

  clear() {
    this.#happened = Promise.withResolvers();
  }

  wait() {
    return within(CHANGE_MS, this.#happened.promise);
  }
}

/** Runs `work` and prints the report, all in bounded time. */
export async function run(report, { connect, steps, close, always }) {
  const all = async () => {
    await connect();
    await steps();
    report.at("close");
    await within(CLOSE_MS, close());
  };
  try {
    await within(TOTAL_MS, all());
  } catch (error) {
    report.fail(error);
  }
  if (always) await within(CLOSE_MS, always()).catch((error) => report.fail(error));
  report.finish();
}

/** The steps of a connected client. Both SDKs name them alike, but for what is in the last argument. */
export async function exercise(client, task, report, { protocol, changed, call, fresh }) {
  const { values } = report;
  const modern = protocol >= "2026";
  const offers = client.getServerCapabilities() ?? {};
  values.protocol = protocol;
  values.server = client.getServerVersion()?.name ?? null;

  await report.step("tools/list", async () => {
    values.tools_before = names(await pages("tools", (params) => client.listTools(params, fresh)));
  });
  await report.step("search", async () => {
    changed.clear();
    const found = await client.callTool(task.search);
    values.search = contentText(found.content);
    if (found.isError) throw values.search;
  });
  // The list of a modern connection does not change with what was called on it.
  if (task.dialect === "gateway" && !modern) {
    await report.step("tools/list_changed", () => changed.wait());
  }
  await report.step("tools/list again", async () => {
    values.tools_after = names(await pages("tools", (params) => client.listTools(params, fresh)));
  });
  if (task.call) {
    await report.step("call", async () => {
      const answer = await call(task.call, { onprogress: () => void values.progress++ });
      values.call = contentText(answer.content);
      values.call_is_error = answer.isError === true;
    });
  }
  if (offers.prompts) {
    await report.step("prompts/list", async () => {
      values.prompts = names(await pages("prompts", (params) => client.listPrompts(params, fresh)));
    });
  }
  if (task.prompt) {
    await report.step("prompts/get", async () => {
      const { messages } = await client.getPrompt(task.prompt);
      values.prompt = promptText(messages);
    });
  }
  if (offers.resources) {
    await report.step("resources/list", async () => {
      const found = await pages("resources", (params) => client.listResources(params, fresh));
      values.resources = found.map(({ uri }) => uri);
    });
  }
  if (task.resource) {
    await report.step("resources/read", async () => {
      const { contents } = await client.readResource(task.resource, fresh);
      values.resource = resourceText(contents);
    });
  }
}

async function pages(key, fetch) {
  const found = [];
  let cursor;
  do {
    const page = await fetch(cursor === undefined ? undefined : { cursor });
    found.push(...page[key]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}

export function names(items) {
  return items.map(({ name }) => name);
}

export function contentText(blocks) {
  return blocks.map(({ type, text }) => text ?? `[${type}]`).join("\n");
}

export function promptText(messages) {
  return messages.map(({ role, content }) => `${role}: ${contentText([content])}`).join("\n");
}

export function resourceText(contents) {
  return contents.map(({ text }) => text ?? "[blob]").join("\n");
}

async function within(ms, promise) {
  const late = Promise.withResolvers();
  const timer = setTimeout(() => late.reject(`not done within ${ms / 1000} s`), ms);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
