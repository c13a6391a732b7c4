// SPDX-License-Identifier: Apache-2.0
//! `org.freedesktop.systemd1.Manager` (org.freedesktop.systemd1(5)): its methods.

mod files;
mod given;
pub(crate) mod jobs;
pub(crate) mod properties;
mod text;
mod transient;
mod units;

pub(crate) use given::watchdogs;
use schedule::unit::{UnitName, named};
use zbus::OwnedObjectPath;

use crate::error::Failure;
use crate::path;
use crate::serve::{Answer, Caller, Service, unknown};
use crate::wire::message::Message;

pub(crate) const INTERFACE: &str = "org.freedesktop.systemd1.Manager";

/// The methods with their arguments and what they answer, as they are introspected.
pub(crate) const METHODS: &[(&str, &str, &str)] = &[
    ("GetUnit", "s", "o"),
    ("GetUnitByPID", "u", "o"),
    ("GetUnitByInvocationID", "ay", "o"),
    ("GetUnitByControlGroup", "s", "o"),
    ("LoadUnit", "s", "o"),
    ("StartUnit", "ss", "o"),
    ("StartUnitWithFlags", "sst", "o"),
    ("StopUnit", "ss", "o"),
    ("ReloadUnit", "ss", "o"),
    ("RestartUnit", "ss", "o"),
    ("TryRestartUnit", "ss", "o"),
    ("ReloadOrRestartUnit", "ss", "o"),
    ("ReloadOrTryRestartUnit", "ss", "o"),
    ("KillUnit", "ssi", ""),
    ("ResetFailedUnit", "s", ""),
    ("ResetFailed", "", ""),
    ("RefUnit", "s", ""),
    ("UnrefUnit", "s", ""),
    ("FreezeUnit", "s", ""),
    ("ThawUnit", "s", ""),
    ("CleanUnit", "sas", ""),
    ("BindMountUnit", "sssbb", ""),
    ("StartTransientUnit", "ssa(sv)a(sa(sv))", "o"),
    ("GetUnitProcesses", "s", "a(sus)"),
    ("AttachProcessesToUnit", "ssau", ""),
    ("AbandonScope", "s", ""),
    ("GetJob", "u", "o"),
    ("CancelJob", "u", ""),
    ("ClearJobs", "", ""),
    ("ListUnits", "", "a(ssssssouso)"),
    ("ListUnitsFiltered", "as", "a(ssssssouso)"),
    ("ListUnitsByPatterns", "asas", "a(ssssssouso)"),
    ("ListUnitsByNames", "as", "a(ssssssouso)"),
    ("ListJobs", "", "a(usssoo)"),
    ("Subscribe", "", ""),
    ("Unsubscribe", "", ""),
    ("Reload", "", ""),
    ("Reexecute", "", ""),
    ("Reboot", "", ""),
    ("PowerOff", "", ""),
    ("Halt", "", ""),
    ("ListUnitFiles", "", "a(ss)"),
    ("ListUnitFilesByPatterns", "asas", "a(ss)"),
    ("GetUnitFileState", "s", "s"),
    ("EnableUnitFiles", "asbb", "ba(sss)"),
    ("EnableUnitFilesWithFlags", "ast", "ba(sss)"),
    ("ReenableUnitFiles", "asbb", "ba(sss)"),
    ("DisableUnitFiles", "asb", "a(sss)"),
    ("DisableUnitFilesWithFlags", "ast", "a(sss)"),
    ("DisableUnitFilesWithFlagsAndInstallInfo", "ast", "ba(sss)"),
    ("MaskUnitFiles", "asbb", "a(sss)"),
    ("UnmaskUnitFiles", "asb", "a(sss)"),
    ("PresetUnitFiles", "asbb", "ba(sss)"),
    ("PresetUnitFilesWithMode", "assbb", "ba(sss)"),
    ("PresetAllUnitFiles", "sbb", "a(sss)"),
    ("SetDefaultTarget", "sb", "a(sss)"),
    ("GetDefaultTarget", "", "s"),
    ("SetUnitProperties", "sba(sv)", ""),
    ("SetEnvironment", "as", ""),
    ("UnsetEnvironment", "as", ""),
    ("UnsetAndSetEnvironment", "asas", ""),
    ("EnqueueMarkedJobs", "", "ao"),
];

/// The signals.
pub(crate) const SIGNALS: &[(&str, &str)] = &[
    ("UnitNew", "so"),
    ("UnitRemoved", "so"),
    ("JobNew", "uos"),
    ("JobRemoved", "uoss"),
    ("UnitFilesChanged", ""),
    ("Reloading", "b"),
];

/// Answers a call of the manager.
pub(crate) async fn call(service: &Service, caller: &Caller, call: &Message) -> Answer {
    let known = METHODS.iter().find(|(name, ..)| *name == call.member);
    let Some((method, arguments, _)) = known else {
        return Err(unknown(call));
    };
    if *arguments != call.signature {
        return Err(Failure::arguments(method));
    }
    let handler = Call {
        service,
        caller,
        message: call,
    };
    if let Some(answer) = handler.units().await {
        return answer;
    }
    if let Some(answer) = handler.jobs().await {
        return answer;
    }
    if let Some(answer) = handler.files().await {
        return answer;
    }
    if let Some(answer) = handler.given().await {
        return answer;
    }
    Err(unknown(call))
}

/// A call, and who makes it.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) service: &'a Service,
    pub(crate) caller: &'a Caller,
    pub(crate) message: &'a Message,
}

impl Call<'_> {
    fn arguments<T>(&self) -> Result<T, Failure>
    where
        T: for<'de> serde::Deserialize<'de> + zbus::Type,
    {
        let method = &self.message.member;
        self.message
            .arguments()
            .ok_or_else(|| Failure::arguments(method))
    }
}

/// The unit that a word means: a whole name, as systemd wants it here.
pub(crate) fn unit(word: &str) -> Result<UnitName, Failure> {
    Ok(named("name", word)?)
}

pub(crate) fn object_path(path: String) -> OwnedObjectPath {
    zbus::ObjectPath::from_string_unchecked(path).into()
}

pub(crate) fn unit_path(unit: &str) -> OwnedObjectPath {
    object_path(path::of_unit(unit))
}

#[cfg(test)]
mod tests {
    use super::METHODS;

    /// What systemctl and systemd-run of 252 call before what they are asked for.
    #[test]
    fn clients_find_what_they_begin_with() {
        for (name, arguments) in [
            ("Subscribe", ""),
            ("RefUnit", "s"),
            ("UnrefUnit", "s"),
            ("Reexecute", ""),
            ("StartTransientUnit", "ssa(sv)a(sa(sv))"),
        ] {
            let found = METHODS.iter().find(|(it, ..)| *it == name);
            assert_eq!(found.map(|it| it.1), Some(arguments), "{name}");
        }
    }
}
