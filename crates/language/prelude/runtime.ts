// SPDX-License-Identifier: Apache-2.0
// The friendly part of `runtime`: running any workload, waiting by name, all pages of a list.

import { beginFrom, type Call, type Raw } from "./call.ts";
import { known, type Plain } from "./data.ts";
import { mustRefer, reference } from "./target.ts";
import { isWorkload, shapeOf, type Workload } from "./workload.ts";

/** What `runtime` has beside its RPCs. */
export interface RuntimeFriendly {
  /**
   * Runs several workloads: cells before what is in them, the others side by side. Gives their
   * statuses in the order given. Where one fails, what was begun goes on.
   */
  Run(
    workloads: readonly (Cell | Executable)[],
    options?: {},
    context?: Context,
  ): Promise<(runtime.CellStatus | runtime.ExecutableStatus)[]>;

  /** The same of workloads of every kind, pods among them. */
  Run(workloads: readonly Workload[], options?: {}, context?: Context): Promise<Ran[]>;

  /** Runs one workload, whichever it is. */
  Run(workload: Workload, options?: undefined, context?: Context): Promise<Ran>;

  /** All objects that `runtime.List` would give, page by page. */
  All(filter?: runtime.ListRequest, context?: Context): AsyncIterable<runtime.Object>;
}

/** The status of any workload. */
export type Ran = runtime.CellStatus | runtime.ExecutableStatus | pod.PodStatus;

/** The methods that run a workload, by its kind, whichever subsystem's they are. */
export type Runners = ReadonlyMap<string, Call>;

/** Any workload, by the method that takes its class: `Cell` by `runtime.RunCell`. */
export function runAny(run: Runners, what: unknown, options?: Plain, context?: unknown): unknown {
  known(what);
  if (Array.isArray(what)) return runAll(run, what, options, context);
  if (!isWorkload(what)) {
    throw new TypeError("runtime.Run: expected a workload, such as new Cell({ name: \"web\" })");
  }
  const { name, kind } = shapeOf(what);
  const method = run.get(kind);
  if (method === undefined) throw new TypeError(`runtime.Run: no method runs a ${name}`);
  return method(what, options, context);
}

async function runAll(
  run: Runners,
  what: unknown[],
  options: Plain | undefined,
  context: unknown,
): Promise<unknown[]> {
  const depth = (item: unknown): number =>
    isWorkload(item) ? item.name.split("/").length : 0;
  const depths = [...new Set(what.map(depth))].sort((a, b) => a - b);
  const answers = new Map<unknown, unknown>();
  const { stack } = new Error();
  for (const level of depths) {
    const now = what.filter((item) => depth(item) === level);
    const begin = (): unknown[] => now.map((item) => runAny(run, item, options, context));
    const ran = await Promise.all(beginFrom(stack, begin));
    now.forEach((item, index) => answers.set(item, ran[index]));
  }
  return what.map((item) => answers.get(item));
}

/** `Wait` needs to know which run: a name alone is asked for its present one. */
export async function waitFor(raw: Raw, what: unknown, ...rest: unknown[]): Promise<unknown> {
  const ref = reference(what);
  if (ref === undefined) return raw["Wait"]?.(what, ...rest);
  const context = rest[1];
  const run = ref["uid"] ? ref : mustRefer(await raw["Get"]?.({ ref }, context), "runtime.Wait");
  const answer = (await raw["Wait"]?.({ ref: run }, context)) as Plain;
  return isWorkload(what) && shapeOf(what).subsystem === "runtime"
    ? answer[shapeOf(what).kind]
    : answer;
}

export async function* allPages(raw: Raw, filter: Plain = {}, context?: unknown): AsyncGenerator {
  let pageToken = filter["pageToken"];
  do {
    const page = (await raw["List"]?.({ ...filter, pageToken }, context)) as Plain;
    yield* page["objects"] as unknown[];
    pageToken = page["nextPageToken"];
  } while (typeof pageToken === "string" && pageToken !== "");
}
