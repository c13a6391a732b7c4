// SPDX-License-Identifier: Apache-2.0
//! The spec of an executable, from the wire and back.

use model::capability::Capabilities;
use model::error::{Error, Result, Within};
use model::executable::{Draft, ExecutableSpec, LogPolicy, Terminal};
use model::launch::{Ending, Scheduling, Streams};
use model::rlimit::Rlimit;
use model::seccomp::{Action, Profile, Seccomp};

use super::launch;
use super::resources::{resources, to_resources};
use super::scalar::{enumeration, maybe_duration, to_duration};
use crate::runtime::v0 as wire;

/// Checks the spec of an executable. A field without a value gets its default later, from the node.
///
/// # Errors
/// `INVALID_FIELD`, naming the field: a number that the node doesn't know, a negative duration, or
/// what [`ExecutableSpec`] doesn't take.
pub fn spec(message: wire::ExecutableSpec) -> Result<ExecutableSpec> {
    draft(message)?.try_into()
}

fn draft(message: wire::ExecutableSpec) -> Result<Draft> {
    Ok(Draft {
        argv: message.argv,
        env: message.env,
        secret_env: Default::default(),
        cwd: message.cwd,
        user: message.user,
        group: message.group,
        groups: message.groups,
        umask: message.umask,
        rlimits: message.rlimits.into_iter().map(rlimit).collect(),
        nice: message.nice,
        oom_score_adj: message.oom_score_adj,
        cpu_affinity: message.cpu_affinity,
        capabilities: message.capabilities.map(|capabilities| Capabilities {
            bounding: capabilities.bounding,
            ambient: capabilities.ambient,
        }),
        no_new_privileges: message.no_new_privileges,
        seccomp: seccomp(message.seccomp.unwrap_or_default()).within("seccomp")?,
        terminal: message
            .terminal
            .map(terminal)
            .transpose()
            .within("terminal")?,
        stdin: message.stdin,
        stop_signal: message.stop_signal,
        stop_grace: maybe_duration("stop_grace", message.stop_grace.as_ref())?,
        resources: resources(message.resources).within("resources")?,
        auto_remove: message.auto_remove,
        logs: log_policy(message.logs.unwrap_or_default()).within("logs")?,
        main: message.main,
        entrypoint: message.entrypoint,
        program: message.program,
        cwd_optional: message.cwd_optional,
        ending: launch::ending(message.ending.unwrap_or_default()).within("ending")?,
        streams: launch::streams(message.streams.unwrap_or_default()).within("streams")?,
        scheduling: launch::scheduling(message.scheduling.unwrap_or_default())
            .within("scheduling")?,
        ignore_sigpipe: message.ignore_sigpipe,
        keyring: launch::keyring(message.keyring)?,
        personality: launch::personality(message.personality)?,
        apparmor_profile: message.apparmor_profile,
        selinux_label: message.selinux_label,
    })
}

fn rlimit(message: wire::Rlimit) -> Rlimit {
    Rlimit {
        name: message.name,
        soft: message.soft,
        hard: message.hard,
    }
}

fn seccomp(message: wire::Seccomp) -> Result<Seccomp> {
    use wire::seccomp::{Action as WireAction, Profile as WireProfile};
    Ok(Seccomp {
        profile: match enumeration("profile", message.profile)? {
            WireProfile::Unspecified | WireProfile::Default => Profile::Default,
            WireProfile::Strict => Profile::Strict,
            WireProfile::Unconfined => Profile::Unconfined,
        },
        allow: message.allow,
        deny: message.deny,
        action: match enumeration("action", message.action)? {
            WireAction::Unspecified | WireAction::Errno => Action::Errno,
            WireAction::Kill => Action::Kill,
            WireAction::Log => Action::Log,
        },
        errno: message.errno,
        custom: message.custom,
    })
}

/// Checks the size of a terminal, in characters.
///
/// # Errors
/// `INVALID_FIELD`: `rows` or `columns` is above 65,535.
pub fn terminal(message: wire::Terminal) -> Result<Terminal> {
    let size = |field, n: u32| {
        u16::try_from(n).map_err(|_| Error::invalid(field, "must be at most 65535"))
    };
    Ok(Terminal {
        rows: size("rows", message.rows)?,
        columns: size("columns", message.columns)?,
    })
}

fn log_policy(message: wire::LogPolicy) -> Result<LogPolicy> {
    Ok(LogPolicy {
        max_bytes: message.max_bytes,
        max_age: maybe_duration("max_age", message.max_age.as_ref())?,
    })
}

/// The message of an executable's spec.
pub fn to_spec(draft: &Draft) -> wire::ExecutableSpec {
    wire::ExecutableSpec {
        argv: draft.argv.clone(),
        env: shown(&draft.env, &draft.secret_env),
        cwd: draft.cwd.clone(),
        user: draft.user.clone(),
        group: draft.group.clone(),
        groups: draft.groups.clone(),
        umask: draft.umask,
        rlimits: draft.rlimits.iter().map(to_rlimit).collect(),
        nice: draft.nice,
        oom_score_adj: draft.oom_score_adj,
        cpu_affinity: draft.cpu_affinity.clone(),
        capabilities: draft.capabilities.as_ref().map(to_capabilities),
        no_new_privileges: draft.no_new_privileges,
        seccomp: (draft.seccomp != Seccomp::default()).then(|| to_seccomp(&draft.seccomp)),
        terminal: draft.terminal.map(|terminal| wire::Terminal {
            rows: terminal.rows.into(),
            columns: terminal.columns.into(),
        }),
        stdin: draft.stdin,
        stop_signal: draft.stop_signal.clone(),
        stop_grace: draft.stop_grace.map(to_duration),
        resources: to_resources(&draft.resources),
        auto_remove: draft.auto_remove,
        logs: (draft.logs != LogPolicy::default()).then(|| wire::LogPolicy {
            max_bytes: draft.logs.max_bytes,
            max_age: draft.logs.max_age.map(to_duration),
        }),
        main: draft.main,
        entrypoint: draft.entrypoint.clone(),
        program: draft.program.clone(),
        cwd_optional: draft.cwd_optional,
        ending: (draft.ending != Ending::default()).then(|| launch::to_ending(&draft.ending)),
        streams: (draft.streams != Streams::default()).then(|| launch::to_streams(&draft.streams)),
        scheduling: (draft.scheduling != Scheduling::default())
            .then(|| launch::to_scheduling(&draft.scheduling)),
        ignore_sigpipe: draft.ignore_sigpipe,
        keyring: launch::to_keyring(draft.keyring).into(),
        personality: launch::to_personality(draft.personality).into(),
        apparmor_profile: draft.apparmor_profile.clone(),
        selinux_label: draft.selinux_label.clone(),
    }
}

fn to_rlimit(rlimit: &Rlimit) -> wire::Rlimit {
    wire::Rlimit {
        name: rlimit.name.clone(),
        soft: rlimit.soft,
        hard: rlimit.hard,
    }
}

fn to_capabilities(capabilities: &Capabilities) -> wire::Capabilities {
    wire::Capabilities {
        bounding: capabilities.bounding.clone(),
        ambient: capabilities.ambient.clone(),
    }
}

fn to_seccomp(seccomp: &Seccomp) -> wire::Seccomp {
    use wire::seccomp::{Action as WireAction, Profile as WireProfile};
    let profile = match seccomp.profile {
        Profile::Default => WireProfile::Default,
        Profile::Strict => WireProfile::Strict,
        Profile::Unconfined => WireProfile::Unconfined,
    };
    let action = match seccomp.action {
        Action::Errno => WireAction::Errno,
        Action::Kill => WireAction::Kill,
        Action::Log => WireAction::Log,
    };
    wire::Seccomp {
        profile: profile.into(),
        allow: seccomp.allow.clone(),
        deny: seccomp.deny.clone(),
        action: action.into(),
        errno: seccomp.errno.clone(),
        custom: seccomp.custom.clone(),
    }
}

/// An environment, without the texts that are never shown.
pub(super) fn shown(
    env: &std::collections::BTreeMap<String, String>,
    secret: &std::collections::BTreeSet<String>,
) -> std::collections::BTreeMap<String, String> {
    let text = |name: &String, text: &String| match secret.contains(name) {
        true => super::HIDDEN.to_owned(),
        false => text.clone(),
    };
    let pairs = env.iter();
    pairs
        .map(|(name, it)| (name.clone(), text(name, it)))
        .collect()
}
