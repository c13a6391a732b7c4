// SPDX-License-Identifier: Apache-2.0
//! Names that the user left out: of a run, a copy, a container for debugging, a schedule.

/// The name of an image without registry, tag and digest.
pub(super) fn image_name(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').map_or(last, |(name, _)| name)
}

/// `nginx-5f3a1`: the program's name as a label, and five digits, so that the next run has another.
pub(crate) fn invent_name(program: &str) -> String {
    let base = program.rsplit('/').next().unwrap_or_default();
    let label: String = base
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let label = match label.trim_matches('-') {
        "" => "run",
        label => label,
    };
    format!("{label}-{:05x}", random() & 0xf_ffff)
}

/// Not for secrets: a name that is taken is refused by the node.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(program: &str) -> String {
        let invented = invent_name(program);
        let (label, digits) = invented.rsplit_once('-').unwrap();
        assert!(digits.len() == 5 && digits.chars().all(|c| c.is_ascii_hexdigit()));
        label.to_owned()
    }

    #[test]
    fn an_invented_name_is_a_label_that_tells_the_program() {
        assert_eq!(name("/usr/sbin/nginx"), "nginx");
        assert_eq!(name("My_Prog.sh"), "my-prog-sh");
        assert_eq!(name("/"), "run");
        assert_eq!(name("über"), "ber");
        assert_eq!(name(&"x".repeat(100)).len(), 40);
    }

    #[test]
    fn an_images_name_is_without_registry_and_tag() {
        for (image, name) in [
            ("nginx", "nginx"),
            ("registry.example:5000/team/app:v2", "app"),
            ("app@sha256:0123", "app"),
        ] {
            assert_eq!(image_name(image), name);
        }
    }
}
