#!/usr/bin/env node
// Starts the program from the package of this platform. Arguments, standard streams, signals and the exit status pass
// through.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { isatty } = require("node:tty");

const name = `@pegboard/${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "pegboard.exe" : "pegboard";

let program;
try {
  program = require.resolve(`${name}/bin/${file}`);
} catch {
  console.error(`error: the package \`${name}\` is not installed`);
  console.error(
    "hint: if your platform is supported, install again without `--omit=optional`; otherwise build Pegboard with " +
      "`cargo install pegboard`",
  );
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });

// A terminal sends SIGINT and SIGQUIT to the child as well. Forwarding them would deliver them twice.
// `process.stdin` must not be used: it makes the pipe that the child reads non-blocking.
const fromTerminal = new Set(isatty(0) ? ["SIGINT", "SIGQUIT"] : []);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => {
    if (!fromTerminal.has(signal)) child.kill(signal);
  });
}

child.on("error", (error) => {
  console.error(`error: cannot start \`${program}\`: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  // End with the same signal, so that the caller sees it. The exit status is for systems that do not deliver it.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  setTimeout(() => process.exit(128 + constants.signals[signal]), 1000);
});
