// SPDX-License-Identifier: Apache-2.0
// The global objects, for the command line's node and for others.

import { bind, type Call, type Raw } from "./call.ts";
import { known, type Plain } from "./data.ts";
import { userHandle } from "./identity.ts";
import { didYouMean } from "./nearest.ts";
import { linesOf, type LinesOptions } from "./observe.ts";
import { allPages, runAny, type Runners, waitFor } from "./runtime.ts";
import { scheduling } from "./schedule.ts";
import { type MethodTable, type SubsystemTable, table } from "./table.ts";

/** Kept here: the global is gone when a program runs. */
const contexts: AuraeHost = __aurae;

/** What takes the place of a raw method, or stands beside them. */
const FRIENDLY: Record<string, (raw: Raw, node: string | undefined) => Raw> = {
  runtime: (raw, node) => {
    const run = runners(node);
    return {
      Run: (what, options, context) => runAny(run, what, options as Plain, context),
      Wait: (what, ...rest) => waitFor(raw, what, ...rest),
      All: (filter, context) => allPages(raw, filter as Plain, context),
    };
  },
  observe: (raw) => ({
    Stdout: (what, options) => linesOf(raw, "stdout", what, options as LinesOptions),
    Stderr: (what, options) => linesOf(raw, "stderr", what, options as LinesOptions),
  }),
  identity: (raw) => ({
    User: (name, options) => userHandle(raw, name as string, options as { tenant?: string }),
  }),
  schedule: (raw) => {
    const { Declare } = raw;
    return Declare === undefined ? {} : scheduling(Declare, declaringOn);
  },
};

/** The node of all its subsystems, and of its `node`; `undefined` is the command line's. */
const places = new WeakMap<object, string | undefined>();

/** `schedule.Declare` of the node that a program names. */
function declaringOn(where: unknown): Call {
  known(where);
  const isOne = typeof where === "object" || typeof where === "function";
  if (isOne && where !== null && places.has(where)) return declareOf(places.get(where));
  if (typeof where === "string" && where !== "") return declareOf(where);
  throw new TypeError('schedule.Pin: expected a node, such as node("alice")');
}

function declareOf(node: string | undefined): Call {
  return subsystems(node).schedule.Declare as unknown as Call;
}

/** What each of them is called. */
const called = new WeakMap<object, string>();

/** A subsystem's name, of what is one. */
export function nameOf(value: unknown): string | undefined {
  return typeof value === "object" && value !== null ? called.get(value) : undefined;
}

const made = new Map<string | undefined, Subsystems>();

/** All subsystems of a node; `undefined` is the command line's. */
export function subsystems(node: string | undefined): Subsystems {
  const before = made.get(node);
  if (before !== undefined) return before;
  const entries = table.subsystems.map((shape) => [shape.name, subsystem(node, shape)]);
  const all = Object.fromEntries(entries) as Subsystems;
  // In a label, an environment, a file or a sentence it is its context's name.
  if (node !== undefined) {
    Object.defineProperty(all, "toJSON", { value: () => node });
    Object.defineProperty(all, "toString", { value: () => node });
  }
  Object.freeze(all);
  places.set(all, node);
  made.set(node, all);
  return all;
}

function subsystem(node: string | undefined, shape: SubsystemTable): object {
  const raw: Raw = {};
  for (const one of shape.methods) {
    raw[one.name] = named(bind(node, shape.name, one), `${shape.name}.${one.name}`);
  }
  const friendly = FRIENDLY[shape.name]?.(raw, node) ?? {};
  for (const [name, call] of Object.entries(friendly)) {
    friendly[name] = name in raw ? named(call, `${shape.name}.${name}`) : call;
  }
  if (friendly["Run"] !== undefined) friendly["Run"] = runsAll(friendly["Run"], shape);
  const methods = { ...raw, ...friendly };
  const object = shape.name === "node" ? nodeByName() : {};
  Object.setPrototypeOf(object, whatIsOffered(object, shape));
  for (const [name, value] of Object.entries(methods)) {
    Object.defineProperty(object, name, { value, enumerable: true });
  }
  Object.defineProperty(object, "action", { value: shape.name });
  called.set(object, shape.name);
  if (shape.name === "node") places.set(object, node);
  return Object.freeze(object);
}

/** Every method that runs a workload, with its subsystem. */
function running(): { subsystem: string; method: MethodTable; kind: string }[] {
  return table.subsystems.flatMap(({ name, methods }) =>
    methods.flatMap((method) => {
      const taken = method.workload;
      return taken?.runs ? [{ subsystem: name, method, kind: taken.kind }] : [];
    })
  );
}

/** Those methods on a node, by the kind of what they run. */
function runners(node: string | undefined): Runners {
  const all = running();
  return new Map(all.map(({ subsystem, method, kind }) => [kind, bind(node, subsystem, method)]));
}

/** `node("alice")`: another context's subsystems. */
function nodeByName(): object {
  return (context: unknown) => {
    if (typeof context === "string" && context !== "") return subsystems(context);
    throw new TypeError('node: expected the name of a context, such as node("alice")');
  };
}

/** `nodes("role=web")`: the subsystems of all contexts with such labels, by their names. */
export function nodesBySelector(selector: unknown): readonly Subsystems[] {
  known(selector);
  if (typeof selector === "string") return contexts.nodes(selector).map(subsystems);
  throw new TypeError('nodes: expected a selector of labels, such as nodes("role=web")');
}

/** `Run` of `run`. */
function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** A function object that knows its action. */
function named(call: Call, action: string): Call {
  Object.defineProperty(call, "name", { value: action });
  Object.defineProperty(call, "action", { value: action });
  return Object.freeze(call);
}

/** `runtime.Run` stands for every method that runs something. */
function runsAll(call: Call, shape: SubsystemTable): Call {
  const all = running().map(({ subsystem, method }) => `${subsystem}.${method.name}`);
  const actions = Object.freeze(all);
  Object.defineProperty(call, "name", { value: `${shape.name}.Run` });
  Object.defineProperty(call, "actions", { value: actions });
  return Object.freeze(call);
}

/**
 * Behind an object's own methods: asking for one that isn't there says so by name. Methods begin
 * with a capital, also where the program writes `runtime.run`; anything else is as absent as on any
 * object.
 */
function whatIsOffered(object: object, shape: SubsystemTable): object {
  return new Proxy(Object.getPrototypeOf(object) as object, {
    get(behind, key, asked) {
      if (typeof key === "string" && (/^[A-Z]/.test(key) || Object.hasOwn(object, capital(key)))) {
        const names = Object.keys(object);
        const meant = didYouMean(key, names) || `; ${shape.name} has ${names.join(", ")}`;
        throw new TypeError(`${shape.name}.${key} isn't offered${meant}`);
      }
      return Reflect.get(behind, key, asked) as unknown;
    },
  });
}
