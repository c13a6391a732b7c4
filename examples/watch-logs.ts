#!/usr/bin/env aurae
// SPDX-License-Identifier: Apache-2.0
// Reads what an executable prints and reacts: three errors within ten seconds, and it is started
// anew. Ends when the executable has ended by itself, or after so many restarts.
//
//   aurae watch-logs.ts web/app 5

const [path, most = "3"] = args;
if (path === undefined) throw new Error("usage: watch-logs.ts PATH [RESTARTS]");

const WINDOW = 10_000;
const ERRORS = 3;

/** Reads until there are too many errors; false where the executable has ended before. */
async function untilTroubled(path: string): Promise<boolean> {
  let recent: number[] = [];
  for await (const line of observe.Stdout(path)) {
    if (!/\berror\b/i.test(line)) continue;
    const now = Date.now();
    recent = [...recent.filter((time) => now - time < WINDOW), now];
    print(`${path}: ${line}`);
    if (recent.length >= ERRORS) return true;
  }
  return false;
}

let restarts = 0;
while (await untilTroubled(path)) {
  if (restarts >= Number(most)) throw new Error(`${path} is troubled after ${restarts} restarts`);
  restarts += 1;
  const { executable: before } = await runtime.Get(path);
  if (before?.spec === undefined) throw new Error(`${path} is no executable`);
  await runtime.Stop(path, { grace: "5s" });
  await runtime.RunExecutable({
    executable: { ref: { path }, labels: before.meta?.labels ?? {}, spec: before.spec },
  });
  print(`restarted ${path} (${restarts})`);
}
print(`${path} has ended; it was restarted ${restarts} times`);
