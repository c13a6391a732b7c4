// SPDX-License-Identifier: Apache-2.0
// Durations of contexts. What goes to a node is parsed by the wire's own code, to the nanosecond.

const UNITS: Record<string, number> = {
  ns: 1e-6,
  us: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

export function milliseconds(duration: string | number): number {
  if (typeof duration === "number" && duration >= 0) return duration;
  const parts = String(duration).match(/[0-9]+(?:\.[0-9]+)?(?:ns|us|ms|s|m|h|d)/g);
  if (typeof duration !== "string" || parts === null || parts.join("") !== duration) {
    throw new TypeError(`${String(duration)} isn't a timeout: write "5s", "500ms" or milliseconds`);
  }
  return parts.reduce((sum, part) => {
    const number = Number.parseFloat(part);
    return sum + number * (UNITS[part.replace(/[0-9.]+/, "")] ?? 0);
  }, 0);
}
