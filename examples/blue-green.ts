#!/usr/bin/env aurae
// SPDX-License-Identifier: Apache-2.0
// A new version beside the old one: the colour that doesn't run is started with it, asked whether it
// works, and only then the other colour is stopped. What doesn't work is taken away again.
//
//   aurae blue-green.ts 1.4.2
//   aurae plan blue-green.ts 1.4.2     as if it comes up

import { clear, find, ready } from "./lib/objects.ts";

const version = args[0] ?? "1.0.0";
const here = { runtime, observe, identity, node, tenant, sets, image, pod, schedule };

const runs = async (path: string): Promise<boolean> => {
  const found = await find(path, here);
  return found?.executable?.state === "running";
};

const old = (await runs("green/app")) ? "green" : "blue";
const fresh = old === "blue" ? "green" : "blue";

await clear(fresh, here);
const cell = new Cell({ name: fresh, labels: { app: "front", color: fresh } });
const app = new Executable({
  name: `${fresh}/app`,
  labels: { app: "front", color: fresh, version },
  argv: ["/bin/sh", "-c", 'echo "ready $VERSION"; exec sleep 86400'],
}).Env("VERSION", version);
await runtime.Run([cell, app]);

try {
  await ready(app.name, new RegExp(`^ready ${RegExp.escape(version)}$`), "10s", here);
} catch (error) {
  await clear(fresh, here);
  throw new Error(`${version} doesn't come up; ${old} goes on`, { cause: error });
}

await clear(old, here);
print(`${fresh} runs ${version}`);
