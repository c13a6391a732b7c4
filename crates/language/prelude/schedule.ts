// SPDX-License-Identifier: Apache-2.0
// The friendly part of `schedule`: a workload, and when it runs. Each of its methods is a
// `schedule.Declare`.

import type { Call } from "./call.ts";
import { isPlain, known, type Plain } from "./data.ts";
import { isWorkload, message, shapeOf, type Workload } from "./workload.ts";

/** What `schedule` has beside its RPCs. */
export interface ScheduleFriendly {
  /** Runs it at once, and again as `restart` says. */
  Now(
    what: Workload | readonly Workload[],
    options?: ScheduleOptions,
    context?: Context,
  ): Promise<schedule.ScheduleStatus>;

  /**
   * Runs it whenever a pattern of crontab(5) matches, such as `"0 4 * * *"`: in UTC, or in the
   * zone of `{ pattern, zone }`.
   */
  Cron(
    what: Workload | readonly Workload[],
    pattern: string | schedule.Cron,
    options?: ScheduleOptions,
    context?: Context,
  ): Promise<schedule.ScheduleStatus>;

  /** Runs it once, when the node has room. */
  Lax(
    what: Workload | readonly Workload[],
    lax?: schedule.Lax,
    options?: ScheduleOptions,
    context?: Context,
  ): Promise<schedule.ScheduleStatus>;

  /** As `Now`, on that node: `node("alice")`, or the name of its context. */
  Pin(
    what: Workload | readonly Workload[],
    where: Subsystems | node.Node | string,
    options?: ScheduleOptions,
    context?: Context,
  ): Promise<schedule.ScheduleStatus>;
}

/**
 * What a schedule takes beside what runs and when. Its name is the first label of the workload's:
 * `nightly` of a pod `nightly`, of an executable `nightly` or `nightly/backup`. A cell is given
 * with the executables in it: `[cell, app]`. `given` says which configs and secrets a pod gets.
 */
export type ScheduleOptions = Omit<schedule.ScheduleSpec, "work" | "when"> & {
  given?: schedule.Given[];
};

/** What declares on a node, by what a program says for that node. */
export type Declaring = (where: unknown) => Call;

/** The methods over `schedule.Declare` of one node; `declaring` finds that of another. */
export function scheduling(declare: Call, declaring: Declaring): Record<string, Call> {
  const keep = (to: Call, called: string, what: unknown, when: Plain, rest: unknown[]) => {
    const [options = {}, context] = rest;
    known(options);
    if (!isPlain(options)) throw new TypeError(`schedule.${called}: expected options, an object`);
    const { given, ...spec } = options;
    const { first, work } = taken(called, what);
    if (given !== undefined) work["given"] = given;
    const name = first.name.split("/")[0];
    const whose = first.tenant === undefined ? {} : { tenant: first.tenant };
    return to({ ...whose, name, spec: { ...spec, when, work } }, context);
  };
  return {
    Now: (what, ...rest) => keep(declare, "Now", what, { now: {} }, rest),
    Cron: (what, pattern, ...rest) => {
      const cron = typeof known(pattern) === "string" ? { pattern } : pattern;
      if (!isPlain(cron)) {
        throw new TypeError('schedule.Cron: expected a pattern, such as "0 4 * * *"');
      }
      return keep(declare, "Cron", what, { cron }, rest);
    },
    Lax: (what, lax = {}, ...rest) => keep(declare, "Lax", what, { lax }, rest),
    Pin: (what, where, ...rest) => keep(declaring(where), "Pin", what, { now: {} }, rest),
  };
}

/** What runs, as `spec.work` has it. */
function taken(called: string, what: unknown): { first: Workload; work: Plain } {
  known(what);
  const all: unknown[] = Array.isArray(what) ? what : [what];
  const [first, ...within] = all;
  if (!isWorkload(first) || !within.every(isWorkload)) {
    const such = 'such as new Executable({ name: "nightly", argv: ["/usr/bin/backup"] })';
    throw new TypeError(`schedule.${called}: expected a workload, ${such}`);
  }
  const { kind, name } = shapeOf(first);
  if (kind === "cell") {
    if (within.length === 0) {
      throw new TypeError(`schedule.${called}: a cell runs nothing: give it as [cell, executable]`);
    }
    const executables = within.map((one) => ({ [shapeOf(one).kind]: message(one) }));
    return { first, work: { cell: { cell: { cell: message(first) }, executables } } };
  }
  if (within.length > 0) {
    throw new TypeError(`schedule.${called}: of several the first is a cell, this is a ${name}`);
  }
  const sent = message(first);
  // An executable is in a cell, which has the schedule's name.
  if (kind === "executable" && !first.name.includes("/")) {
    sent["ref"] = { ...(sent["ref"] as Plain), path: `${first.name}/main` };
  }
  return { first, work: { [kind]: { [kind]: sent } } };
}
