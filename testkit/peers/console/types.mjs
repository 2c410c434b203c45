// Writes the types of the control API that the page uses from its OpenAPI description.
//
//     node types.mjs          writes assets/api.d.ts
//     node types.mjs --check  fails if the file is not what would be written

import { readFileSync, writeFileSync } from "node:fs";

const CRATE = new URL("../../../crates/pegboard-console/", import.meta.url);
const FILE = new URL("assets/api.d.ts", CRATE);
const METHODS = ["get", "post", "put", "delete", "patch"];

/** Returns the type of a schema as TypeScript. */
function typeOf(schema, indent) {
  if (schema === undefined) return "unknown";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const parts = schema.oneOf ?? schema.anyOf;
  if (parts) return parts.map((part) => typeOf(part, indent)).join(" | ");
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type }, indent)).join(" | ");
  switch (schema.type) {
    case "string": return "string";
    case "integer":
    case "number": return "number";
    case "boolean": return "boolean";
    case "null": return "null";
    case "array": return `readonly (${typeOf(schema.items, indent)})[]`;
    case "object": return objectType(schema, indent);
    default: return "unknown";
  }
}

function objectType(schema, indent) {
  const properties = Object.entries(schema.properties ?? {});
  const values = typeof schema.additionalProperties === "object" ? typeOf(schema.additionalProperties, indent) : "unknown";
  if (properties.length === 0) return `Readonly<Record<string, ${values}>>`;
  const inner = `${indent}  `;
  const lines = properties.map(([name, property]) => {
    const mark = schema.required?.includes(name) ? "" : "?";
    const about = property.description ? `${inner}/** ${property.description.replaceAll("*/", "* /")} */\n` : "";
    return `${about}${inner}readonly ${JSON.stringify(name).replace(/^"(\w+)"$/, "$1")}${mark}: ${typeOf(property, inner)};\n`;
  });
  return `{\n${lines.join("")}${indent}}`;
}

/** Returns the parameters of an operation at one place as a type. */
function parametersOf(operation, place) {
  const found = (operation.parameters ?? []).filter((parameter) => parameter.in === place);
  const schema = {
    type: "object",
    properties: Object.fromEntries(found.map((parameter) => [parameter.name, parameter.schema])),
    required: found.filter((parameter) => parameter.required).map((parameter) => parameter.name),
  };
  return found.length === 0 ? "undefined" : objectType(schema, "    ");
}

function operationType(operation) {
  const done = Object.entries(operation.responses).find(([status]) => status.startsWith("2"))?.[1];
  const body = operation.requestBody?.content["application/json"]?.schema;
  return `{
    path: ${parametersOf(operation, "path")};
    query: ${parametersOf(operation, "query")};
    body: ${body ? typeOf(body, "    ") : "undefined"};
    result: ${typeOf(done?.content?.["application/json"]?.schema, "    ")};
  }`;
}

function write(description) {
  const schemas = Object.entries(description.components.schemas).map(([name, schema]) => {
    const about = schema.description ? `/** ${schema.description.replaceAll("*/", "* /")} */\n` : "";
    return `${about}export type ${name} = ${typeOf(schema, "")};\n`;
  });
  const operations = Object.entries(description.paths).flatMap(([path, methods]) =>
    METHODS.filter((method) => methods[method]).map((method) => `  "${method.toUpperCase()} ${path}": ${operationType(methods[method])};\n`));
  return `// Generated from openapi.json by testkit/peers/console/types.mjs; do not edit.\n\n${schemas.join("\n")}
/** The requests of the control API. */
export interface Operations {\n${operations.join("")}}\n`;
}

const text = write(JSON.parse(readFileSync(new URL("openapi.json", CRATE), "utf8")));
if (process.argv.includes("--check")) {
  let before = "";
  try { before = readFileSync(FILE, "utf8"); } catch { /* Reported below as different. */ }
  if (before !== text) {
    console.error("assets/api.d.ts is not what openapi.json describes; run `node testkit/peers/console/types.mjs`");
    process.exit(1);
  }
} else {
  writeFileSync(FILE, text);
}
