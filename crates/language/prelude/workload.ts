// SPDX-License-Identifier: Apache-2.0
// Workloads as data: the base of `Cell`, `Executable` and whatever the API gets next. The classes
// themselves, their fields and their methods for maps come from the table.

import { copy, equal, fromJSON, isPlain, known, type Plain, toJSON } from "./data.ts";
import { didYouMean } from "./nearest.ts";
import { table, type WorkloadTable } from "./table.ts";

/** The label of what an apply refuses to stop or to recreate. */
const PROTECT = "aurae.io/protect";

/** A workload as data: inert until it is handed to a subsystem. */
export abstract class Workload {
  /** Which class it is: `"cell"`, `"executable"`. */
  abstract readonly kind: string;
  /** Its path: `"web"`, or `"web/nginx"` in the cell `web`. */
  name: string;
  /** Absent: the caller's own. */
  tenant: string | undefined;
  /** At most 64, as in Kubernetes. */
  labels: Record<string, string>;

  // Inline: a name of its own would have to be among the globals.
  constructor(data: {
    name: string;
    tenant?: string;
    labels?: Record<string, string>;
    protect?: boolean;
  }) {
    const shape = shapeOf(this);
    known(data);
    if (!isPlain(data) || typeof known(data.name) !== "string" || data.name === "") {
      throw new TypeError(`new ${shape.name}({ name: … }): it needs a name, such as "web"`);
    }
    const { name, tenant, labels, protect, ...spec } = data as typeof data & Plain;
    if (protect !== undefined && typeof known(protect) !== "boolean") {
      throw new TypeError(`${shape.name}: protect is true or false`);
    }
    const unknown = Object.keys(spec).find((key) => !shape.fields.includes(key));
    if (unknown !== undefined) throw new TypeError(noField(shape, unknown));
    specs.set(this, copy(spec));
    this.name = name;
    this.tenant = tenant;
    this.labels = copy(labels ?? {});
    if (protect) this.labels[PROTECT] = "true";
    Object.preventExtensions(this);
  }

  /** Sets a label. */
  Label(key: string, value: string): this {
    this.labels[key] = value;
    return this;
  }

  /** The same kind, name, tenant, labels and fields. */
  Equals(other: unknown): boolean {
    return isWorkload(other) && equal(describe(this), describe(other));
  }

  /** Plain data for JSON and YAML; the class's `From` takes it back. */
  toJSON(): { kind: string; name: string } {
    return toJSON(describe(this)) as { kind: string; name: string };
  }
}

/** Whether it is one; what a plan doesn't know is none. */
export function isWorkload(value: unknown): value is Workload {
  return typeof value === "object" && value instanceof Workload;
}

/** What was asked for, without name, tenant and labels. Shared: a change is a change. */
const specs = new WeakMap<Workload, Plain>();

const shapes = new Map<unknown, WorkloadTable>();

export function shapeOf(workload: Workload): WorkloadTable {
  const shape = shapes.get(workload.constructor);
  if (shape === undefined) throw new TypeError("a workload's class can't be extended");
  return shape;
}

/** As the API takes it: `{ ref, labels, spec }`. */
export function message(workload: Workload): Plain {
  const { name, tenant, labels } = workload;
  const ref = tenant === undefined ? { path: name } : { tenant, path: name };
  return { ref, labels: copy(labels), spec: copy(specs.get(workload) ?? {}) };
}

/** Everything in one plain object, as it is written. */
export function describe(workload: Workload): Plain {
  const { name, tenant, labels } = workload;
  const { kind } = shapeOf(workload);
  const some = Object.keys(labels).length > 0 ? { labels } : {};
  return copy({ kind, name, tenant, ...some, ...specs.get(workload) });
}

/** One class per workload of the API. */
export function workloadClasses(): Map<string, unknown> {
  return new Map(table.workloads.map((shape) => [shape.name, workloadClass(shape)]));
}

function workloadClass(shape: WorkloadTable): unknown {
  const made = class extends Workload {
    get kind(): string {
      return shape.kind;
    }

    static From(json: unknown): Workload {
      if (!isPlain(json)) throw new TypeError(`${shape.name}.From: expected an object`);
      const { kind, ...data } = fromJSON(json, shape.wide);
      if (kind !== undefined && kind !== shape.kind) {
        throw new TypeError(`${shape.name}.From: this is of kind ${JSON.stringify(kind)}`);
      }
      return new made(data as { name: string });
    }
  };
  Object.defineProperty(made, "name", { value: shape.name });
  for (const field of shape.fields) {
    Object.defineProperty(made.prototype, field, {
      get(this: Workload) {
        return specs.get(this)?.[field];
      },
      set(this: Workload, value: unknown) {
        const spec = specs.get(this);
        if (spec !== undefined) spec[field] = value;
      },
    });
  }
  for (const { field, method } of shape.maps) {
    const value = function (this: Workload & Record<string, Plain>, key: string, to: string) {
      this[field] = { ...this[field], [key]: to };
      return this;
    };
    Object.defineProperty(made.prototype, method, { value });
  }
  for (const { field, method } of shape.lists) {
    const value = function (this: Workload & Record<string, unknown[]>, ...items: unknown[]) {
      this[field] = [...(this[field] ?? []), ...items];
      return this;
    };
    Object.defineProperty(made.prototype, method, { value });
  }
  addForAll(made.prototype, shape);
  shapes.set(made, shape);
  return made;
}

/** Methods that reach further than one field. */
function addForAll(prototype: Workload, { withEnv, exposes }: WorkloadTable): void {
  const define = (name: string, value: unknown) =>
    void Object.defineProperty(prototype, name, { value });
  if (withEnv.length > 0) {
    define("Env", function (this: Workload & Record<string, Plain[]>, name: string, value: string) {
      for (const field of withEnv) {
        const items = this[field];
        if (items) this[field] = items.map((item) => withVariable(item, name, value));
      }
      return this;
    });
  }
  if (exposes) {
    define("Expose", function (this: Workload & { network?: Plain }, ...ports: unknown[]) {
      const before = (this.network?.["ports"] ?? []) as unknown[];
      const more = ports.map((port) => (isPlain(port) ? port : { hostPort: port, port }));
      this.network = { ...this.network, ports: [...before, ...more] };
      return this;
    });
  }
}

/** With the variable, in the place of one of that name. */
function withVariable(item: Plain, name: string, value: string): Plain {
  const all = (item["env"] ?? []) as Plain[];
  const others = all.filter((variable) => variable["name"] !== name);
  return { ...item, env: [...others, { name, value }] };
}

function noField(shape: WorkloadTable, name: string): string {
  const known = ["name", "tenant", "labels", "protect", ...shape.fields];
  const meant = didYouMean(name, known) || `; it has ${known.join(", ")}`;
  return `${shape.name} has no field ${JSON.stringify(name)}${meant}`;
}
