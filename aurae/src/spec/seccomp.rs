// SPDX-License-Identifier: Apache-2.0
//! `--seccomp`, `--seccomp-allow`, `--seccomp-deny`, `--seccomp-action`.

use api::runtime::v0::{Seccomp, seccomp};

/// Which system calls an executable may use.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SeccompFlags {
    /// The profile to begin with
    #[arg(long, value_enum, value_name = "PROFILE")]
    seccomp: Option<Profile>,
    /// System calls, or groups such as @mount, to allow beside the profile
    #[arg(long, value_name = "CALL", value_delimiter = ',')]
    seccomp_allow: Vec<String>,
    /// System calls or groups to refuse; wins over --seccomp-allow
    #[arg(long, value_name = "CALL", value_delimiter = ',')]
    seccomp_deny: Vec<String>,
    /// The result of a refused call: errno, errno=NAME, kill or log
    #[arg(long, value_name = "ACTION", value_parser = parse_action)]
    seccomp_action: Option<Action>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Profile {
    /// Refuse the calls that container runtimes refuse by default
    Default,
    /// Allow only the calls of --seccomp-allow
    Strict,
    /// Everything but what --seccomp-deny names
    Unconfined,
}

/// The result of a refused call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    action: seccomp::Action,
    errno: String,
}

/// Parses `errno`, `errno=EACCES`, `kill`, `log`.
pub(crate) fn parse_action(text: &str) -> Result<Action, String> {
    let (action, errno) = match text.split_once('=') {
        Some(("errno", errno)) if !errno.is_empty() => (seccomp::Action::Errno, errno),
        None if text == "errno" => (seccomp::Action::Errno, ""),
        None if text == "kill" => (seccomp::Action::Kill, ""),
        None if text == "log" => (seccomp::Action::Log, ""),
        _ => return Err("write errno, errno=NAME (as in errno=EACCES), kill or log".to_owned()),
    };
    Ok(Action {
        action,
        errno: errno.to_owned(),
    })
}

impl SeccompFlags {
    /// `None`: the node's default.
    pub(crate) fn build(&self) -> Option<Seccomp> {
        let silent = self.seccomp.is_none()
            && self.seccomp_allow.is_empty()
            && self.seccomp_deny.is_empty()
            && self.seccomp_action.is_none();
        if silent {
            return None;
        }
        let profile = match self.seccomp {
            None | Some(Profile::Default) => seccomp::Profile::Default,
            Some(Profile::Strict) => seccomp::Profile::Strict,
            Some(Profile::Unconfined) => seccomp::Profile::Unconfined,
        };
        let (action, errno) = match self.seccomp_action.clone() {
            Some(action) => (action.action, action.errno),
            None => (seccomp::Action::Unspecified, String::new()),
        };
        Some(Seccomp {
            profile: profile.into(),
            allow: self.seccomp_allow.clone(),
            deny: self.seccomp_deny.clone(),
            action: action.into(),
            errno,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions() {
        assert_eq!(parse_action("errno=EACCES").unwrap().errno, "EACCES");
        assert_eq!(parse_action("kill").unwrap().action, seccomp::Action::Kill);
        for text in ["", "errno=", "die", "kill=1"] {
            assert!(parse_action(text).is_err(), "{text}");
        }
    }
}
