// SPDX-License-Identifier: Apache-2.0
//! What security modules of the kernel say of executables and files: profiles of AppArmor's, and
//! labels of SELinux's. Which there are is the node's administrator's to say, who loads them into
//! the kernel; a spec names one. Asked when a start or the root of a container is prepared; the
//! cell-init's child has the kernel put it in force at the exec.
//!
//! Every caller may name any profile: what isn't confined may go under every profile by itself
//! (aa_change_onexec(3)), so to name one is no right that a program hasn't got. A label is such a
//! right, where the policy gives its type more than others: `privilege` keeps it for
//! administrators.

use init::protocol::Failure;
use init::protocol::sandbox::Label;
use model::container::Container;
use model::error::{Error, Reason};
use model::executable::Effective;
use rustix::io::Errno;

const PROFILE: &str = "executable.spec.apparmor_profile";
const LABEL: &str = "executable.spec.selinux_label";
const FILE_LABEL: &str = "cell.spec.container.selinux_file_label";
/// What the kernel is told before the name of a profile.
const AT_EXEC: &str = "exec ";

/// Which of them this kernel uses.
#[derive(Clone, Copy, Debug, Default)]
struct Modules {
    apparmor: bool,
    selinux: bool,
}

impl Modules {
    fn of_kernel() -> Self {
        let enabled = std::fs::read("/sys/module/apparmor/parameters/enabled");
        let systems = std::fs::read_to_string("/proc/filesystems");
        Self {
            apparmor: enabled.is_ok_and(|text| text.first() == Some(&b'Y')),
            selinux: systems.is_ok_and(|text| lists_selinux(&text)),
        }
    }
}

/// Whether the list of file systems has SELinux's, which a kernel has that uses SELinux.
fn lists_selinux(systems: &str) -> bool {
    let mut names = systems.lines().filter_map(|line| line.split('\t').nth(1));
    names.any(|name| name == "selinuxfs")
}

/// What the cell-init is told.
///
/// # Errors
/// `UNSUPPORTED`: a profile or a label is asked for, and this kernel has none.
pub(crate) fn label(effective: &Effective) -> Result<Option<Label>, Error> {
    // Most have neither: then nothing is read.
    match effective.apparmor_profile.is_empty() && effective.selinux_label.is_empty() {
        true => Ok(None),
        false => label_by(effective, Modules::of_kernel()),
    }
}

fn label_by(effective: &Effective, modules: Modules) -> Result<Option<Label>, Error> {
    let (profile, label) = (&effective.apparmor_profile, &effective.selinux_label);
    if !profile.is_empty() {
        if !modules.apparmor {
            let message =
                format!("the profile {profile} is asked for: this kernel has no AppArmor");
            return Err(unsupported(message, PROFILE, "apparmor"));
        }
        return Ok(Some(Label {
            file: "apparmor/exec".to_owned(),
            text: format!("{AT_EXEC}{profile}"),
            optional: false,
        }));
    }
    if !modules.selinux {
        return Err(no_selinux(label, LABEL));
    }
    Ok(Some(Label {
        file: "exec".to_owned(),
        text: label.clone(),
        optional: false,
    }))
}

/// Whether files of a container can have the label that is asked for.
///
/// # Errors
/// `UNSUPPORTED`: this kernel has none.
pub(crate) fn check_files(container: &Container) -> Result<(), Error> {
    match container.selinux_file_label.as_str() {
        "" => Ok(()),
        label => check_label(label, FILE_LABEL),
    }
}

/// Whether this kernel has labels of SELinux's; which of them is for its policy to say. `field`: of
/// the request.
///
/// # Errors
/// `UNSUPPORTED`.
pub fn check_label(label: &str, field: &str) -> Result<(), Error> {
    match Modules::of_kernel().selinux {
        true => Ok(()),
        false => Err(no_selinux(label, field)),
    }
}

fn no_selinux(label: &str, field: &str) -> Error {
    let message = format!("the label {label} is asked for: this kernel doesn't use SELinux");
    unsupported(message, field, "selinux")
}

fn unsupported(message: String, field: &str, module: &str) -> Error {
    Error::new(Reason::Unsupported, message)
        .field(field)
        .hint(format!(
            "leave it out, or boot with an lsm= that has {module} in it"
        ))
}

/// Why the kernel didn't take it; the detail is what was written.
pub(crate) fn refused(failed: &Failure) -> Error {
    let (what, field) = match failed.detail.strip_prefix(AT_EXEC) {
        Some(profile) => (format!("profile {profile} of AppArmor's"), PROFILE),
        None => (format!("label {} of SELinux's", failed.detail), LABEL),
    };
    let text = std::io::Error::from_raw_os_error(failed.errno);
    // What AppArmor says of a profile that isn't there, and SELinux of a label.
    let unknown = [Errno::NOENT, Errno::INVAL].map(Errno::raw_os_error);
    let error = match unknown.contains(&failed.errno) {
        true => Error::new(Reason::InvalidField, format!("the node has no {what}"))
            .hint("have an administrator load it, or name one that is there"),
        false => Error::new(
            Reason::Unsupported,
            format!("the {what} can't be had: {text}"),
        ),
    };
    error.errno(failed.errno).field(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use init::protocol::Step;
    use model::executable::{Draft, ExecutableSpec, LogPolicy};

    fn asking(profile: &str, label: &str) -> Effective {
        let draft = Draft {
            argv: vec!["true".to_owned()],
            apparmor_profile: profile.to_owned(),
            selinux_label: label.to_owned(),
            ..Draft::default()
        };
        let spec = ExecutableSpec::try_from(draft).unwrap();
        spec.effective(LogPolicy::default())
    }

    #[test]
    fn a_profile_or_a_label_is_had_or_refused_by_its_name() {
        const U: &str = "system_u:system_r:container_t:s0";
        assert_eq!(label(&asking("", "")).unwrap(), None);
        for (profile, label, field) in [("web", "", PROFILE), ("", U, LABEL)] {
            let error = label_by(&asking(profile, label), Modules::default()).unwrap_err();
            assert_eq!(error.reason, Reason::Unsupported);
            assert_eq!(error.field.as_deref(), Some(field));
            let named = error.message.contains(profile) && error.message.contains(label);
            assert!(named, "{error}");
        }
        let all = Modules {
            apparmor: true,
            selinux: true,
        };
        let had = |profile, label| label_by(&asking(profile, label), all).unwrap().unwrap();
        let (profile, label) = (had("web", ""), had("", U));
        assert_eq!(profile.text, "exec web");
        assert_eq!((label.file.as_str(), label.text.as_str()), ("exec", U));
        let failed = |errno: Errno, label: &Label| {
            let failure = Failure {
                step: Step::Label,
                errno: errno.raw_os_error(),
                detail: label.text.clone(),
            };
            let error = refused(&failure);
            (error.reason, error.field.clone())
        };
        let is = |reason, field: &str| (reason, Some(field.to_owned()));
        let absent = Reason::InvalidField;
        assert_eq!(failed(Errno::NOENT, &profile), is(absent, PROFILE));
        assert_eq!(failed(Errno::INVAL, &label), is(absent, LABEL));
        let denied = Reason::Unsupported;
        assert_eq!(failed(Errno::ACCESS, &label), is(denied, LABEL));
    }

    #[test]
    fn a_kernel_that_uses_selinux_has_its_file_system() {
        assert!(lists_selinux("nodev\tsysfs\nnodev\tselinuxfs\n\text4\n"));
        assert!(!lists_selinux("nodev\tsysfs\n\text4\nnodev\tselinuxfs2\n"));
    }
}
