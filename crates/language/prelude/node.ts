// SPDX-License-Identifier: Apache-2.0
// The friendly part of `node`: other nodes.

/** What `node` has beside its RPCs. */
export interface NodeFriendly {
  /** The subsystems of another node: a context of `aurae config` by its name. */
  (context: string): Subsystems;
}
