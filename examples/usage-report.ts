#!/usr/bin/env aurae
// SPDX-License-Identifier: Apache-2.0
// What everything on some nodes uses now, the largest first.
//
//   aurae usage-report.ts alice bob

import { bytes, nodes } from "./lib/objects.ts";

interface Row {
  node: string;
  path: string;
  memory: bigint;
  cpuSeconds: number;
}

async function report(name: string, on: Subsystems): Promise<Row[]> {
  const { usage } = await on.observe.Usage({});
  return usage.map((one) => ({
    node: name,
    path: one.ref?.path ?? "",
    memory: one.memoryBytes ?? 0n,
    cpuSeconds: Number(one.cpuUsageUsec ?? 0n) / 1e6,
  }));
}

const reports = await Promise.all(nodes(args).map(({ name, on }) => report(name, on)));
const rows = reports.flat().sort((a, b) =>
  Number(b.memory - a.memory) || b.cpuSeconds - a.cpuSeconds
);

for (const row of rows) {
  const cells = [
    row.node.padEnd(12),
    row.path.padEnd(28),
    bytes(row.memory).padStart(12),
    `${row.cpuSeconds.toFixed(2)} s`.padStart(12),
  ];
  print(cells.join(" "));
}
print(`${rows.length} objects`);
