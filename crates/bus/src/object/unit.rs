// SPDX-License-Identifier: Apache-2.0
//! `org.freedesktop.systemd1.Unit`: what units of every type have.

use schedule::unit::View;
use units::depend::{Dependency, SHOWN};
use units::name::UnitName;
use units::value::Condition;
use zbus::Variant;

use super::settings::{flag, texts, word};
use super::{Properties, no_job};
use crate::manager::object_path;
use crate::path;

fn names(units: &[UnitName]) -> Vec<String> {
    units.iter().map(ToString::to_string).collect()
}

fn dependencies(view: &View, all: &mut Properties) {
    for (kind, own, others) in SHOWN {
        for (name, inverse) in [(own, false), (others, true)] {
            let is_it = |it: &&(Dependency, bool, _)| it.0 == kind && it.1 == inverse;
            let found = view.dependencies.iter().find(is_it);
            let units = found.map(|(.., units)| names(units)).unwrap_or_default();
            if !name.is_empty() {
                all.push((name, Variant::from(units)));
            }
        }
    }
}

/// Microseconds of the real clock and of the one since the boot, of such a moment.
pub(super) fn moments(boot: Option<u64>) -> (u64, u64) {
    let Some(boot) = boot else {
        return (0, 0);
    };
    let ago = kernel::time::boottime_ns().saturating_sub(boot);
    let real = kernel::time::realtime_ns().saturating_sub(ago);
    (real / 1_000, boot / 1_000)
}

fn times(view: &View, all: &mut Properties) {
    for (name, monotonic, boot) in [
        (
            "InactiveExitTimestamp",
            "InactiveExitTimestampMonotonic",
            view.begun,
        ),
        (
            "ActiveEnterTimestamp",
            "ActiveEnterTimestampMonotonic",
            view.active,
        ),
        (
            "ActiveExitTimestamp",
            "ActiveExitTimestampMonotonic",
            view.left,
        ),
        (
            "InactiveEnterTimestamp",
            "InactiveEnterTimestampMonotonic",
            view.inactive,
        ),
        (
            "ConditionTimestamp",
            "ConditionTimestampMonotonic",
            view.begun,
        ),
        ("AssertTimestamp", "AssertTimestampMonotonic", view.begun),
    ] {
        let (real, boot) = moments(boot);
        all.push((name, Variant::from(real)));
        all.push((monotonic, Variant::from(boot)));
    }
    all.push(("StateChangeTimestamp", Variant::from(view.changed / 1_000)));
}

/// Test, trigger, negation, parameter, and how it went: 1 is that it held.
fn conditions(field: &str, all: &[Condition], held: bool) -> Variant<'static> {
    let row = |it: &Condition| {
        let name = format!("{field}{}", it.test);
        let result = if held { 1_i32 } else { 0 };
        (
            name,
            it.triggering,
            it.negated,
            it.parameter.clone(),
            result,
        )
    };
    let rows: Vec<(String, bool, bool, String, i32)> = all.iter().map(row).collect();
    Variant::from(rows)
}

/// What may be done to it.
fn abilities(view: &View, all: &mut Properties) {
    let settings = &view.unit.settings;
    let loaded = view.status.load == "loaded";
    let refuses = |field| flag(settings, field, false);
    let reloads = !settings.commands("ExecReload").is_empty();
    for (name, value) in [
        ("CanStart", loaded && !refuses("RefuseManualStart")),
        ("CanStop", !refuses("RefuseManualStop")),
        ("CanReload", loaded && reloads),
        ("CanIsolate", loaded && refuses("AllowIsolate")),
        ("CanFreeze", view.group.is_some()),
        ("StopWhenUnneeded", refuses("StopWhenUnneeded")),
        ("RefuseManualStart", refuses("RefuseManualStart")),
        ("RefuseManualStop", refuses("RefuseManualStop")),
        ("AllowIsolate", refuses("AllowIsolate")),
        (
            "DefaultDependencies",
            flag(settings, "DefaultDependencies", true),
        ),
        ("IgnoreOnIsolate", refuses("IgnoreOnIsolate")),
        // Files are read again when a client asks for it; whether they are others isn't looked at.
        ("NeedDaemonReload", false),
        ("Transient", view.is_transient),
        ("Perpetual", false),
        ("ConditionResult", view.status.condition.is_empty()),
        (
            "AssertResult",
            !view.status.words.starts_with("the assertion"),
        ),
    ] {
        all.push((name, Variant::from(value)));
    }
}

fn job(view: &View) -> Variant<'static> {
    let id = view.status.job.as_ref().map_or(0, |(id, _)| *id);
    let object = match id {
        0 => no_job(),
        id => object_path(path::of_job(id)),
    };
    Variant::from((u32::try_from(id).unwrap_or(u32::MAX), object.into_inner()))
}

fn invocation(view: &View) -> Vec<u8> {
    let digits = view.invocation.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.filter_map(byte).collect()
}

/// Those of a unit that there isn't.
pub(super) fn absent(name: &UnitName) -> Properties {
    let error = (
        "org.freedesktop.systemd1.NoSuchUnit".to_owned(),
        format!("Unit {name} not found."),
    );
    let text = |it: &str| Variant::from(it.to_owned());
    vec![
        ("Id", text(name.as_str())),
        ("Names", Variant::from(vec![name.to_string()])),
        ("Description", text(name.as_str())),
        ("LoadState", text("not-found")),
        ("LoadError", Variant::from(error)),
        ("ActiveState", text("inactive")),
        ("SubState", text("dead")),
        ("FragmentPath", text("")),
        ("UnitFileState", text("")),
        ("NeedDaemonReload", Variant::from(false)),
    ]
}

/// What has triggered it, in systemd's names.
fn trigger(view: &View) -> Vec<(String, String)> {
    let all = view.trigger.iter();
    all.map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
        .collect()
}

/// How it is.
fn state(view: &View) -> Properties {
    let status = &view.status;
    let text = |it: &str| Variant::from(it.to_owned());
    let error = match status.load_error.is_empty() {
        true => (String::new(), String::new()),
        false => {
            let name = "org.freedesktop.systemd1.BadUnitSetting".to_owned();
            (name, status.load_error.clone())
        }
    };
    let names: Vec<String> = view.unit.names.iter().map(ToString::to_string).collect();
    vec![
        ("Id", text(view.id.as_str())),
        ("Names", Variant::from(names)),
        ("Following", text("")),
        ("LoadState", text(status.load)),
        ("ActiveState", text(status.active)),
        (
            "FreezerState",
            text(if view.is_held { "frozen" } else { "running" }),
        ),
        ("SubState", text(status.sub)),
        ("FragmentPath", text(&status.fragment)),
        ("DropInPaths", Variant::from(status.dropins.clone())),
        ("UnitFileState", text(status.file_state)),
        ("UnitFilePreset", text("")),
        ("LoadError", Variant::from(error)),
        ("Job", job(view)),
        ("InvocationID", Variant::from(invocation(view))),
        ("CanClean", Variant::from(view.folders.clone())),
        ("ActivationDetails", Variant::from(trigger(view))),
        ("Refs", Variant::from(Vec::<String>::new())),
        ("Markers", Variant::from(status.markers.clone())),
    ]
}

/// What its files say.
fn of_files(view: &View, all: &mut Properties) {
    let settings = &view.unit.settings;
    let text = |it: &str| Variant::from(it.to_owned());
    let description = match view.status.description.as_str() {
        "" => view.id.as_str(),
        words => words,
    };
    let mounts = settings.paths("RequiresMountsFor").iter();
    let mounts: Vec<String> = mounts.map(|it| it.path.clone()).collect();
    let held = view.status.condition.is_empty();
    let (wanted, asserted) = (
        settings.conditions("Conditions"),
        settings.conditions("Asserts"),
    );
    all.extend([
        ("Description", text(description)),
        (
            "Documentation",
            Variant::from(texts(settings, "Documentation")),
        ),
        (
            "SourcePath",
            text(settings.text("SourcePath").unwrap_or_default()),
        ),
        ("RequiresMountsFor", Variant::from(mounts)),
        ("Conditions", conditions("Condition", wanted, held)),
        ("Asserts", conditions("Assert", asserted, true)),
    ]);
    for (field, default) in [
        ("CollectMode", "inactive"),
        ("OnFailureJobMode", "replace"),
        ("OnSuccessJobMode", "fail"),
        ("FailureAction", "none"),
        ("SuccessAction", "none"),
    ] {
        all.push((field, text(word(settings, field, default))));
    }
}

/// All of them.
pub(super) fn properties(view: &View) -> Properties {
    let mut all = state(view);
    of_files(view, &mut all);
    dependencies(view, &mut all);
    times(view, &mut all);
    abilities(view, &mut all);
    all
}
