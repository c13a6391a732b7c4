// SPDX-License-Identifier: Apache-2.0
//! Profiles of AppArmor's that confine executables. Which there are is the node's administrator's
//! to say, who loads them into the kernel; a spec names one. Asked by `launch`; the cell-init's
//! child has the kernel put it in force at the exec.
//!
//! Every caller may name any: what isn't confined may go under every profile by itself
//! (aa_change_onexec(3)), so to name one is no right that a program hasn't got. Labels of SELinux
//! are such a right, and are the units' alone (`schedule::unit::sandbox`).

use std::path::Path;

use init::protocol::Failure;
use init::protocol::sandbox::Label;
use model::error::{Error, Reason};
use model::executable::Effective;
use rustix::io::Errno;

/// Says `Y` where the kernel has it and uses it.
const ENABLED: &str = "/sys/module/apparmor/parameters/enabled";
const FIELD: &str = "executable.spec.apparmor_profile";

/// What the cell-init is told.
///
/// # Errors
/// `UNSUPPORTED`: a profile is asked for, and this kernel has none.
pub(super) fn label(effective: &Effective) -> Result<Option<Label>, Error> {
    label_by(effective, Path::new(ENABLED))
}

fn label_by(effective: &Effective, enabled: &Path) -> Result<Option<Label>, Error> {
    let profile = &effective.apparmor_profile;
    if profile.is_empty() {
        return Ok(None);
    }
    let is_on = std::fs::read(enabled).is_ok_and(|text| text.first() == Some(&b'Y'));
    if !is_on {
        let message = format!("the profile {profile} is asked for: this kernel has no AppArmor");
        return Err(Error::new(Reason::Unsupported, message)
            .field(FIELD)
            .hint("leave the profile out, or boot with lsm= that has apparmor in it"));
    }
    Ok(Some(Label {
        file: "apparmor/exec".to_owned(),
        text: format!("exec {profile}"),
        optional: false,
    }))
}

/// Why the kernel didn't take it; the detail is what was written.
pub(super) fn refused(failed: &Failure) -> Error {
    let profile = failed.detail.trim_start_matches("exec ");
    let text = std::io::Error::from_raw_os_error(failed.errno);
    let error = match failed.errno == Errno::NOENT.raw_os_error() {
        true => Error::new(
            Reason::InvalidField,
            format!("the node has no profile {profile} of AppArmor's"),
        )
        .hint("have an administrator load it (apparmor_parser), or name one that is there"),
        false => Error::new(
            Reason::Unsupported,
            format!("the profile {profile} can't be had: {text}"),
        ),
    };
    error.errno(failed.errno).field(FIELD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use init::protocol::Step;
    use model::executable::{Draft, ExecutableSpec};

    fn asking(profile: &str) -> Effective {
        let draft = Draft {
            argv: vec!["true".to_owned()],
            apparmor_profile: profile.to_owned(),
            ..Draft::default()
        };
        let spec = ExecutableSpec::try_from(draft).unwrap();
        spec.effective(model::executable::LogPolicy::default())
    }

    #[test]
    fn a_profile_is_had_or_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let enabled = folder.path().join("enabled");
        assert_eq!(label_by(&asking(""), &enabled).unwrap(), None);
        for says in [None, Some("N\n")] {
            if let Some(says) = says {
                std::fs::write(&enabled, says).unwrap();
            }
            let error = label_by(&asking("web"), &enabled).unwrap_err();
            assert_eq!(error.reason, Reason::Unsupported);
            assert_eq!(error.field.as_deref(), Some(FIELD));
            assert!(error.message.contains("web"), "{error}");
        }
        std::fs::write(&enabled, "Y\n").unwrap();
        let label = label_by(&asking("web"), &enabled).unwrap().unwrap();
        assert_eq!(label.text, "exec web");
        let failed = |errno: Errno| {
            let failure = Failure {
                step: Step::Label,
                errno: errno.raw_os_error(),
                detail: label.text.clone(),
            };
            refused(&failure).reason
        };
        assert_eq!(failed(Errno::NOENT), Reason::InvalidField);
        assert_eq!(failed(Errno::ACCESS), Reason::Unsupported);
    }
}
