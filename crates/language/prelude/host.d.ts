// SPDX-License-Identifier: Apache-2.0
// What a program has beside ECMAScript and the API. Part of `aurae.d.ts` as it stands; implemented
// by the evaluator.

/**
 * How long: a number with a unit, or several: `"1m30s"`, `"500ms"`, `"1.5s"`, `"-2h"`.
 * Units: `ns`, `us`, `ms`, `s`, `m`, `h`, `d`. Answers have seconds: `"90s"`, `"0.5s"`.
 */
type Duration = string;

/** A point in time as of RFC 3339, with up to nine digits of seconds: `"2026-01-31T08:00:00.5Z"`. */
type Timestamp = string;

/** What limits a call. */
interface Context {
  /** From the call on; a number is of milliseconds. Absent: the client's default. */
  timeout?: Duration | number | undefined;
  /** Cancels the call, or ends the stream, when it is aborted. */
  signal?: AbortSignal | undefined;
}

/** Prints values, separated by spaces, and a line end, to standard output. */
declare function print(...values: unknown[]): void;

/** As in other places where JavaScript runs; `warn`, `error` and `debug` go to standard error. */
declare const console: {
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  debug(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
};

/** Waits; a number is of milliseconds. Rejects at once when `signal` is aborted. */
declare function sleep(
  duration: Duration | number,
  context?: { signal?: AbortSignal | undefined },
): Promise<void>;

/** Calls back once, after `milliseconds`. Gives the number that `clearTimeout` takes. */
declare function setTimeout<A extends unknown[]>(
  callback: (...args: A) => void,
  milliseconds?: number,
  ...args: A
): number;

/** Forgets what `setTimeout` was asked for. */
declare function clearTimeout(timer: number | undefined): void;

/** Calls back as soon as what runs now has ended or waits, before any timer. */
declare function queueMicrotask(callback: () => void): void;

/** Time that no clock's change moves. */
declare const performance: {
  /** Milliseconds since `timeOrigin`, with fractions. */
  now(): number;
  /** When the evaluator began, in milliseconds since 1970. */
  readonly timeOrigin: number;
};

/** Base64 to a string with a character per byte; spaces are left out. */
declare function atob(data: string): string;

/** A string of characters up to U+00FF to base64. Bytes have `toBase64()` of their own. */
declare function btoa(data: string): string;

/** What `AbortSignal` gives as its reason: `AbortError` or `TimeoutError` is its `name`. */
declare class DOMException extends Error {
  constructor(message?: string, name?: string);
  /** Of the names that had one, else 0. */
  readonly code: number;
}

/** Says that something is to end. */
declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

/** Knows whether something is to end. */
declare class AbortSignal {
  private constructor();
  readonly aborted: boolean;
  readonly reason: unknown;
  throwIfAborted(): void;
  /** Called when it is aborted, after those that listen. */
  onabort: ((event: { readonly type: "abort"; readonly target: AbortSignal }) => void) | null;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
  /** Aborted already. */
  static abort(reason?: unknown): AbortSignal;
  /** Aborted after that time; a number is of milliseconds. It keeps no program from ending. */
  static timeout(duration: Duration | number): AbortSignal;
  /** Aborted as soon as one of them is. */
  static any(signals: readonly AbortSignal[]): AbortSignal;
}

/** Strings to UTF-8. */
declare class TextEncoder {
  readonly encoding: "utf-8";
  encode(text?: string): Uint8Array;
}

/** UTF-8 to strings; what isn't UTF-8 becomes U+FFFD, or is refused where `fatal` is set. */
declare class TextDecoder {
  constructor(label?: "utf-8" | "utf8", options?: { fatal?: boolean });
  readonly encoding: "utf-8";
  /** What `options` said. */
  readonly fatal: boolean;
  decode(bytes?: Uint8Array | ArrayBuffer): string;
}

/** Files below the program's root, for reading. Paths are relative to the module that asks. */
declare const file: {
  read(path: string): Promise<Uint8Array>;
  readText(path: string): Promise<string>;
};

/** The arguments after the program's name. */
declare const args: readonly string[];

/**
 * The program's own values: `defaults`, with those of `--values FILE` laid over them, objects member
 * by member, everything else whole. What the type that the program declares for them doesn't allow
 * is refused with its place in the file; where none is declared, what isn't among the defaults, or
 * is of another kind: then items of a list are like those of the defaults, an empty object is a
 * table with keys of the file's, and `undefined` may become anything. A program asks once, and with
 * a file before it calls a node.
 */
declare function values<T extends object>(defaults: T): T;

/**
 * The nodes whose context has such labels (`aurae config set-context NAME --label role=web`), in
 * alphabetical order of the contexts' names: each is what `node(NAME)` gives, and as text its name.
 * Selectors are those of everywhere: `role=web,zone!=b`, `canary`, `env in (a,b)`; `""` selects all.
 * Where none matches, the call fails with `NOT_FOUND`.
 */
declare function nodes(selector: string): readonly Subsystems[];

/**
 * What this program declared as `from` it declares as `to` now, and what is below it with it. Said
 * before `to` is declared. A node can't rename what runs: `from` is stopped before `to` begins, and
 * a plan says that this is one change. Where nothing of the set runs as `from` it means nothing.
 */
declare function moved(names: { from: string; to: string }): void;

/** YAML 1.2. */
declare const yaml: {
  /** One document. */
  parse(text: string): unknown;
  stringify(value: unknown): string;
};
