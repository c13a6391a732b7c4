// SPDX-License-Identifier: Apache-2.0
// The error that a failed call throws. The evaluator makes it, from what the parent reports.

/** A call that failed, as it is thrown. */
export class AuraeError extends Error {
  /** Stable: `"NOT_FOUND"`, `"ALREADY_EXISTS"`, `"UNAVAILABLE"`, `"DEADLINE"`. */
  readonly code: string;
  /** What to do. */
  readonly hint: string | undefined;
  /** The request's field that is at fault: `"executable.spec.argv"`. */
  readonly field: string | undefined;
  /** The object that it is about: `"web/nginx"`. */
  readonly object: string | undefined;
  /** The call: `"runtime.Stop"`. */
  readonly method: string | undefined;

  constructor(failure: {
    code: string;
    message: string;
    hint?: string | undefined;
    field?: string | undefined;
    object?: string | undefined;
    method?: string | undefined;
  }) {
    super(failure.message);
    this.name = "AuraeError";
    this.code = failure.code;
    this.hint = failure.hint;
    this.field = failure.field;
    this.object = failure.object;
    this.method = failure.method;
  }
}
