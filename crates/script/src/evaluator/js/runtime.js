// SPDX-License-Identifier: Apache-2.0
// The host surface of a program: print and console, timers, abort signals, text, files, YAML, and
// `__aurae`, on which the bindings of the API stand. It runs inside the evaluator, before the
// bindings and the program. What it can't do itself it asks of `native`, which the engine gives.
// What it returns is what the engine calls.
(function (native, start, inspect, plan, given) {
  "use strict";
  // The engine's ten would end within the bindings.
  Error.stackTraceLimit = 64;
  // No name of the language's. What it would make is an error by its `name`.
  delete globalThis.InternalError;
  const define = (name, value) =>
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  // The engine's own counts from when the machine began.
  const { now } = performance;
  const began = now();
  define("performance", Object.freeze({ timeOrigin: Date.now(), now: () => now() - began }));
  const bound = (method) => Function.prototype.call.bind(method);
  const wellFormed = bound(String.prototype.toWellFormed);

  // What the bindings stand on, and leave.
  const host = { plan: start.plan };
  define("__aurae", host);

  // What a plan doesn't know (`plan.js`); in a run everything is known.
  const same = (value) => value;
  const nothing = () => undefined;
  const { known, allKnown, unknown, makeUnknown, met } = plan?.(native, define)
    ?? { known: same, allKnown: same, unknown: nothing, met: nothing };
  native.unknown = unknown;
  host.known = (value) => known(value);
  native.custom = (value) => host.inspect?.(value);

  // Errors.
  class AuraeError extends Error {
    constructor(message, details) {
      super(message);
      for (const key of ["code", "hint", "field", "object", "method"]) {
        if (details?.[key] !== undefined) this[key] = details[key];
      }
    }
    get name() { return "AuraeError"; }
  }
  define("AuraeError", AuraeError);
  const failed = (failure, stack) => {
    // The prelude has its own.
    const error = host.AuraeError ? new host.AuraeError(failure)
      : new AuraeError(failure.message, failure);
    if (failure.method !== undefined) {
      Object.defineProperty(error, "method", { value: failure.method, configurable: true });
    }
    if (stack !== undefined) {
      Object.defineProperty(error, "stack", {
        value: stack, writable: true, configurable: true,
      });
    }
    return error;
  };

  // Text for people.
  const text = (value) =>
    typeof value === "string" ? wellFormed(value) : wellFormed(inspect(value, start.color));
  const line = (values) => values.map(text).join(" ") + "\n";
  const out = (...values) => native.print(false, line(values));
  const err = (...values) => native.print(true, line(values));
  define("print", out);
  define("console", { log: out, info: out, debug: err, warn: err, error: err });

  // Timers: a heap, the next one first; of two that are due at once the older one. A disarmed one
  // stays in it until its turn comes, or until most of the heap is such.
  let heap = [];
  const armed = new Map();
  // Those that keep a program from ending.
  let loud = 0;
  let lastTimer = 0;
  // What most timers are called with.
  const none = Object.freeze([]);
  const before = (one, other) => one.at < other.at || (one.at === other.at && one.id < other.id);
  const arm = (f, delay, values, quiet = false, stack = undefined) => {
    if (typeof f !== "function") throw new TypeError("a timer needs a function");
    const wait = Math.min(Math.max(Number(delay) || 0, 0), 2 ** 31);
    const timer = { id: ++lastTimer, at: native.now() + wait, f, values, quiet, stack };
    armed.set(timer.id, timer);
    if (!quiet) loud++;
    let at = heap.length;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (before(heap[above], timer)) break;
      heap[at] = heap[above];
      at = above;
    }
    heap[at] = timer;
    return timer.id;
  };
  // Takes the first one out.
  const shift = () => {
    const last = heap[heap.length - 1];
    heap.length--;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      if (below + 1 < heap.length && before(heap[below + 1], heap[below])) below++;
      if (before(last, heap[below])) break;
      heap[at] = heap[below];
      at = below;
    }
    heap[at] = last;
  };
  const disarm = (id) => {
    const timer = armed.get(id);
    if (timer === undefined) return;
    armed.delete(id);
    if (!timer.quiet) loud--;
    timer.f = timer.values = undefined;
    if (heap.length > 64 && armed.size * 2 < heap.length) {
      // In order, an array is a heap.
      heap = [...armed.values()].sort((one, other) => (before(one, other) ? -1 : 1));
    }
  };
  const nextTimer = () => {
    while (heap.length > 0 && heap[0].f === undefined) shift();
    return heap[0]?.at;
  };
  define("setTimeout", (f, delay, ...values) => arm(f, delay, values.length ? values : none));
  define("clearTimeout", disarm);
  const fire = () => {
    nextTimer();
    if (heap.length === 0) return;
    const { id, f, values } = heap[0];
    shift();
    disarm(id);
    f(...values);
  };

  // Durations: milliseconds, or what the API takes, "1m30s".
  const units = { ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 };
  const milliseconds = (value, what) => {
    if (known(value) === undefined) return undefined;
    if (typeof value === "number" && value >= 0) return value;
    if (typeof value === "string" && /^(\d+(\.\d+)?(ns|us|ms|s|m|h|d))+$/.test(value)) {
      let sum = 0;
      for (const [, number, unit] of value.matchAll(/([\d.]+)([a-z]+)/g)) {
        sum += Number(number) * units[unit];
      }
      return sum;
    }
    throw new TypeError(`${what} is a number of milliseconds or a duration such as "1m30s"`);
  };

  // Abort signals.
  const secret = Symbol("signal");
  let abort;
  class AbortSignal {
    #listeners = new Set();
    #aborted = false;
    #reason = undefined;
    onabort = null;
    constructor(key) {
      if (key !== secret) throw new TypeError("a signal is made by an AbortController");
    }
    get aborted() { return this.#aborted; }
    get reason() { return this.#reason; }
    throwIfAborted() {
      if (this.#aborted) throw this.#reason;
    }
    addEventListener(kind, listener) {
      if (kind === "abort") this.#listeners.add(listener);
    }
    removeEventListener(kind, listener) {
      if (kind === "abort") this.#listeners.delete(listener);
    }
    static abort(reason) {
      const signal = new AbortSignal(secret);
      abort(signal, reason);
      return signal;
    }
    static timeout(delay) {
      const signal = new AbortSignal(secret);
      const reason = () => new DOMException("it took too long", "TimeoutError");
      // It doesn't keep a program from ending.
      const wait = milliseconds(delay, "a timeout");
      arm(() => abort(signal, reason()), wait, none, true);
      return signal;
    }
    static any(signals) {
      const joined = new AbortSignal(secret);
      for (const signal of signals) {
        if (signal.aborted) {
          abort(joined, signal.reason);
          break;
        }
        signal.addEventListener("abort", () => abort(joined, signal.reason));
      }
      return joined;
    }
    #abort(reason = new DOMException("it was aborted", "AbortError")) {
      if (this.#aborted) return;
      this.#aborted = true;
      this.#reason = reason;
      const event = { type: "abort", target: this };
      const listeners = this.#listeners;
      this.#listeners = new Set();
      for (const listener of listeners) {
        typeof listener === "function" ? listener.call(this, event) : listener.handleEvent(event);
      }
      this.onabort?.(event);
    }
    static {
      abort = (signal, reason) => signal.#abort(reason);
    }
  }
  class AbortController {
    signal = new AbortSignal(secret);
    abort(reason) {
      abort(this.signal, reason);
    }
  }
  define("AbortSignal", AbortSignal);
  define("AbortController", AbortController);

  // Waits that say where they are, so that who interrupts a program learns it. A hundred thousand
  // of them are to fit: those of one place share its text, and one without a signal has no
  // function of its own.
  let place = "";
  define("sleep", (delay, context) => new Promise((resolve, reject) => {
    const signal = context?.signal;
    signal?.throwIfAborted();
    const wait = milliseconds(delay, "a sleep");
    const { stack } = new Error();
    if (stack !== place) place = stack;
    if (!signal) return void arm(resolve, wait, none, false, place);
    const end = () => {
      signal.removeEventListener("abort", aborted);
      resolve();
    };
    const id = arm(end, wait, none, false, place);
    const aborted = () => {
      disarm(id);
      reject(signal.reason);
    };
    signal.addEventListener("abort", aborted);
  }));

  // Calls and streams.
  const MAX_CALLS = 1024;
  const open = new Map();
  // Calls whose request is being read, which may run the program's code and begin others.
  let beginning = 0;
  const begin = (node, method, request, context, stream, answer) => {
    given.settled();
    const signal = context?.signal;
    signal?.throwIfAborted();
    if (open.size + beginning >= MAX_CALLS) {
      throw new AuraeError(`more than ${MAX_CALLS} calls at once`, {
        code: "RESOURCE_EXHAUSTED", method, hint: "await some before you begin more",
      });
    }
    const origin = context?.origin;
    const stack = new Error().stack + (origin === undefined ? "" : `\n${origin}`);
    const timeout = milliseconds(context?.timeout, "a timeout");
    beginning += 1;
    let id;
    try {
      id = native.call({ node, method, request, timeout, stream, stack });
    } finally {
      beginning -= 1;
    }
    if (signal?.aborted) {
      native.cancel(id);
      throw signal.reason;
    }
    const end = () => {
      signal?.removeEventListener("abort", cancelled);
      return open.delete(id);
    };
    const cancelled = () => {
      if (!end()) return;
      native.cancel(id);
      answer({ error: signal.reason });
    };
    signal?.addEventListener("abort", cancelled);
    open.set(id, { stack, method, end, answer });
    return id;
  };
  const call = (node, method, request, context) => new Promise((resolve, reject) => {
    const id = begin(node, method, request, context, false, (result) => {
      open.get(id)?.end();
      "error" in result ? reject(result.error) : resolve(result.value);
    });
  });

  // A stream: items one by one, in both directions; `next` and `send` may be called ahead.
  function stream(node, method, request, context) {
    const readers = [];
    let ended;
    let pulling = false;
    let sent = Promise.resolve();
    let acknowledge;
    const settle = (reader, result) =>
      "error" in result ? reader.reject(result.error)
        : reader.resolve({ done: "done" in result, value: result.value });
    const finish = (result) => {
      ended = { done: true };
      pulling = false;
      settle(readers.shift() ?? { reject() {}, resolve() {} }, result);
      for (const reader of readers.splice(0)) settle(reader, ended);
      acknowledge?.();
    };
    const id = begin(node, method, request, context, true, (result) => {
      if ("sent" in result) return acknowledge?.();
      if ("error" in result || "done" in result) {
        if (open.has(id)) {
          open.get(id).end();
          native.cancel(id);
        }
        return finish(result);
      }
      pulling = false;
      settle(readers.shift(), result);
      pull();
    });
    const pull = () => {
      if (pulling || readers.length === 0 || ended) return;
      pulling = true;
      native.pull(id);
    };
    const isOpen = () => !ended && open.has(id);
    const write = (item) => {
      if (!isOpen() || !native.send(id, item, isOpen)) {
        throw new AuraeError("the stream has ended", { code: "CANCELLED", method });
      }
      return new Promise((resolve) => {
        acknowledge = () => { acknowledge = undefined; resolve(); };
      });
    };
    const close = () => {
      if (ended) return;
      if (open.has(id)) {
        open.get(id).end();
        native.cancel(id);
      }
      finish({ done: true });
    };
    return {
      next: () => new Promise((resolve, reject) => {
        if (ended) return resolve({ done: true, value: undefined });
        readers.push({ resolve, reject });
        pull();
      }),
      close,
      return: (value) => {
        close();
        return Promise.resolve({ done: true, value });
      },
      send: (item) => {
        const next = sent.then(() => write(item));
        sent = next.catch(() => {});
        return next;
      },
      closeSend: () => {
        sent = sent.then(() => {
          if (isOpen()) native.close(id);
        });
        return sent;
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }
  Object.assign(host, { call, stream });

  host.nodes = (selector) => {
    const { stack } = new Error();
    const { names, failure } = native.nodes(wellFormed(selector));
    if (failure === undefined) return names;
    throw failed(failure, stack);
  };

  // Files, text, YAML, arguments.
  const readFile = (path, stack) => {
    const { bytes, failure } = native.readFile(`${path}`, stack);
    if (failure !== undefined) throw failed(failure, stack);
    return bytes;
  };
  const toHex = bound(Uint8Array.prototype.toHex);
  define("file", Object.freeze({
    read: async (path) => readFile(path, new Error().stack),
    readText: async (path) => native.decode(readFile(path, new Error().stack), true),
  }));
  define("TextEncoder", class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(value = "") {
      return native.encode(wellFormed(`${value}`));
    }
  });
  define("TextDecoder", class TextDecoder {
    #fatal;
    constructor(label = "utf-8", options = {}) {
      if (!/^utf-?8$/i.test(label)) throw new RangeError(`no such encoding here: ${label}`);
      this.#fatal = options.fatal === true;
    }
    get encoding() { return "utf-8"; }
    get fatal() { return this.#fatal; }
    decode(bytes = new Uint8Array()) {
      const view = bytes instanceof ArrayBuffer ? new Uint8Array(bytes)
        : new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      return native.decode(view, this.#fatal);
    }
  });
  define("yaml", Object.freeze({
    parse: (source) => native.yamlParse(wellFormed(`${source}`)),
    stringify: (value) => native.yamlStringify(allKnown(value)),
  }));
  define("args", Object.freeze([...start.args]));
  define("values", given.values);
  define("moved", ({ from, to }) => {
    const isPath = (path) => typeof known(path) === "string" && path !== "";
    if (!isPath(from) || !isPath(to) || from === to) {
      throw new TypeError('moved: expected two paths, such as { from: "web", to: "front" }');
    }
    native.moved(wellFormed(from), wellFormed(to));
  });

  // What may follow a path of names, without running any of the program's code.
  const names = (path) => {
    let value = globalThis;
    for (const name of path) {
      let found;
      let at = Object(value);
      for (; at !== null && !native.isProxy(at) && !found; at = Object.getPrototypeOf(at)) {
        found = Object.getOwnPropertyDescriptor(at, name);
      }
      if (!found || found.value === undefined || found.value === null) return [];
      value = found.value;
    }
    const all = new Map();
    for (let at = Object(value); at !== null && !native.isProxy(at);) {
      for (const name of Object.getOwnPropertyNames(at)) {
        const found = Object.getOwnPropertyDescriptor(at, name);
        if (!all.has(name)) all.set(name, typeof found?.value === "function");
      }
      at = Object.getPrototypeOf(at);
      if (at === Object.prototype && path.length > 0) break;
    }
    return [...all].slice(0, 5000);
  };

  // What can't be sent to a node though its properties could.
  const kinds = [
    Map, Set, WeakMap, WeakSet, WeakRef, ArrayBuffer, SharedArrayBuffer, DataView, RegExp, Promise,
    Error, Number, String, Boolean, Object.getPrototypeOf(Uint8Array),
  ].map((kind) => [kind.prototype, kind.name]);
  const isIn = bound(Object.prototype.isPrototypeOf);
  const kind = (object) => kinds.find(([prototype]) => isIn(prototype, object))?.[1];

  return {
    names, fire, makeUnknown, failed, kind,
    isError: native.isError,
    text: (value) => wellFormed(value),
    hex: (bytes) => toHex(bytes),
    inspect: (value) => wellFormed(inspect(value, start.color)),
    bigint: (digits) => BigInt(digits),
    unknown, met,
    nextTimer,
    busy: () => open.size > 0 || loud > 0,
    // Where it waits: the newest wait's stack.
    waiting: () => [...armed.values()].findLast((timer) => timer.stack)?.stack
      ?? [...open.values()].at(-1)?.stack ?? "",
    answer: (id, result) => {
      const known = open.get(id);
      if (known === undefined) return;
      if ("failure" in result) {
        const failure = { method: known.method, ...result.failure };
        known.answer({ error: failed(failure, known.stack) });
        if (open.has(id)) known.end();
        return;
      }
      known.answer(result);
    },
    stop: () => {
      heap = [];
      armed.clear();
      loud = 0;
      for (const [id, known] of [...open]) {
        known.end();
        native.cancel(id);
      }
    },
  };
})
