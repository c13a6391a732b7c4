#!/usr/bin/env aurae
// SPDX-License-Identifier: Apache-2.0
// A batch of jobs under one bound: at most two at a time, each with a limit of its own and a time in
// which it has to be done. Says what each used, and fails if one of them did.
//
//   aurae nightly.ts

import { bytes } from "./lib/objects.ts";

const MIB = 1024 * 1024;

interface Job {
  name: string;
  script: string;
  timeout: Duration;
}

const jobs: Job[] = [
  {
    name: "vacuum",
    script: "dd if=/dev/zero of=/dev/null bs=1M count=64 2>/dev/null",
    timeout: "1m",
  },
  { name: "rollup", script: "seq 200000 | sort -R | tail -1", timeout: "1m" },
  { name: "report", script: "date", timeout: "10s" },
];

const batch = new Cell({
  name: "nightly",
  resources: { memory: { max: 256 * MIB }, cpu: { weight: 20 } },
});
await runtime.Run(batch);

async function run(job: Job): Promise<boolean> {
  const executable = new Executable({
    name: `nightly/${job.name}`,
    argv: ["/bin/sh", "-c", job.script],
    nice: 10,
    resources: { memory: { max: 128 * MIB } },
  });
  try {
    const done = await runtime.Run(executable, { waitFor: "exited" }, { timeout: job.timeout });
    const peak = bytes(done.exit?.rusage?.maxRssBytes);
    print(`${job.name}: ${done.exit?.code === 0 ? "done" : "failed"}, at most ${peak}`);
    return done.exit?.code === 0;
  } catch (error) {
    if (!(error instanceof AuraeError) || error.code !== "DEADLINE") throw error;
    await runtime.Stop(executable, { grace: "0s" });
    print(`${job.name}: not done within ${job.timeout}`);
    return false;
  }
}

const waiting = [...jobs];
let failed = 0;
async function worker(): Promise<void> {
  for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
    if (!(await run(job))) failed += 1;
  }
}

try {
  await Promise.all([worker(), worker()]);
} finally {
  await runtime.Remove(batch, { recursive: true, force: true });
}
if (failed > 0) throw new Error(`${failed} of ${jobs.length} jobs failed`);
