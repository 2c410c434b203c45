// Sixty tools for the program `pi` (`--extension`). Each notes its call in the file `PEG_CALLS`.

import { appendFileSync } from "node:fs";

export default function (pi) {
  for (let number = 0; number < 60; number += 1) {
    pi.registerTool({
      name: `tool_${number}`,
      label: `Tool ${number}`,
      description: `Handle case ${number}: file the text of case ${number} in the archive of such cases.`,
      parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
      async execute(_id, { text }) {
        appendFileSync(process.env.PEG_CALLS, `tool_${number} ${text}\n`);
        return { content: [{ type: "text", text: `result ${number} of ${text}` }], details: {} };
      },
    });
  }
}
