// The routes of the LLM API proxy on the gateway's listener, and of one beside it, on the page of savings.

import assert from "node:assert/strict";
import { SIZES, step, Tab } from "../browser.mjs";

const TOOLS = 40;

export default async function routes(browser, { base, login, proxy }) {
  const tab = await Tab.open(browser, base);
  await tab.signIn(login);
  await tab.show("savings");
  const card = tab.page.locator("section[aria-label='LLM API proxy']");
  await tab.until("the proxy is shown", () => card.isVisible());
  assert.match(await card.innerText(), /No requests yet[\s\S]*\/openai\/v1/);
  step("savings: a proxy without requests says how to use it");
  await askThrough(base);
  await checkNumbers(tab, card);
  await checkBeside(tab, proxy);
  await checkLooks(tab, card);
  await tab.close();
}

/** Sends what the script of the provider answers: a search and a call, and three texts. */
async function askThrough(base) {
  const chat = (count) => ({
    model: "gpt-5.4",
    messages: [{ role: "user", content: "File it" }],
    tools: definitions(count).map((tool) => ({ type: "function", function: tool })),
  });
  const found = await post(`${base}/openai/v1/chat/completions`, chat(TOOLS));
  assert.equal(found.choices[0].message.tool_calls[0].function.name, "tool_7");
  await post(`${base}/openai/v1/chat/completions`, chat(TOOLS));
  await post(`${base}/openai/v1/chat/completions`, chat(1));
  const tools = definitions(TOOLS).map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters }));
  await post(`${base}/anthropic/v1/messages`, { model: "claude-opus-4-8", max_tokens: 1000, messages: [{ role: "user", content: "File it" }], tools });
}

const definitions = (count) => Array.from({ length: count }, (_, number) => ({
  name: `tool_${number}`,
  description: `Handle case ${number}: file the text of case ${number} in the archive of such cases.`,
  parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
}));

async function post(url, body) {
  const headers = { "content-type": "application/json", authorization: "Bearer a-key", "x-api-key": "a-key", "anthropic-version": "2023-06-01" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text);
}

async function checkNumbers(tab, card) {
  const row = (name) => card.locator("tbody tr").filter({ has: tab.page.locator("th", { hasText: name }) });
  const cell = (name, title) => row(name).locator(`td[data-label='${title}']`).innerText();
  await tab.until("both routes are counted", async () => (await cell("openai", "Requests")) === "3" && (await cell("anthropic", "Requests")) === "1");
  assert.equal(await card.locator("tbody tr").count(), 2, "routes without requests are not listed");
  // The search and `call_tool` in three rounds, and the one tool that passed.
  assert.equal(await cell("openai", "Tools in"), String(2 * TOOLS + 1));
  assert.equal(await cell("openai", "Tools sent"), "7");
  assert.equal(await cell("openai", "Hidden rounds"), "1");
  assert.equal(await cell("anthropic", "Hidden rounds"), "0");
  for (const title of ["Tokens saved", "Cache reads"]) {
    assert.ok(Number((await cell("openai", title)).replaceAll(",", "")) > 0, `${title}: ${await cell("openai", title)}`);
  }
  assert.match(await cell("openai", "Added per request"), /^[\d.]+ (µs|ms|s)$/);
  assert.equal(await cell("openai", "Remarks"), "unchanged: 1 few-tools");
  step("savings: requests, tools, rounds, time, cache reads and reasons of each route, without a reload");
}

/** A proxy without a gateway has its own table. */
async function checkBeside(tab, proxy) {
  const card = tab.page.locator(`section[aria-label='LLM API proxy at ${proxy}, without a gateway']`);
  await tab.until("the proxy beside the gateway is shown", () => card.isVisible());
  assert.match(await card.innerText(), new RegExp(`No requests yet[\\s\\S]*${proxy}`));
  await post(`${proxy}/openai/v1/chat/completions`, { model: "gpt-5.4", messages: [{ role: "user", content: "File it" }] });
  await tab.until("its request is counted", async () => (await card.locator("tbody td[data-label='Requests']").allInnerTexts()).join() === "1");
  step("savings: the routes of a proxy without a gateway, without a reload");
}

async function checkLooks(tab, card) {
  const { page } = tab;
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      const name = `routes-${size}-${colorScheme}`;
      await card.scrollIntoViewIfNeeded();
      await tab.checkWidth(name);
      await tab.checkAccessibility(name);
      await tab.shoot(name);
    }
  }
  step("savings: the routes in two themes at three widths");
}
