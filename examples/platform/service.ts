// SPDX-License-Identifier: Apache-2.0
// A platform team's module: what a service is here. Application teams say what they need; limits,
// labels and hardening are the same for all. It only defines.

const MIB = 1024 * 1024;

/** How much a service gets. */
export type Size = "small" | "medium" | "large";

/** What an application team decides. */
export interface ServiceOptions {
  name: string;
  team: string;
  argv: string[];
  size?: Size;
  env?: Record<string, string>;
}

const SIZES = {
  small: { memory: 64 * MIB, pids: 32 },
  medium: { memory: 256 * MIB, pids: 128 },
  large: { memory: 1024 * MIB, pids: 512 },
} satisfies Record<Size, { memory: number; pids: number }>;

/** A service: a cell of its own with one executable in it. */
export class Service {
  readonly cell: Cell;
  readonly main: Executable;

  constructor(options: ServiceOptions) {
    const { name, team, argv, size = "small", env = {} } = options;
    const labels = { service: name, team };
    const { memory, pids } = SIZES[size];
    this.cell = new Cell({
      name,
      labels,
      resources: { memory: { max: memory, swapMax: 0 }, pidsMax: pids },
    });
    this.main = new Executable({
      name: `${name}/main`,
      labels,
      argv,
      env,
      capabilities: { bounding: [], ambient: [] },
      seccomp: { profile: "default" },
      stopGrace: "15s",
    });
  }

  /** In the order in which they are run. */
  get workloads(): Workload[] {
    return [this.cell, this.main];
  }
}
