// SPDX-License-Identifier: Apache-2.0
// The object of a call, in every way that a program may say it.

import { isPlain, known, type Plain } from "./data.ts";
import { isWorkload, message, type Workload } from "./workload.ts";

/**
 * Names an object: its path, its declaration, its status, what `runtime.Get` gave, or a reference.
 * A status says which run as well: an object that was recreated since is another one.
 */
export type Target =
  | string
  | Workload
  | runtime.Object
  | { readonly meta?: { readonly ref?: runtime.ObjectRef } }
  | { readonly path: string };

/** The reference that it stands for; none where `value` isn't a target at all. */
export function reference(value: unknown): Plain | undefined {
  known(value);
  if (typeof value === "string") return { path: value };
  if (isWorkload(value)) return message(value)["ref"] as Plain;
  if (typeof value !== "object" || value === null) return undefined;
  const { meta, path } = value as { meta?: { ref?: Plain }; path?: unknown };
  if (typeof path === "string") return value as Plain;
  return meta?.ref ?? inside(value as Plain);
}

/** An `Object` has one status, under the name of its kind. */
function inside(value: Plain): Plain | undefined {
  const statuses = Object.values(value).filter((item) => typeof item === "object");
  if (statuses.length !== 1) return undefined;
  return (statuses[0] as { meta?: { ref?: Plain } } | null)?.meta?.ref;
}

/** The same, of what must be one. */
export function mustRefer(value: unknown, what: string): Plain {
  const found = reference(value);
  if (found !== undefined) return found;
  const got = isPlain(value) ? "an object without a path or a status" : typeof value;
  throw new TypeError(`${what}: expected a path, a workload or a status, got ${got}`);
}
