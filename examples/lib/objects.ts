// SPDX-License-Identifier: Apache-2.0
// What several of these programs need around the API. It only defines.

/** What is there under that name; `undefined` where nothing is. */
export async function find(path: string, on: Subsystems): Promise<runtime.Object | undefined> {
  try {
    return await on.runtime.Get(path);
  } catch (error) {
    if (error instanceof AuraeError && error.code === "NOT_FOUND") return undefined;
    throw error;
  }
}

/** Ends everything of that name, and its record. That nothing is there is fine. */
export async function clear(path: string, on: Subsystems): Promise<void> {
  if ((await find(path, on)) === undefined) return;
  await on.runtime.Remove(path, { recursive: true, force: true });
}

/** Waits until the executable has printed such a line; rejects when it ends or takes too long. */
export async function printed(
  path: string,
  pattern: RegExp,
  timeout: Duration,
  on: Subsystems,
): Promise<string> {
  for await (const line of on.observe.Stdout(path).withContext({ timeout })) {
    if (pattern.test(line)) return line;
  }
  throw new Error(`${path} ended without printing ${pattern}`);
}

/** The same, of what runs on; a plan goes on as if it does. */
export async function ready(
  path: string,
  pattern: RegExp,
  timeout: Duration,
  on: Subsystems,
): Promise<void> {
  for await (const line of on.observe.Stdout(path).withContext({ timeout })) {
    if (pattern.test(line)) break;
  }
  const found = await find(path, on);
  if (found?.executable?.state !== "running") throw new Error(`${path} has ended`);
}

/** Nodes by their contexts' names; without names the command line's own. */
export function nodes(names: readonly string[]): { name: string; on: Subsystems }[] {
  const here = { runtime, observe, identity, node, tenant, sets, image, pod, schedule };
  if (names.length === 0) return [{ name: "this node", on: here }];
  return names.map((name) => ({ name, on: node(name) }));
}

/** Bytes for people: `12.5 MiB`. */
export function bytes(count: bigint | number | undefined): string {
  if (count === undefined) return "-";
  let rest = Number(count);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (rest < 1024) return `${unit === "B" ? rest : rest.toFixed(1)} ${unit}`;
    rest /= 1024;
  }
  return `${rest.toFixed(1)} TiB`;
}
