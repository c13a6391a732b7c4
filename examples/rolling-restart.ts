#!/usr/bin/env aurae
// SPDX-License-Identifier: Apache-2.0
// Restarts an executable on several nodes, one after the other, and goes on only where it has come
// up: the first that doesn't ends the round, and the other nodes still run what they ran.
//
//   aurae rolling-restart.ts web/app alice bob carol

import { nodes, printed } from "./lib/objects.ts";

const [path, ...names] = args;
if (path === undefined) throw new Error("usage: rolling-restart.ts PATH [NODE…]");

for (const { name, on } of nodes(names)) {
  const { executable: before } = await on.runtime.Get(path);
  if (before?.spec === undefined) throw new Error(`${path} on ${name} is no executable`);

  await on.runtime.Stop(path, { grace: "10s" });
  await on.runtime.RunExecutable({
    executable: { ref: { path }, labels: before.meta?.labels ?? {}, spec: before.spec },
  });
  const line = await printed(path, /ready/, "30s", on);
  print(`${name}: ${path} is up again: ${line}`);
}
