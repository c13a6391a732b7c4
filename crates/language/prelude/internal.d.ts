// SPDX-License-Identifier: Apache-2.0
// The contract between the prelude and the evaluator: what is there while the prelude runs, and
// what the prelude leaves for the evaluator. Programs see none of it, and no declaration of it is
// in `aurae.d.ts`.
//
// The evaluator makes the global `__aurae`, runs the prelude (one module), takes what the prelude
// has put on it (`AuraeError`, `inspect`), and deletes it before a program runs.

interface AuraeHost {
  /** The API as data, from the descriptors; see `table.ts`. Set by the prelude's own first lines. */
  table: unknown;

  /**
   * Makes a unary call. The request is plain data: the prelude has put references and workloads
   * into the API's shape. Rejects with an `AuraeError` whose stack is that of the call.
   */
  call(
    node: string | undefined,
    method: string,
    request: unknown,
    context: AuraeHostContext | undefined,
  ): Promise<unknown>;

  /**
   * Begins a call whose requests or answers are a stream. `request` is `undefined` where the
   * program sends a stream. Never throws for what the node does: its methods reject.
   */
  stream(
    node: string | undefined,
    method: string,
    request: unknown,
    context: AuraeHostContext | undefined,
  ): AuraeHostStream;

  /** The names of the contexts whose labels match, sorted. Throws where it is no selector. */
  nodes(selector: string): string[];

  /** Gives `value` back; refuses what a plan doesn't know. Asked before a value is looked at. */
  known<T>(value: T): T;

  /** Left by the prelude: `new AuraeError(failure)` for whatever the parent reports as failed. */
  AuraeError?: new (failure: AuraeFailure) => Error;

  /**
   * Left by the prelude: how `print` and the REPL show an object that isn't plain data. Gives the
   * name and the plain object to show behind it (`Cell { name: "web" }`), or `undefined` for
   * everything that the prelude didn't make.
   */
  inspect?: (value: object) => { name: string; value: object } | undefined;
}

/** As `protocol::Failure`. */
interface AuraeFailure {
  code: string;
  message: string;
  hint?: string | undefined;
  field?: string | undefined;
  object?: string | undefined;
  method?: string | undefined;
}

interface AuraeHostContext {
  /** A stack that led here before an `await`; it is put below the call's own. */
  origin?: string;
  /** Milliseconds or a duration; absent: the client's default. What is neither is refused. */
  timeout?: number | string;
  /** Cancels the call when it is aborted, or is aborted already. */
  signal?: AbortSignal;
}

interface AuraeHostStream {
  /** The next item; `done` for ever after the end. One at a time. */
  next(): Promise<{ done: boolean; value: unknown }>;
  /** Sends an item; resolves when it has been taken. */
  send(item: unknown): Promise<void>;
  /** Ends what the program sends. */
  closeSend(): Promise<void>;
  /** Cancels the call; `next` then says `done`. Idempotent. */
  close(): void;
}

declare var __aurae: AuraeHost;
