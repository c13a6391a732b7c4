#!/usr/bin/env aurae
// SPDX-License-Identifier: Apache-2.0
// Brings new teams onto a node: for each a tenant with a cell that bounds it, its people, and what
// they may do. Run it again after a change of `teams.json`: what is so already stays as it is.
//
//   aurae apply onboarding.ts

interface Team {
  tenant: string;
  memoryMiB: number;
  operators: string[];
  readers: string[];
}

const teams: Team[] = JSON.parse(await file.readText("./teams.json"));

for (const team of teams) {
  const { tenant } = team;
  const bound = new Cell({
    name: tenant,
    tenant,
    labels: { team: tenant },
    resources: { memory: { max: team.memoryMiB * 1024 * 1024 }, pidsMax: 512 },
  });
  await runtime.Run(bound);

  for (const name of team.operators) {
    const user = identity.User(name, { tenant });
    await user.Create();
    await user.Allow(runtime, { path: tenant });
    await user.Allow(observe, { path: tenant });
  }
  for (const name of team.readers) {
    const user = identity.User(name, { tenant });
    await user.Create();
    for (const action of [runtime.Get, runtime.List, observe.Logs, observe.Usage]) {
      await user.Allow(action, { path: tenant });
    }
  }
  print(`${tenant}: ${team.operators.length} operators, ${team.readers.length} readers`);
}
