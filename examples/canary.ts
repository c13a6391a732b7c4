#!/usr/bin/env aurae
// SPDX-License-Identifier: Apache-2.0
// Tries a new version on one node before the others get it: it has to run for a while without an
// error. Then all get it, at once; otherwise none does.
//
//   aurae canary.ts 2.1.0 5s alice bob carol
//   aurae plan canary.ts 2.1.0 5s alice bob carol     as if it runs well

import { clear, find, nodes } from "./lib/objects.ts";

const [version = "2.0.0", watched = "2s", ...names] = args;
const [first, ...others] = nodes(names);
if (first === undefined) throw new Error("usage: canary.ts VERSION DURATION [NODE…]");

async function run(on: Subsystems): Promise<Executable> {
  await clear("front", on);
  const cell = new Cell({ name: "front", labels: { app: "front", version } });
  const app = new Executable({
    name: "front/app",
    labels: { app: "front", version },
    argv: ["/bin/sh", "-c", 'echo "ready $VERSION"; while sleep 0.2; do echo ok; done'],
  }).Env("VERSION", version);
  await on.runtime.Run([cell, app]);
  return app;
}

/** Reads for a while: rejects at the first error, or when it ends. */
async function watch(app: Executable, on: Subsystems, time: Duration): Promise<void> {
  try {
    for await (const line of on.observe.Stdout(app).withContext({ timeout: time })) {
      if (/error/i.test(line)) throw new Error(`${app.name} says: ${line}`);
    }
  } catch (error) {
    if (error instanceof AuraeError && error.code === "DEADLINE") return;
    throw error;
  }
  const found = await find(app.name, on);
  if (found?.executable?.state !== "running") throw new Error(`${app.name} has ended`);
}

const canary = await run(first.on);
try {
  await watch(canary, first.on, watched);
} catch (error) {
  await clear("front", first.on);
  throw new Error(`${version} failed on ${first.name}`, { cause: error });
}
await Promise.all(others.map(({ on }) => run(on)));
print(`${version} runs on ${others.length + 1} nodes`);
