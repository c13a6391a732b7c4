// SPDX-License-Identifier: Apache-2.0
//! The users that the built-in policies permit each method of the API. The methods come from the
//! descriptors; a method without a row here does not compile. `serve` hands the rows to `identity`,
//! which knows no RPC.

use api::action::ACTIONS;
use identity::{ActionDef, Audience};

use Audience::{Administrator, Member};
use Effect::{Changes, Decides, Reads};

/// The effect of a method on the node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It changes nothing.
    Reads,
    /// It changes something of the running node.
    Changes,
    /// It changes something that outlives a power loss, and so must its line in the audit.
    Decides,
}

const ROWS: [(&str, Audience, Effect); 98] = [
    ("runtime.RunExecutable", Member, Changes),
    ("runtime.RunCell", Member, Changes),
    ("runtime.UpdateCell", Member, Changes),
    ("runtime.UpdateExecutable", Member, Changes),
    ("runtime.FreezeCell", Member, Changes),
    ("runtime.ThawCell", Member, Changes),
    ("runtime.Get", Member, Reads),
    ("runtime.List", Member, Reads),
    ("runtime.Watch", Member, Reads),
    ("runtime.Wait", Member, Reads),
    ("runtime.Signal", Member, Changes),
    ("runtime.Stop", Member, Changes),
    ("runtime.Remove", Member, Changes),
    ("runtime.Attach", Member, Changes),
    ("observe.Logs", Member, Reads),
    ("observe.Journal", Administrator, Reads),
    ("observe.Usage", Member, Reads),
    ("observe.WatchUsage", Member, Reads),
    ("identity.CreateUser", Administrator, Decides),
    ("identity.ListUsers", Administrator, Reads),
    ("identity.DisableUser", Administrator, Decides),
    ("identity.EnableUser", Administrator, Decides),
    ("identity.Issue", Administrator, Decides),
    ("identity.Renew", Member, Decides),
    ("identity.ListCertificates", Administrator, Reads),
    ("identity.Revoke", Administrator, Decides),
    ("identity.Allow", Administrator, Decides),
    ("identity.Deny", Administrator, Decides),
    ("identity.Withdraw", Administrator, Decides),
    ("identity.Explain", Member, Reads),
    ("identity.Audit", Administrator, Reads),
    ("identity.WhoAmI", Member, Reads),
    ("node.Get", Member, Reads),
    ("node.GetConfig", Administrator, Reads),
    ("node.ListUnowned", Administrator, Reads),
    ("node.Reload", Administrator, Changes),
    ("node.Shutdown", Administrator, Decides),
    ("tenant.List", Administrator, Reads),
    ("tenant.Get", Member, Reads),
    ("tenant.Set", Administrator, Decides),
    ("tenant.Remove", Administrator, Decides),
    ("sets.Get", Member, Reads),
    ("sets.List", Member, Reads),
    ("sets.Put", Member, Changes),
    ("sets.Remove", Member, Changes),
    ("image.Pull", Member, Changes),
    ("image.Push", Member, Changes),
    ("image.List", Member, Reads),
    ("image.Get", Member, Reads),
    ("image.Remove", Member, Changes),
    ("image.Pin", Member, Changes),
    ("image.Prune", Member, Changes),
    ("image.Import", Member, Changes),
    ("image.Export", Member, Reads),
    ("image.Verify", Member, Changes),
    ("pod.Run", Member, Changes),
    ("pod.Get", Member, Reads),
    ("pod.List", Member, Reads),
    ("pod.Watch", Member, Reads),
    ("pod.Update", Member, Changes),
    ("pod.Debug", Member, Changes),
    ("pod.Stop", Member, Changes),
    ("pod.Remove", Member, Changes),
    ("pod.Dial", Member, Changes),
    ("schedule.Declare", Member, Decides),
    ("schedule.Get", Member, Reads),
    ("schedule.List", Member, Reads),
    ("schedule.Remove", Member, Decides),
    ("schedule.Trigger", Member, Changes),
    ("schedule.Pause", Member, Changes),
    ("schedule.Resume", Member, Changes),
    ("schedule.History", Member, Reads),
    ("schedule.Why", Member, Reads),
    ("schedule.Watch", Member, Reads),
    ("schedule.Undo", Member, Decides),
    ("schedule.PutConfig", Member, Decides),
    ("schedule.GetConfig", Member, Reads),
    ("schedule.ListConfigs", Member, Reads),
    ("schedule.RemoveConfig", Member, Decides),
    ("schedule.ListUnits", Administrator, Reads),
    ("schedule.GetUnit", Administrator, Reads),
    ("schedule.StartUnit", Administrator, Changes),
    ("schedule.StopUnit", Administrator, Changes),
    ("schedule.RestartUnit", Administrator, Changes),
    ("schedule.ReloadUnit", Administrator, Changes),
    ("schedule.KillUnit", Administrator, Changes),
    ("schedule.ResetFailedUnits", Administrator, Changes),
    ("schedule.EnableUnits", Administrator, Decides),
    ("schedule.DisableUnits", Administrator, Decides),
    ("schedule.MaskUnits", Administrator, Decides),
    ("schedule.UnmaskUnits", Administrator, Decides),
    ("schedule.PresetUnits", Administrator, Decides),
    ("schedule.SetDefaultUnit", Administrator, Decides),
    ("schedule.StartTransientUnit", Administrator, Changes),
    ("schedule.SetUnitProperties", Administrator, Decides),
    ("schedule.GetUnitManager", Administrator, Reads),
    ("schedule.SetUnitManager", Administrator, Changes),
    ("schedule.ReloadUnitFiles", Administrator, Changes),
];

/// One definition per method.
pub(crate) fn definitions() -> Vec<ActionDef> {
    let define = |&(name, audience, effect): &(&'static str, Audience, Effect)| ActionDef {
        name,
        audience,
        mutating: effect != Reads,
        durable: effect == Decides,
    };
    ROWS.iter().map(define).collect()
}

const _: () = assert!(
    each_method_has_a_row(),
    "a method of the contract has no row in actions.rs"
);
const _: () = assert!(
    ROWS.len() == ACTIONS.len(),
    "a row of actions.rs is of no method"
);

const fn each_method_has_a_row() -> bool {
    let mut methods: &[api::action::Action] = ACTIONS;
    while let [method, rest @ ..] = methods {
        if !has_row(method.name) {
            return false;
        }
        methods = rest;
    }
    true
}

const fn has_row(name: &str) -> bool {
    let mut rows: &[(&str, Audience, Effect)] = &ROWS;
    while let [(row, ..), rest @ ..] = rows {
        if same(row.as_bytes(), name.as_bytes()) {
            return true;
        }
        rows = rest;
    }
    false
}

const fn same(mut a: &[u8], mut b: &[u8]) -> bool {
    while let ([x, more_a @ ..], [y, more_b @ ..]) = (a, b) {
        if *x != *y {
            return false;
        }
        (a, b) = (more_a, more_b);
    }
    a.is_empty() && b.is_empty()
}
