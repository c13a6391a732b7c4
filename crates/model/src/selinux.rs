// SPDX-License-Identifier: Apache-2.0
//! Labels of SELinux's, as a specification has them: `USER:ROLE:TYPE`, with `:LEVEL` behind it
//! where the policy has levels (`s0:c1,c2`). Only the form is looked at; which labels there are is
//! the policy's to say, in the kernel.

use crate::error::{Error, Result};
use crate::text::check_length;

/// The longest label, in bytes.
const MAX_LABEL: usize = 255;

/// Checks a field; an empty one is none.
pub(crate) fn check(field: &str, label: &str) -> Result<()> {
    if label.is_empty() {
        return Ok(());
    }
    check_length(field, label, MAX_LABEL)?;
    let parts = || label.splitn(4, ':');
    let is_whole = parts().count() >= 3 && parts().all(|part| !part.is_empty());
    match is_whole && label.chars().all(is_of_labels) {
        true => Ok(()),
        false => {
            let problem = format!("{label:?} is no label of SELinux's");
            Err(Error::invalid(field, problem)
                .hint("write USER:ROLE:TYPE or USER:ROLE:TYPE:LEVEL, as `ps -Z` shows them"))
        }
    }
}

/// What names and levels are written with: nothing that an option of a mount would end at.
fn is_of_labels(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_.-:,".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_three_parts_or_four() {
        for label in [
            "",
            "u:r:t",
            "system_u:system_r:container_t:s0",
            "system_u:object_r:container_file_t:s0:c1,c2",
            "system_u:system_r:container_t:s0-s0:c0.c1023",
        ] {
            check("selinux_label", label).unwrap();
        }
        for label in [
            "container_t",
            "u:r",
            "u::t",
            "u:r:t:",
            "u:r:t:s0 ",
            "u:r:t\",exec",
            "u:r:t\n",
        ] {
            let error = check("selinux_label", label).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("selinux_label"), "{label:?}");
        }
        let long = format!("u:r:{}", "t".repeat(MAX_LABEL));
        assert!(check("selinux_label", &long).is_err());
    }
}
