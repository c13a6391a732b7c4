// SPDX-License-Identifier: Apache-2.0
// Methods of the API as function objects, and the streams that some of them give.

import { isPlain, known, type Plain } from "./data.ts";
import type { MethodTable } from "./table.ts";
import { mustRefer, reference } from "./target.ts";
import { isWorkload, message, shapeOf, type Workload } from "./workload.ts";

/** Kept here: the global is gone when a program runs. */
const parent: AuraeHost = __aurae;

/** What a node sends, item by item. It ends with the call, or when the loop over it is left. */
export interface ServerStream<T> extends AsyncIterable<T> {
  /** Ends the call. */
  close(): void;
}

/** A call in which both sides send. */
export interface BidiStream<I, O> extends ServerStream<O> {
  /** Sends an item; resolves when it has been taken. */
  Send(item: I): Promise<void>;
  /** Ends what the program sends; the node may go on. */
  CloseSend(): Promise<void>;
}

/** A method: it takes a request, or a target in its place. */
export type Call = (...given: unknown[]) => unknown;

/** The methods of one subsystem on one node, by name. */
export type Raw = Record<string, Call>;

/** The method of that subsystem, on that node, as a function. */
export function bind(node: string | undefined, subsystem: string, shape: MethodTable): Call {
  const action = `${subsystem}.${shape.name}`;
  if (shape.clientStreams) {
    return (context) => bothWays(parent.stream(node, action, undefined, hostContext(context)));
  }
  return (...given) => {
    const { request, context, workload } = understand(action, shape, given);
    if (shape.serverStreams) return itemsOf(parent.stream(node, action, request, context));
    const answer = parent.call(node, action, request, context);
    if (!shape.unwraps || workload === undefined) return answer;
    // What another subsystem runs is a cell to this one.
    if (shapeOf(workload).subsystem !== subsystem) return answer;
    return answer.then((object) => (object as Plain)[shapeOf(workload).kind]);
  };
}

interface Understood {
  request: Plain;
  context: AuraeHostContext | undefined;
  /** The target, where it was a declaration. */
  workload: Workload | undefined;
}

/**
 * `(request, context)`, `(target, rest of the request, context)`, or
 * `(workload, rest of the request, context)`.
 */
function understand(action: string, shape: MethodTable, given: unknown[]): Understood {
  const [first, second, third] = given;
  if (shape.workload !== undefined && isWorkload(first)) {
    const { field, kind } = shape.workload;
    if (first.kind !== kind) {
      throw new TypeError(`${action}: expected ${kind} data, got a ${shapeOf(first).name}`);
    }
    const request = { ...plainRequest(action, second ?? {}), [field]: message(first) };
    return { request, context: hostContext(third), workload: undefined };
  }
  const named = shape.target === undefined ? undefined : targets(shape.target, first, action);
  if (shape.target === undefined || named === undefined) {
    const request = plainRequest(action, first ?? {});
    return { request, context: hostContext(second), workload: undefined };
  }
  const request = { ...plainRequest(action, second ?? {}), [shape.target]: named };
  const workload = isWorkload(first) ? first : undefined;
  return { request, context: hostContext(third), workload };
}

function targets(field: "ref" | "refs", value: unknown, action: string): unknown {
  if (field === "ref") return reference(value);
  if (Array.isArray(value)) return value.map((item) => mustRefer(item, action));
  const one = reference(value);
  return one === undefined ? undefined : [one];
}

/** Declarations within a request, in the API's shape. */
function plainRequest(action: string, request: unknown): Plain {
  known(request);
  if (!isPlain(request)) {
    throw new TypeError(`${action}: expected a request, a plain object`);
  }
  const entries = Object.entries(request).map(([key, value]) => [
    key,
    isWorkload(value) ? message(value) : value,
  ]);
  return Object.fromEntries(entries) as Plain;
}

/** The stack of the program's own call, while a friendly function begins others for it later. */
let origin: string | undefined;

/** Begins calls in the name of a stack that is gone by now. */
export function beginFrom<T>(stack: string | undefined, begin: () => T): T {
  origin = stack;
  try {
    return begin();
  } finally {
    origin = undefined;
  }
}

export function hostContext(context: unknown): AuraeHostContext | undefined {
  known(context);
  if (context === undefined) return origin === undefined ? undefined : { origin };
  if (!isPlain(context)) throw new TypeError("a context is { timeout?, signal? }");
  const { timeout, signal, ...rest } = context as Context & Plain;
  const unknown = Object.keys(rest)[0];
  if (unknown !== undefined) {
    throw new TypeError(`a context has no field ${JSON.stringify(unknown)}: { timeout?, signal? }`);
  }
  const host: AuraeHostContext = {};
  if (timeout !== undefined) host.timeout = timeout;
  if (signal !== undefined) host.signal = signal;
  if (origin !== undefined) host.origin = origin;
  return host;
}

function itemsOf<T>(stream: AuraeHostStream): ServerStream<T> {
  return {
    close: () => stream.close(),
    [Symbol.asyncIterator]: () => ({
      next: () => stream.next() as Promise<IteratorResult<T>>,
      return: () => {
        stream.close();
        return Promise.resolve({ done: true, value: undefined });
      },
    }),
  };
}

function bothWays<I, O>(stream: AuraeHostStream): BidiStream<I, O> {
  return {
    ...itemsOf<O>(stream),
    Send: (item) => stream.send(item),
    CloseSend: () => stream.closeSend(),
  };
}
