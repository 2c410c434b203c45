#!/usr/bin/env node
// Makes the npm tarballs from built `pegboard` programs.
//
//     node packaging/npm/make.mjs --out dist linux-x64=target/release/pegboard
//
// writes `pegboard-VERSION.tgz` (the launcher) and `pegboard-linux-x64-VERSION.tgz` (the program). Several platforms can
// be given. The same input and the same SOURCE_DATE_EPOCH give the same bytes. Needs Node 20 and nothing else.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");

/** Ends the program with an error message. */
function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}

/** Returns the version of the workspace. */
function readVersion() {
  const manifest = readFileSync(join(root, "Cargo.toml"), "utf8");
  const version = /^\[workspace\.package\]\s[^[]*?^version = "([^"]+)"/m.exec(manifest)?.[1];
  return version ?? fail("no `workspace.package.version` in Cargo.toml");
}

/** Returns the header of a file in a tar archive (ustar). */
function tarHeader(name, size, mode, time) {
  const header = Buffer.alloc(512);
  const octal = (value, offset, length) => header.write(value.toString(8).padStart(length - 1, "0"), offset);
  header.write(name, 0, 100);
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(time, 136, 12);
  header.write("        0", 148);
  header.write("ustar\u000000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

/** Writes a package; `files` maps paths to `{ content, mode }`. */
function writePackage(path, files) {
  const time = Number(process.env.SOURCE_DATE_EPOCH ?? 0);
  const blocks = [];
  for (const name of Object.keys(files).sort()) {
    const { content, mode = 0o644 } = files[name];
    blocks.push(tarHeader(`package/${name}`, content.length, mode, time), content);
    blocks.push(Buffer.alloc((512 - (content.length % 512)) % 512));
  }
  blocks.push(Buffer.alloc(1024));
  const archive = gzipSync(Buffer.concat(blocks));
  // The operating system in the gzip header: unknown, on every system.
  archive[9] = 255;
  writeFileSync(path, archive);
  console.log(path);
}

const json = (value) => ({ content: Buffer.from(`${JSON.stringify(value, null, 2)}\n`) });
const file = (path, mode) => ({ content: readFileSync(path), mode });

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { out: { type: "string", default: "dist" } },
});
const template = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
const known = Object.keys(template.optionalDependencies).map((name) => name.split("/")[1]);
const programs = positionals.map((text) => {
  const [platform, ...path] = text.split("=");
  if (path.length === 0) fail(`\`${text}\` is not PLATFORM=PROGRAM`);
  if (!known.includes(platform)) fail(`unknown platform \`${platform}\`; known platforms: ${known.join(", ")}`);
  return [platform, path.join("=")];
});
if (programs.length === 0) fail("usage: make.mjs [--out FOLDER] PLATFORM=PROGRAM...");

const version = readVersion();
const licences = {
  "LICENSE-APACHE": file(join(root, "LICENSE-APACHE")),
  "LICENSE-MIT": file(join(root, "LICENSE-MIT")),
};
const { private: _, ...published } = template;
mkdirSync(values.out, { recursive: true });

writePackage(join(values.out, `pegboard-${version}.tgz`), {
  ...licences,
  "package.json": json({
    ...published,
    version,
    optionalDependencies: Object.fromEntries(known.map((platform) => [`@pegboard/${platform}`, version])),
  }),
  "README.md": file(join(here, "README.md")),
  "bin/pegboard.js": file(join(here, "bin/pegboard.js"), 0o755),
});

for (const [platform, path] of programs) {
  const [os, cpu] = platform.split("-");
  const program = file(path, 0o755);
  const { license, repository, homepage } = template;
  // A program that needs glibc is not installed where the C library is another one.
  const libc = os === "linux" && program.content.includes("GLIBC_2.") ? { libc: ["glibc"] } : {};
  writePackage(join(values.out, `pegboard-${platform}-${version}.tgz`), {
    ...licences,
    "package.json": json({
      name: `@pegboard/${platform}`,
      version,
      description: `The pegboard program for ${platform}`,
      license,
      repository,
      homepage,
      os: [os],
      cpu: [cpu],
      ...libc,
      preferUnplugged: true,
      publishConfig: { access: "public" },
    }),
    "README.md": {
      content: Buffer.from(
        `# @pegboard/${platform}\n\nThe \`pegboard\` program for ${platform}. ` +
          "Install the package [`pegboard`](https://www.npmjs.com/package/pegboard) instead; it depends on this one.\n",
      ),
    },
    [`bin/${os === "win32" ? "pegboard.exe" : "pegboard"}`]: program,
  });
}
