// SPDX-License-Identifier: Apache-2.0
//! Pull policies, as Kubernetes defines them (Images, "Image pull policy"). A pure function of what
//! is wanted and of what there is; called before a registry is asked at all.

use std::fmt;
use std::str::FromStr;

use crate::error::ImageError;
use crate::reference::Reference;

/// When a registry is asked for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PullPolicy {
    /// Each time. Bytes that are there are not fetched again.
    Always,
    /// When this tenant has no image of that name.
    IfNotPresent,
    /// Never: an image that isn't there is an error.
    Never,
}

/// What a policy means for one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The registry is asked.
    Pull,
    /// The image is taken as it is in the store.
    Use,
    /// There is none and none may be fetched.
    Refuse,
}

impl PullPolicy {
    /// What is done where no policy was given: a name that can change is asked for each time.
    pub fn default_for(reference: &Reference) -> Self {
        let moving = reference.digest().is_none() && reference.tag() == Some("latest");
        if moving {
            Self::Always
        } else {
            Self::IfNotPresent
        }
    }

    /// What is done, by whether the tenant has an image of that name. What another tenant pulled
    /// does not count as present.
    pub fn decide(self, present: bool) -> Decision {
        match (self, present) {
            (Self::Always, _) | (Self::IfNotPresent, false) => Decision::Pull,
            (Self::IfNotPresent | Self::Never, true) => Decision::Use,
            (Self::Never, false) => Decision::Refuse,
        }
    }
}

impl fmt::Display for PullPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "always",
            Self::IfNotPresent => "if-not-present",
            Self::Never => "never",
        })
    }
}

impl FromStr for PullPolicy {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self, ImageError> {
        match text {
            "always" => Ok(Self::Always),
            "if-not-present" => Ok(Self::IfNotPresent),
            "never" => Ok(Self::Never),
            _ => Err(ImageError::malformed(
                "pull policy",
                text,
                "expected always, if-not-present or never",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_decides_by_what_is_there() {
        let table = [
            (PullPolicy::Always, [Decision::Pull, Decision::Pull]),
            (PullPolicy::IfNotPresent, [Decision::Pull, Decision::Use]),
            (PullPolicy::Never, [Decision::Refuse, Decision::Use]),
        ];
        for (policy, [absent, present]) in table {
            assert_eq!(policy.decide(false), absent, "{policy}");
            assert_eq!(policy.decide(true), present, "{policy}");
            assert_eq!(policy.to_string().parse::<PullPolicy>().unwrap(), policy);
        }
        assert!("sometimes".parse::<PullPolicy>().is_err());
    }

    #[test]
    fn only_what_can_move_is_pulled_each_time() {
        let default = |text: &str| PullPolicy::default_for(&text.parse().unwrap());
        assert_eq!(default("nginx"), PullPolicy::Always);
        assert_eq!(default("nginx:latest"), PullPolicy::Always);
        assert_eq!(default("nginx:1.29"), PullPolicy::IfNotPresent);
        let pinned = format!("nginx:latest@sha256:{}", "0".repeat(64));
        assert_eq!(default(&pinned), PullPolicy::IfNotPresent);
    }
}
