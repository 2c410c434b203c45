// The parts of the page that compute something, in the browser that they run in.

import assert from "node:assert/strict";
import { step, Tab } from "../browser.mjs";
import { entry } from "./many.mjs";

export default async function units(browser, { base }) {
  const tab = await Tab.open(browser, base);
  await tab.page.goto(`${base}/console/`);
  await checkDiff(tab);
  await checkEvents(tab);
  await checkArguments(tab);
  await checkNumbers(tab);
  await checkFilter(tab);
  await tab.close();
}

/** Calls an export of a module of the page. */
const call = (tab, module, name, ...args) => tab.page.evaluate(async (asked) => {
  const loaded = await import(`/console/${asked.module}`);
  return loaded[asked.name](...asked.args);
}, { module, name, args });

async function checkDiff(tab) {
  const marks = { same: " ", added: "+", removed: "-" };
  const cases = [
    ["", "", ""],
    ["a\nb\nc", "a\nb\nc", " a| b| c"],
    ["a\nb\nc", "a\nx\nc", " a|-b|+x| c"],
    ["a\nb", "a\nb\nc", " a| b|+c"],
    ["a\nb\nc\nd", "b\nd", "-a| b|-c| d"],
    ["", "x\ny", "+x|+y"],
    ["x", "", "-x"],
    ["a\na\na", "a\na", " a| a|-a"],
  ];
  for (const [before, after, wanted] of cases) {
    const lines = await call(tab, "diff.js", "diffLines", before, after);
    const found = lines.map((line) => marks[line.kind] + line.text).join("|");
    assert.equal(lines.filter((line) => line.kind !== "removed").map((line) => line.text).join("\n"), after);
    assert.equal(lines.filter((line) => line.kind !== "added").map((line) => line.text).join("\n"), before);
    assert.equal(found.length, wanted.length, `${JSON.stringify(before)} to ${JSON.stringify(after)}: ${found}`);
    if (!/a\na\na/.test(before)) assert.equal(found, wanted);
  }
  step("diffs of lines");
}

async function checkEvents(tab) {
  const stream = ": hello\n\nid: 7\nevent: activity\ndata: {\"a\":\ndata: 1}\n\nevent: empty\n\r\ndata: x\r\n\r\nid: 8\rdata:y\n\n";
  const wanted = [["activity", '{"a":\n1}', "7"], ["message", "x", "7"], ["message", "y", "8"]];
  for (const size of [1, 2, 3, 7, 1000]) {
    const parts = stream.match(new RegExp(`[^]{1,${size}}`, "g"));
    const found = await tab.page.evaluate(async (given) => {
      const { Parser } = await import("/console/events.js");
      const events = [];
      const parser = new Parser((...event) => events.push(event));
      for (const part of given) parser.push(part);
      return events;
    }, parts);
    assert.deepEqual(found, wanted, `in parts of ${size}`);
  }
  step("server-sent events in parts of any size");
}

async function checkArguments(tab) {
  const schema = {
    type: "object",
    required: ["count", "name"],
    properties: {
      name: { type: "string" },
      count: { type: "integer", minimum: 1 },
      share: { type: ["number", "null"] },
      on: { type: "boolean" },
      kind: { enum: ["a", 2] },
      tags: { type: "array", items: { type: "string" } },
      more: { type: "object" },
      maybe: { anyOf: [{ type: "string" }, { type: "null" }] },
    },
  };
  const inputs = await call(tab, "schema-form.js", "inputsOf", schema);
  assert.deepEqual(inputs.map((input) => [input.name, input.kind]), [["name", "text"], ["count", "integer"], ["share", "number"], ["on", "boolean"], ["kind", "choice"], ["tags", "lines"], ["more", "json"], ["maybe", "text"]]);
  const input = (name) => inputs.find((one) => one.name === name);
  const cases = [
    ["name", "x", { value: "x" }], ["name", "", { wrong: "Required" }], ["name", " ", { value: " " }],
    ["count", "3", { value: 3 }], ["count", "3.5", { wrong: "A whole number is required" }], ["count", "", { wrong: "Required" }],
    ["share", "0.5", { value: 0.5 }], ["share", "", {}], ["share", "x", { wrong: "A number is required" }],
    ["on", "false", { value: false }], ["on", "", {}], ["kind", '"a"', { value: "a" }], ["kind", "2", { value: 2 }],
    ["tags", "a\nb\n", { value: ["a", "b"] }], ["more", '{"a":1}', { value: { a: 1 } }],
  ];
  for (const [name, text, wanted] of cases) assert.deepEqual(await call(tab, "schema-form.js", "argumentOf", input(name), text), wanted, `${name} ${JSON.stringify(text)}`);
  assert.match((await call(tab, "schema-form.js", "argumentOf", input("more"), "{")).wrong, /Not valid JSON/);
  // A browser would change these.
  for (const [name, text] of [["count", "9007199254740993"], ["count", "-9007199254740993"], ["more", '{"id":12345678901234567890}']]) {
    assert.match((await call(tab, "schema-form.js", "argumentOf", input(name), text)).wrong, /cannot be sent exactly/, text);
  }
  for (const [name, text] of [["count", "9007199254740991"], ["more", '{"id":"12345678901234567890","share":0.12345678901234567890,"escaped":"\\"99999999999999999999"}']]) {
    assert.ok("value" in (await call(tab, "schema-form.js", "argumentOf", input(name), text)), text);
  }
  for (const odd of [null, 1, [], { properties: null }, { properties: { a: null, b: [], c: { type: 7 } } }, { required: "x", properties: { a: { anyOf: [null, 1] } } }]) await call(tab, "schema-form.js", "inputsOf", odd);
  step("forms of JSON Schemas");
}

async function checkNumbers(tab) {
  const cases = [
    ["plot.js", "ticks", 10, [0, 2.5, 5, 7.5, 10]], ["plot.js", "ticks", 0, [0, 1]], ["plot.js", "ticks", 3, [0, 1, 2, 3]],
    ["format.js", "duration", 0.25, "250 µs"], ["format.js", "duration", 1500, "1.5 s"], ["format.js", "duration", 3_700_000, "1 h 1 min"], ["format.js", "duration", null, "–"],
    ["format.js", "bytes", 0, "0 B"], ["format.js", "bytes", 1536, "1.5 KiB"], ["format.js", "percent", 0.894, "89 %"], ["format.js", "short", 48_000_000, "48M"],
    ["format.js", "splitName", "mail___send", ["mail", "send"]], ["format.js", "splitName", "send", ["", "send"]],
  ];
  for (const [module, name, given, wanted] of cases) assert.deepEqual(await call(tab, module, name, given), wanted, `${name}(${given})`);
  step("numbers, times and names");
}

async function checkFilter(tab) {
  const all = { kind: "", server: "", session: "", client: "", outcome: "", q: "" };
  const search = { ...entry(3), query: "open an issue", hits: ["github___create_issue"], client: "editor" };
  const cases = [
    [{}, true], [{ kind: "search" }, true], [{ kind: "call" }, false], [{ client: "editor" }, true], [{ server: "mail" }, false],
    [{ q: "OPEN AN" }, true], [{ q: "create_ISSUE" }, true], [{ q: "edit" }, true], [{ q: "nothing" }, false],
  ];
  for (const [filter, wanted] of cases) assert.equal(await call(tab, "pages/activity.js", "passes", search, { ...all, ...filter }), wanted, JSON.stringify(filter));
  step("live entries pass the filters that the control API applies");
}
