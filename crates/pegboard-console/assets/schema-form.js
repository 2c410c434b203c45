// A form for the arguments of a tool, made from its JSON Schema.

import { html, useState } from "./vendor/htm-preact.js";
import { Field, Segments, onValue } from "./ui.js";

/** @typedef {Record<string, unknown>} Schema */
/** @typedef {{ kind: "text" | "lines" | "number" | "integer" | "boolean" | "choice" | "json", options: string[], about: string, isRequired: boolean, name: string, initial: string }} Input */

/** @param {unknown} value @returns {value is Schema} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the schema that a value other than null has to fit. @param {unknown} schema @returns {Schema} */
function unwrapped(schema) {
  if (!isObject(schema)) return {};
  const parts = schema.anyOf ?? schema.oneOf;
  const part = Array.isArray(parts) ? parts.filter((one) => isObject(one) && one.type !== "null") : [];
  return part.length === 1 && isObject(part[0]) ? { ...schema, ...part[0] } : schema;
}

/** Returns the type of a schema other than null. @param {Schema} schema */
const typeOf = (schema) => (Array.isArray(schema.type) ? schema.type.filter((type) => type !== "null") : [schema.type]).join("|");

/** @param {Schema} schema @returns {Input["kind"]} */
function kindOf(schema) {
  if (Array.isArray(schema.enum) && schema.enum.every((value) => typeof value !== "object")) return "choice";
  const type = typeOf(schema);
  if (type === "string") return "text";
  if (type === "integer" || type === "number" || type === "boolean") return type;
  const items = unwrapped(schema.items);
  return type === "array" && typeOf(items) === "string" && !items.enum ? "lines" : "json";
}

/** Returns the inputs for a schema, the required ones first. @param {unknown} schema @returns {Input[]} */
export function inputsOf(schema) {
  const whole = isObject(schema) ? schema : {};
  const required = Array.isArray(whole.required) ? whole.required : [];
  const properties = Object.entries(isObject(whole.properties) ? whole.properties : {});
  const inputs = properties.map(([name, property]) => {
    const inner = unwrapped(property);
    const kind = kindOf(inner);
    const options = Array.isArray(inner.enum) ? inner.enum.map((value) => JSON.stringify(value)) : [];
    const initial = inner.default === undefined || kind !== "choice" ? "" : JSON.stringify(inner.default);
    return { name, kind, options, initial, about: aboutOf(inner), isRequired: required.includes(name) };
  });
  return [...inputs.filter((input) => input.isRequired), ...inputs.filter((input) => !input.isRequired)];
}

/** @param {Schema} schema */
function aboutOf(schema) {
  const parts = [
    typeof schema.description === "string" && schema.description,
    schema.minimum !== undefined && `at least ${schema.minimum}`,
    schema.maximum !== undefined && `at most ${schema.maximum}`,
    typeof schema.format === "string" && `format ${schema.format}`,
    schema.default !== undefined && `default ${JSON.stringify(schema.default)}`,
  ];
  return parts.filter(Boolean).join(" · ");
}

/**
 * Returns the argument of an input's text: `undefined` leaves it out.
 * @param {Input} input
 * @param {string} text
 * @returns {{ value?: unknown, wrong?: string }}
 */
export function argumentOf(input, text) {
  if (text.trim() === "" && !(input.kind === "text" && input.isRequired)) return input.isRequired ? { wrong: "Required" } : {};
  switch (input.kind) {
    case "text": return text === "" ? { wrong: "Required" } : { value: text };
    case "lines": return { value: text.split("\n").filter((line) => line !== "") };
    case "integer": return integerArgument(text);
    case "number": return Number.isFinite(Number(text)) ? { value: Number(text) } : { wrong: "A number is required" };
    case "boolean": return { value: text === "true" };
    default: return jsonArgument(text);
  }
}

const TOO_LARGE = `Whole numbers beyond ±${Number.MAX_SAFE_INTEGER} cannot be sent exactly from here`;

/** @param {string} text */
function integerArgument(text) {
  if (!/^\s*[+-]?\d+\s*$/.test(text)) return { wrong: "A whole number is required" };
  return Number.isSafeInteger(Number(text)) ? { value: Number(text) } : { wrong: TOO_LARGE };
}

/** Returns whether a JSON text has a whole number that a browser cannot hold: parsing it returns another one. @param {string} text */
function hasLargeInteger(text) {
  const numbers = text.replace(/"(?:[^"\\]|\\.)*"/g, "").match(/-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g) ?? [];
  return numbers.some((number) => /^-?\d+$/.test(number) && !Number.isSafeInteger(Number(number)));
}

/** @param {string} text */
function jsonArgument(text) {
  try {
    const value = JSON.parse(text);
    return hasLargeInteger(text) ? { wrong: TOO_LARGE } : { value };
  } catch (error) {
    return { wrong: `Not valid JSON: ${error instanceof Error ? error.message : ""}` };
  }
}

/**
 * A form; `onSubmit` gets the arguments when all of them are valid.
 * @param {{ schema: unknown, onSubmit: (args: Record<string, unknown>) => void, children?: unknown }} props
 */
export function SchemaForm({ schema, onSubmit, children }) {
  const inputs = inputsOf(schema);
  const [mode, setMode] = useState(inputs.length > 0 ? "form" : "json");
  const [texts, setTexts] = useState(/** @type {ReadonlyMap<string, string>} */ (new Map()));
  const [json, setJson] = useState("{}");
  const [isChecked, setChecked] = useState(false);
  const results = inputs.map((input) => argumentOf(input, texts.get(input.name) ?? input.initial));
  const whole = jsonArgument(json);
  const wrongJson = whole.wrong ?? (isObject(whole.value) ? undefined : "An object is required");
  const values = Object.fromEntries(inputs.flatMap((input, at) => (results[at] && "value" in results[at] ? [[input.name, results[at].value]] : [])));
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    setChecked(true);
    const isWrong = mode === "form" ? results.some((result) => result.wrong) : wrongJson !== undefined;
    if (!isWrong) onSubmit(mode === "form" ? values : /** @type {Record<string, unknown>} */ (whole.value));
  };
  const changeMode = (/** @type {string} */ next) => {
    if (next === "json") setJson(JSON.stringify(values, null, 2));
    setMode(next);
  };
  return html`
    <form class="stack" onSubmit=${submit} novalidate>
      ${inputs.length > 0 && html`<${Segments} label="Arguments as" value=${mode} options=${[["form", "Form"], ["json", "JSON"]]} onChange=${changeMode} />`}
      ${mode === "form" ? inputs.map((input, at) => html`
          <${InputView} key=${input.name} input=${input} text=${texts.get(input.name) ?? input.initial} wrong=${isChecked ? results[at]?.wrong : undefined}
            onText=${(/** @type {string} */ text) => setTexts((before) => new Map(before).set(input.name, text))} />`)
        : html`<${Field} label="Arguments" wrong=${isChecked ? wrongJson : undefined} control=${(/** @type {import("./ui.js").Ids} */ ids) => html`
            <textarea class="input" rows="8" id=${ids.id} aria-describedby=${ids.describedBy} aria-invalid=${isChecked && wrongJson ? "true" : undefined} spellcheck="false"
              value=${json} onInput=${onValue(setJson)} />`} />`}
      ${children}
    </form>`;
}

/** @param {{ input: Input, text: string, wrong?: string, onText: (text: string) => void }} props */
function InputView({ input, text, wrong, onText }) {
  const hint = [input.about, input.kind === "lines" && "one on each line", input.kind === "json" && "as JSON"].filter(Boolean).join(" · ");
  const label = input.isRequired ? `${input.name} (required)` : input.name;
  const onInput = onValue(onText);
  return html`<${Field} label=${label} hint=${hint || undefined} wrong=${wrong} control=${(/** @type {import("./ui.js").Ids} */ ids) => {
    const common = { id: ids.id, "aria-describedby": ids.describedBy, "aria-invalid": wrong ? "true" : undefined, "aria-required": input.isRequired ? "true" : undefined };
    if (input.kind === "choice" || input.kind === "boolean") {
      const options = input.kind === "boolean" ? ["true", "false"] : input.options;
      return html`<select class="input" ...${common} value=${text} onChange=${onInput}><option value="" selected=${text === ""}>Not set</option>
        ${options.map((option) => html`<option key=${option} value=${option} selected=${option === text}>${option.replace(/^"(.*)"$/s, "$1")}</option>`)}</select>`;
    }
    if (input.kind === "text" || input.kind === "integer" || input.kind === "number") {
      return html`<input class="input" ...${common} type="text" inputmode=${input.kind === "text" ? undefined : "decimal"} autocomplete="off" spellcheck="false" value=${text} onInput=${onInput} />`;
    }
    return html`<textarea class="input" ...${common} rows="3" spellcheck="false" value=${text} onInput=${onInput} />`;
  }} />`;
}
