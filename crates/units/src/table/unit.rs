// SPDX-License-Identifier: Apache-2.0
//! The rows of `[Unit]` and `[Install]` (systemd.unit(5)).

use super::{Directive, row};
use crate::value::Kind::{
    Condition, Flag, Gone, InstallUnits, Number, NumberOrNone, Path, PathCondition, Paths, Raw,
    ShapedList, Span, Text, Units, Word,
};
use crate::value::shape::Shape::Url;

/// What a unit's end or failure may do to the machine.
pub(super) const ACTIONS: &[&str] = &[
    "none",
    "reboot",
    "reboot-force",
    "reboot-immediate",
    "poweroff",
    "poweroff-force",
    "poweroff-immediate",
    "exit",
    "exit-force",
];

const JOB_MODES: &[&str] = &[
    "fail",
    "replace",
    "replace-irreversibly",
    "isolate",
    "flush",
    "ignore-dependencies",
    "ignore-requirements",
];

/// A condition on a path, and one on anything else.
const fn path(name: &'static str) -> Directive {
    row(name, PathCondition).of("Conditions")
}

const fn condition(name: &'static str) -> Directive {
    row(name, Condition).of("Conditions")
}

const fn path_assert(name: &'static str) -> Directive {
    row(name, PathCondition).of("Asserts")
}

const fn assert(name: &'static str) -> Directive {
    row(name, Condition).of("Asserts")
}

pub(super) const UNIT: &[Directive] = &[
    row("Description", Text),
    row("Documentation", ShapedList(Url)),
    row("SourcePath", Path),
    row("Requires", Units),
    row("RequiresOverridable", Units).of("Requires"),
    row("Requisite", Units),
    row("RequisiteOverridable", Units).of("Requisite"),
    row("Wants", Units),
    row("BindsTo", Units),
    row("BindTo", Units).of("BindsTo"),
    row("Upholds", Units),
    row("Conflicts", Units),
    row("Before", Units),
    row("After", Units),
    row("OnSuccess", Units),
    row("OnFailure", Units),
    row("PropagatesReloadTo", Units),
    row("PropagateReloadTo", Units).of("PropagatesReloadTo"),
    row("ReloadPropagatedFrom", Units),
    row("PropagateReloadFrom", Units).of("ReloadPropagatedFrom"),
    row("PropagatesStopTo", Units),
    row("StopPropagatedFrom", Units),
    row("PartOf", Units),
    row("JoinsNamespaceOf", Units),
    row("RequiresMountsFor", Paths),
    row("StopWhenUnneeded", Flag),
    row("RefuseManualStart", Flag),
    row("RefuseManualStop", Flag),
    row("AllowIsolate", Flag),
    row("DefaultDependencies", Flag),
    row("OnSuccessJobMode", Word(JOB_MODES)),
    row("OnFailureJobMode", Word(JOB_MODES)),
    row("OnFailureIsolate", Flag),
    row("IgnoreOnIsolate", Flag),
    row("IgnoreOnSnapshot", Gone),
    row("CollectMode", Word(&["inactive", "inactive-or-failed"])),
    row("JobTimeoutSec", Span),
    row("JobRunningTimeoutSec", Span),
    row("JobTimeoutAction", Word(ACTIONS)),
    row("JobTimeoutRebootArgument", Text),
    row("StartLimitIntervalSec", Span),
    row("StartLimitInterval", Span).of("StartLimitIntervalSec"),
    row("StartLimitBurst", Number(0, u32::MAX as i64)),
    row("StartLimitAction", Word(ACTIONS)),
    row("FailureAction", Word(ACTIONS)),
    row("SuccessAction", Word(ACTIONS)),
    row("FailureActionExitStatus", NumberOrNone(0, 255)),
    row("SuccessActionExitStatus", NumberOrNone(0, 255)),
    row("RebootArgument", Text),
    path("ConditionPathExists"),
    path("ConditionPathExistsGlob"),
    path("ConditionPathIsDirectory"),
    path("ConditionPathIsSymbolicLink"),
    path("ConditionPathIsMountPoint"),
    path("ConditionPathIsReadWrite"),
    path("ConditionPathIsEncrypted"),
    path("ConditionDirectoryNotEmpty"),
    path("ConditionFileNotEmpty"),
    path("ConditionFileIsExecutable"),
    path("ConditionNeedsUpdate"),
    condition("ConditionFirstBoot"),
    condition("ConditionArchitecture"),
    condition("ConditionFirmware"),
    condition("ConditionVirtualization"),
    condition("ConditionHost"),
    condition("ConditionKernelCommandLine"),
    condition("ConditionKernelVersion"),
    condition("ConditionCredential"),
    condition("ConditionSecurity"),
    condition("ConditionCapability"),
    condition("ConditionACPower"),
    condition("ConditionMemory"),
    condition("ConditionCPUFeature"),
    condition("ConditionCPUs"),
    condition("ConditionEnvironment"),
    condition("ConditionUser"),
    condition("ConditionGroup"),
    condition("ConditionControlGroupController"),
    condition("ConditionOSRelease"),
    condition("ConditionMemoryPressure"),
    condition("ConditionCPUPressure"),
    condition("ConditionIOPressure"),
    path_assert("AssertPathExists"),
    path_assert("AssertPathExistsGlob"),
    path_assert("AssertPathIsDirectory"),
    path_assert("AssertPathIsSymbolicLink"),
    path_assert("AssertPathIsMountPoint"),
    path_assert("AssertPathIsReadWrite"),
    path_assert("AssertPathIsEncrypted"),
    path_assert("AssertDirectoryNotEmpty"),
    path_assert("AssertFileNotEmpty"),
    path_assert("AssertFileIsExecutable"),
    path_assert("AssertNeedsUpdate"),
    assert("AssertFirstBoot"),
    assert("AssertArchitecture"),
    assert("AssertVirtualization"),
    assert("AssertHost"),
    assert("AssertKernelCommandLine"),
    assert("AssertKernelVersion"),
    assert("AssertCredential"),
    assert("AssertSecurity"),
    assert("AssertCapability"),
    assert("AssertACPower"),
    assert("AssertMemory"),
    assert("AssertCPUFeature"),
    assert("AssertCPUs"),
    assert("AssertEnvironment"),
    assert("AssertUser"),
    assert("AssertGroup"),
    assert("AssertControlGroupController"),
    assert("AssertOSRelease"),
    assert("AssertMemoryPressure"),
    assert("AssertCPUPressure"),
    assert("AssertIOPressure"),
];

pub(super) const INSTALL: &[Directive] = &[
    row("Alias", InstallUnits),
    row("WantedBy", InstallUnits),
    row("RequiredBy", InstallUnits),
    // Of systemd 254.
    row("UpheldBy", InstallUnits),
    row("Also", InstallUnits),
    row("DefaultInstance", Raw),
];
