// SPDX-License-Identifier: Apache-2.0
// Puts everything in its place: the globals of a program, and what the evaluator takes.

import { AuraeError } from "./error.ts";
import { Image } from "./image.ts";
import { nameOf, nodesBySelector, subsystems } from "./subsystems.ts";
import { table } from "./table.ts";
import { describe, isWorkload, shapeOf, Workload, workloadClasses } from "./workload.ts";

function global(name: string, value: unknown): void {
  Object.defineProperty(globalThis, name, { value, enumerable: false });
}

for (const [name, subsystem] of Object.entries(subsystems(undefined))) global(name, subsystem);
for (const [name, made] of workloadClasses()) global(name, made);
global("nodes", nodesBySelector);
global("Image", Image);
global("Workload", Workload);
global("AuraeError", AuraeError);

for (const name of table.notOffered) {
  Object.defineProperty(globalThis, name, {
    get(): never {
      throw new ReferenceError(`${name} isn't offered yet: this API has nothing of that name`);
    },
  });
}

__aurae.AuraeError = AuraeError;
__aurae.inspect = (value) => {
  const name = nameOf(value);
  if (name !== undefined) return { name, value: { ...(value as object) } };
  if (value instanceof Image) return { name: "Image", value: { ...value } };
  if (!isWorkload(value)) return undefined;
  const { kind: _, ...fields } = describe(value);
  return { name: shapeOf(value).name, value: fields };
};
