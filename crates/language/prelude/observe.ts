// SPDX-License-Identifier: Apache-2.0
// The friendly part of `observe`: output as lines.

import type { Raw } from "./call.ts";
import { mustRefer, type Target } from "./target.ts";

/** What `observe` has beside its RPCs. */
export interface ObserveFriendly {
  /**
   * Lines of standard output, decoded, without their ends: those that are there, then those that
   * come, until the executable has ended. Of a cell: of all executables in it.
   * What was not kept stands in its place, as a line of its own: `[4096 bytes were not kept: retention]`.
   */
  Stdout(target: Target | readonly Target[], options?: LinesOptions): Lines;

  /** The same of standard error. */
  Stderr(target: Target | readonly Target[], options?: LinesOptions): Lines;
}

/** Which lines. */
export interface LinesOptions {
  /** Go on until the executable has ended. Default: true. */
  follow?: boolean;
  /** Only the last lines. Absent: all. */
  tail?: bigint | number;
  /** Only what was read from then on. */
  since?: Timestamp;
  /** Only what was read until then. */
  until?: Timestamp;
}

/** Lines of text. Nothing is asked of the node before the loop over it begins. */
export interface Lines extends AsyncIterable<string> {
  /** The same lines under a limit. */
  withContext(context: Context): Lines;
}

/** Longer lines are cut into pieces of that many bytes. */
const LONGEST = 1_048_576;

export function linesOf(
  raw: Raw,
  stream: "stdout" | "stderr",
  what: unknown,
  options: LinesOptions = {},
  context?: Context,
): Lines {
  const targets = Array.isArray(what) ? what : [what];
  const refs = targets.map((item) => mustRefer(item, "observe"));
  const request = { follow: true, ...options, refs, streams: [stream] };
  return {
    withContext: (limit) => linesOf(raw, stream, what, options, { ...context, ...limit }),
    [Symbol.asyncIterator]: () => {
      return decodeLines(raw["Logs"]?.(request, context) as AsyncIterable<observe.LogsResponse>);
    },
  };
}

async function* decodeLines(answers: AsyncIterable<observe.LogsResponse>): AsyncGenerator<string, void> {
  const open = new Map<string, Uint8Array[]>();
  const decoder = new TextDecoder();
  const text = (pieces: Uint8Array[]): string => decoder.decode(joinPieces(pieces));
  for await (const answer of answers) {
    const key = `${answer.ref?.tenant}/${answer.ref?.path} ${answer.ref?.uid}`;
    const pieces = open.get(key) ?? [];
    open.set(key, pieces);
    if (answer.data !== undefined) {
      for (const line of splitLines(answer.data.data, pieces)) yield text(line);
    } else if (pieces.length > 0) {
      yield text(pieces.splice(0));
    }
    if (answer.gap !== undefined) {
      yield `[${answer.gap.bytes} bytes were not kept: ${answer.gap.reason}]`;
    }
  }
  for (const pieces of open.values()) if (pieces.length > 0) yield text(pieces);
}

/** Complete lines, each in pieces; what is left of the last one stays in `pieces`. */
function* splitLines(data: Uint8Array, pieces: Uint8Array[]): Generator<Uint8Array[]> {
  let from = 0;
  let held = pieces.reduce((sum, piece) => sum + piece.length, 0);
  while (from < data.length) {
    const end = data.indexOf(10, from);
    const most = from + LONGEST - held;
    const cut = end >= 0 && end <= most ? end : Math.min(data.length, most);
    pieces.push(data.subarray(from, cut));
    if (cut === end || cut === most) yield pieces.splice(0);
    else break;
    from = cut === end ? cut + 1 : cut;
    held = 0;
  }
}

function joinPieces(pieces: Uint8Array[]): Uint8Array {
  const [only] = pieces;
  if (only !== undefined && pieces.length === 1) return only;
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
