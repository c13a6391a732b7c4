// SPDX-License-Identifier: Apache-2.0
//! `--seccomp` with a profile's name or a file, `--seccomp-allow`, `--seccomp-deny`,
//! `--seccomp-action`.

use std::path::PathBuf;

use api::runtime::v0::{Seccomp, seccomp};

use crate::failure::Failure;

/// Which system calls an executable may use.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SeccompFlags {
    /// default, strict (only --seccomp-allow), unconfined (administrators), or a file in Docker's
    /// JSON form
    #[arg(long, value_name = "PROFILE", value_parser = parse_profile)]
    #[arg(value_hint = clap::ValueHint::FilePath)]
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

#[derive(Clone, Debug, PartialEq, Eq)]
enum Profile {
    /// One that the node has.
    Named(seccomp::Profile),
    /// A whole filter in a file.
    File(PathBuf),
}

fn parse_profile(text: &str) -> Result<Profile, String> {
    Ok(match text {
        "default" => Profile::Named(seccomp::Profile::Default),
        "strict" => Profile::Named(seccomp::Profile::Strict),
        "unconfined" => Profile::Named(seccomp::Profile::Unconfined),
        file if file.contains(['.', '/']) => Profile::File(file.into()),
        other => {
            return Err(format!(
                "{other:?} is no profile: write default, strict, unconfined, or a file such as \
                 ./profile.json"
            ));
        }
    })
}

/// The file's text, without the spaces that people need.
fn read_profile(file: &std::path::Path) -> Result<String, Failure> {
    let bad = |problem: String| {
        Failure::usage(format!("--seccomp: {}: {problem}", file.display()))
            .with_hint("give a profile in Docker's JSON form")
    };
    let text = std::fs::read_to_string(file).map_err(|e| bad(format!("can't be read: {e}")))?;
    let value = serde_json::from_str::<serde_json::Value>(&text);
    Ok(value.map_err(|e| bad(e.to_string()))?.to_string())
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
    ///
    /// # Errors
    /// A file that can't be read, or that is no JSON.
    pub(crate) fn build(&self) -> Result<Option<Seccomp>, Failure> {
        let silent = self.seccomp.is_none()
            && self.seccomp_allow.is_empty()
            && self.seccomp_deny.is_empty()
            && self.seccomp_action.is_none();
        if silent {
            return Ok(None);
        }
        let (profile, custom) = match &self.seccomp {
            None => (seccomp::Profile::Default, String::new()),
            Some(Profile::Named(profile)) => (*profile, String::new()),
            Some(Profile::File(file)) => (seccomp::Profile::Unspecified, read_profile(file)?),
        };
        let (action, errno) = match self.seccomp_action.clone() {
            Some(action) => (action.action, action.errno),
            None => (seccomp::Action::Unspecified, String::new()),
        };
        Ok(Some(Seccomp {
            profile: profile.into(),
            allow: self.seccomp_allow.clone(),
            deny: self.seccomp_deny.clone(),
            action: action.into(),
            errno,
            custom,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_a_name_or_a_file() {
        let strict = Profile::Named(seccomp::Profile::Strict);
        assert_eq!(parse_profile("strict"), Ok(strict));
        let said = parse_profile("confined").unwrap_err();
        assert!(said.contains("unconfined"), "{said}");
        let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
        let flags = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            let profile = parse_profile(file.path().to_str().unwrap()).unwrap();
            SeccompFlags {
                seccomp: Some(profile),
                ..Default::default()
            }
        };
        let built = flags("{ \"defaultAction\": \"SCMP_ACT_ERRNO\" }").build();
        let custom = built.unwrap().unwrap().custom;
        assert_eq!(custom, r#"{"defaultAction":"SCMP_ACT_ERRNO"}"#);
        assert!(flags("no json").build().is_err());
    }

    #[test]
    fn actions() {
        assert_eq!(parse_action("errno=EACCES").unwrap().errno, "EACCES");
        assert_eq!(parse_action("kill").unwrap().action, seccomp::Action::Kill);
        for text in ["", "errno=", "die", "kill=1"] {
            assert!(parse_action(text).is_err(), "{text}");
        }
    }
}
