// SPDX-License-Identifier: Apache-2.0
//! Whether a user is known not to be root, as the kubelet finds it (`runAsNonRoot`): by its number.
//! What a name stands for is said by a file of the image, which the node doesn't believe.

use super::spec::{Container, Draft};
use crate::error::{Error, Result};

const FIELD: &str = "non_root";

/// Checks what is known before a container is made; the image's user is [`check_image`]'s.
pub(super) fn check(pod: &Draft, container: &Container) -> Result<()> {
    match container.named_user(pod) {
        _ if !container.non_root => Ok(()),
        Some(user) => check_user(user, "the user"),
        None if container.image.is_empty() => {
            let problem = "needs a user other than root: a container without an image has none";
            Err(Error::invalid(FIELD, problem))
        }
        None => Ok(()),
    }
}

/// Whether what an image says of its user is enough; empty: it says nothing, which is root.
///
/// # Errors
/// `INVALID_FIELD` where it is root, or a name.
pub fn check_image(user: &str) -> Result<()> {
    check_user(user, "the image's user")
}

fn check_user(user: &str, whose: &str) -> Result<()> {
    let problem = match user.parse::<u32>() {
        Ok(0) => format!("is asked for, and {whose} is 0"),
        Ok(_) => return Ok(()),
        Err(_) if matches!(user, "" | "root") => format!("is asked for, and {whose} is root"),
        Err(_) => format!("is asked for, and what {whose} {user} is can't be told from a name"),
    };
    Err(Error::invalid(FIELD, problem).hint("name a user by its number, here or of the pod"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_other_than_0_is_known_not_to_be_root() {
        check_image("1000").unwrap();
        for user in ["", "0", "00", "root", "nobody", "-1"] {
            let error = check_image(user).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("non_root"), "{user}");
        }
        let mut container = Container {
            image: "nginx".to_owned(),
            non_root: true,
            ..Container::default()
        };
        let mut pod = Draft::default();
        // It is known when the container starts.
        check(&pod, &container).unwrap();
        pod.user = "0".to_owned();
        check(&pod, &container).unwrap_err();
        container.user = "33".to_owned();
        check(&pod, &container).unwrap();
        container.non_root = false;
        container.user = "root".to_owned();
        check(&pod, &container).unwrap();
    }
}
