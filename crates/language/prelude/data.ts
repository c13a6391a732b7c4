// SPDX-License-Identifier: Apache-2.0
// Plain data: copies, comparison, and 64-bit integers in JSON.

export type Plain = { [key: string]: unknown };

/** Gives `value` back; refuses what a plan doesn't know. Kept: the global is gone when it is used. */
export const { known }: { known<T>(value: T): T } = __aurae;

export function isPlain(value: unknown): value is Plain {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** A copy that shares nothing with `value` but what isn't plain data. */
export function copy<T>(value: T): T {
  // What a plan doesn't know isn't of type `object`, and can't be asked for its class.
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(copy) as T;
  if (value instanceof Uint8Array) return value.slice() as T;
  if (!isPlain(value)) return value;
  return mapEntries(value, copy) as T;
}

/** Equal but for the order of keys and keys that are `undefined`. */
export function equal(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (isWide(a) && isWide(b)) return BigInt(a) === BigInt(b);
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => equal(item, b[index]));
  }
  if (a instanceof Uint8Array && b instanceof Uint8Array) {
    return a.length === b.length && a.every((byte, index) => byte === b[index]);
  }
  if (!isPlain(a) || !isPlain(b)) return false;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => equal(own(a, key), own(b, key)));
}

/** 64-bit integers as JSON can hold them: a number where it is safe, else a string of digits. */
export function toJSON(value: unknown): unknown {
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value.toString();
  }
  if (Array.isArray(value)) return value.map(toJSON);
  return isPlain(value) ? mapEntries(value, toJSON) : value;
}

/** Digits back to integers, at the paths that are known to hold them. */
export function fromJSON(value: Plain, wide: readonly string[]): Plain {
  const result = copy(value);
  for (const path of wide) revive(result, path.split("."));
  return result;
}

function revive(at: unknown, path: readonly string[]): void {
  const [key, ...rest] = path;
  if (key === undefined) return;
  if (Array.isArray(at)) {
    for (const item of at) revive(item, path);
  } else if (isPlain(at) && Object.hasOwn(at, key)) {
    const found = at[key];
    if (rest.length > 0) revive(found, rest);
    else if (typeof found === "string" && /^-?[0-9]+$/.test(found)) at[key] = BigInt(found);
  }
}

function isWide(value: unknown): value is bigint | number {
  return typeof value === "bigint" || Number.isSafeInteger(value);
}

function own(value: Plain, key: string): unknown {
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

/** Keys are defined, not set: `__proto__` is a key like any other. */
function mapEntries(value: Plain, change: (value: unknown) => unknown): Plain {
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return Object.fromEntries(entries.map(([key, item]) => [key, change(item)]));
}
