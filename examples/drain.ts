#!/usr/bin/env aurae
// SPDX-License-Identifier: Apache-2.0
// Empties a node for its maintenance: what has the label `movable=true` is run on another node first
// and then ended here, cell by cell.
//
//   aurae drain.ts alice bob

import { nodes } from "./lib/objects.ts";

const [from, to] = nodes(args);
if (from === undefined || to === undefined) throw new Error("usage: drain.ts FROM TO");

const selector = "movable=true";
const objects: runtime.Object[] = [];
for await (const object of from.on.runtime.All({ selector, runningOnly: true })) {
  objects.push(object);
}

for (const { cell } of objects) {
  const ref = cell?.meta?.ref;
  if (cell === undefined || ref === undefined || ref.path.includes("/")) continue;
  const { path } = ref;
  const inside = objects.flatMap(({ executable }) =>
    executable?.meta?.ref?.path.startsWith(`${path}/`) ? [executable] : []
  );

  await to.on.runtime.RunCell({
    cell: { ref: { path }, labels: cell.meta?.labels, spec: cell.spec },
  });
  for (const { meta, spec } of inside) {
    const at = meta?.ref?.path;
    if (at === undefined || spec === undefined) continue;
    await to.on.runtime.RunExecutable({
      executable: { ref: { path: at }, labels: meta?.labels, spec },
    });
  }
  await from.on.runtime.Remove(path, { recursive: true, force: true });
  print(`${path} with ${inside.length} executables: ${from.name} -> ${to.name}`);
}
