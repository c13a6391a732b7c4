// SPDX-License-Identifier: Apache-2.0
// The friendly part of `identity`: a user as an object.

import type { Raw } from "./call.ts";
import { isPlain, type Plain } from "./data.ts";
import { AuraeError } from "./error.ts";

/** What `identity` has beside its RPCs. */
export interface IdentityFriendly {
  /** A user by name; nothing is asked of the node before one of its methods is called. */
  User(name: string, options?: { tenant?: string }): UserHandle;
}

/** A method (`runtime.Stop`), a subsystem (`runtime`), or the name of either. */
export type Action = string | { readonly action: string };

/** Several at once, such as `runtime.Run`: it stands for all `Run…` methods. */
export type Actions = { readonly actions: readonly string[] };

/** Where a grant holds. */
export interface GrantScope {
  /** The tenant whose objects it is about. Absent: the user's own. */
  targetTenant?: string;
  /** Only objects at or below this path. Absent: all. */
  path?: string;
}

/** A user of the node. */
export interface UserHandle {
  readonly name: string;
  /** Absent: the caller's own. */
  readonly tenant: string | undefined;
  /** Makes the user known to the node. */
  Create(context?: Context): Promise<identity.User>;
  /** What the node knows of the user; rejects with `NOT_FOUND` where there is none. */
  Get(context?: Context): Promise<identity.User>;
  /** Refuses the user from now on; open streams end within a second. */
  Disable(context?: Context): Promise<identity.User>;
  /** Lets the user do an action, or every action of a subsystem. */
  Allow(action: Action, scope?: GrantScope, context?: Context): Promise<identity.Grant>;
  /** Lets the user do several; one grant each. */
  Allow(actions: Actions, scope?: GrantScope, context?: Context): Promise<identity.Grant[]>;
  /** Forbids it; wins over every permission. */
  Deny(action: Action, scope?: GrantScope, context?: Context): Promise<identity.Grant>;
  /** Forbids several. */
  Deny(actions: Actions, scope?: GrantScope, context?: Context): Promise<identity.Grant[]>;
  /** Takes grants back. */
  Withdraw(grants: identity.Grant | readonly identity.Grant[], context?: Context): Promise<void>;
  /** Says whether the user might, and which policies decide so. */
  Explain(
    action: Action,
    scope?: GrantScope,
    context?: Context,
  ): Promise<identity.ExplainResponse>;
}

export function userHandle(raw: Raw, name: string, options: { tenant?: string } = {}): UserHandle {
  if (typeof name !== "string") throw new TypeError("identity.User: expected a name");
  const { tenant } = options;
  const whose = tenant === undefined ? {} : { tenant };
  const ask = (method: string, request: Plain, context: unknown): Promise<never> =>
    raw[method]?.(request, context) as Promise<never>;
  const decide = (method: string) => (what: unknown, scope?: GrantScope, context?: Context) => {
    const one = (action: string): Promise<never> =>
      ask(method, { ...whose, user: name, ...scope, action }, context);
    const { actions } = what as Partial<Actions>;
    return actions === undefined ? one(actionOf(what)) : Promise.all(actions.map(one));
  };
  const handle = {
    name,
    tenant,
    Create: (context?: Context) => ask("CreateUser", { ...whose, name }, context),
    Get: (context?: Context) => findUser(raw, whose, name, context),
    Disable: (context?: Context) => ask("DisableUser", { ...whose, name }, context),
    Allow: decide("Allow"),
    Deny: decide("Deny"),
    Explain: decide("Explain"),
    async Withdraw(grants: unknown, context?: Context) {
      for (const grant of [grants].flat() as identity.Grant[]) {
        await ask("Withdraw", { id: grant.id }, context);
      }
    },
  } as unknown as UserHandle;
  return Object.freeze(handle);
}

function actionOf(what: unknown): string {
  if (typeof what === "string") return what;
  const { action } = (what ?? {}) as { action?: unknown };
  if (typeof action === "string") return action;
  const got = isPlain(what) ? "an object" : typeof what;
  throw new TypeError(`expected an action, such as runtime.Stop or "runtime.Stop", got ${got}`);
}

async function findUser(raw: Raw, whose: Plain, name: string, context: unknown): Promise<never> {
  const answer = await raw["ListUsers"]?.(whose, context);
  const { users } = answer as identity.ListUsersResponse;
  const found = users.find((one) => one.name === name);
  if (found !== undefined) return found as never;
  const failure = { code: "NOT_FOUND", message: `there is no user ${name}`, object: name };
  throw new AuraeError(failure);
}
