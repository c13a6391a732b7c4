// SPDX-License-Identifier: Apache-2.0
//! Capabilities by name and as a set, with the kernel's numbers. Nothing is dropped here.

use std::str::FromStr;

pub use names::CAPABILITIES as NAMES;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The capabilities that container runtimes leave to a container's root by default.
pub const DEFAULT: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

/// Capabilities as asked for, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// The capabilities that may ever be gained. `ALL` means all.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub bounding: Vec<String>,
    /// Kept across exec by a user that isn't root; a part of `bounding`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub ambient: Vec<String>,
}

/// A set of capabilities: bit N is capability number N.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CapabilitySet(u64);

impl CapabilitySet {
    /// All that Linux 5.9 has.
    pub const ALL: CapabilitySet = CapabilitySet((1 << NAMES.len()) - 1);

    /// As a bit mask.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// What container runtimes leave by default.
    pub fn container_default() -> Self {
        Self(
            DEFAULT
                .iter()
                .filter_map(|n| number(n))
                .fold(0, |s, n| s | 1 << n),
        )
    }

    /// Whether all of `other` are in it.
    pub fn contains(self, other: CapabilitySet) -> bool {
        other.0 & !self.0 == 0
    }

    /// `CAP_*` names, in order of their numbers.
    pub fn names(self) -> Vec<String> {
        let has = |i: usize| self.0 & (1 << i) != 0;
        let named = NAMES.iter().enumerate().filter(|(i, _)| has(*i));
        named.map(|(_, name)| format!("CAP_{name}")).collect()
    }

    /// Adds one by name.
    fn parse_into(&mut self, name: &str) -> Result<()> {
        let one: CapabilitySet = name.parse()?;
        self.0 |= one.0;
        Ok(())
    }

    fn from_names(field: &str, names: &[String]) -> Result<Self> {
        let mut set = Self::default();
        for (i, name) in names.iter().enumerate() {
            set.parse_into(name)
                .map_err(|e| e.within(&format!("{field}[{i}]")))?;
        }
        Ok(set)
    }
}

impl FromStr for CapabilitySet {
    type Err = Error;

    /// `CAP_NET_RAW`, `NET_RAW`, `net_raw`, or `ALL`.
    fn from_str(text: &str) -> Result<Self> {
        let upper = text.to_ascii_uppercase();
        if upper == "ALL" {
            return Ok(Self::ALL);
        }
        let Some(number) = number(upper.strip_prefix("CAP_").unwrap_or(&upper)) else {
            let shown: String = text.chars().take(40).collect();
            return Err(Error::invalid("", format!("{shown:?} is not a capability"))
                .hint("give a name of capabilities(7), such as CAP_NET_BIND_SERVICE"));
        };
        Ok(Self(1 << number))
    }
}

fn number(name: &str) -> Option<usize> {
    NAMES.iter().position(|n| *n == name)
}

impl Capabilities {
    /// The bounding and the ambient set; the ambient one must be a part of the bounding one.
    pub(crate) fn resolve(&self) -> Result<(CapabilitySet, CapabilitySet)> {
        crate::text::check_count("bounding", self.bounding.len(), NAMES.len())?;
        crate::text::check_count("ambient", self.ambient.len(), NAMES.len())?;
        let bounding = CapabilitySet::from_names("bounding", &self.bounding)?;
        let ambient = CapabilitySet::from_names("ambient", &self.ambient)?;
        if !bounding.contains(ambient) {
            let missing = CapabilitySet(ambient.0 & !bounding.0).names().join(", ");
            return Err(Error::invalid(
                "ambient",
                format!("has {missing}, which the bounding set lacks"),
            ));
        }
        Ok((bounding, ambient))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_kernels_numbers() {
        for (name, bit) in [
            ("CAP_CHOWN", 0),
            ("net_bind_service", 10),
            ("SYS_ADMIN", 21),
            ("SETFCAP", 31),
            ("cap_checkpoint_restore", 40),
        ] {
            assert_eq!(
                name.parse::<CapabilitySet>().unwrap().bits(),
                1 << bit,
                "{name}"
            );
        }
        assert!("CAP_NOTHING".parse::<CapabilitySet>().is_err());
        assert_eq!(CapabilitySet::ALL.names().len(), 41);
    }

    #[test]
    fn the_default_has_no_way_to_mount_or_load() {
        let default = CapabilitySet::container_default();
        assert_eq!(default.names().len(), 14);
        for dangerous in ["SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "BPF", "NET_ADMIN"] {
            assert!(!default.contains(dangerous.parse().unwrap()));
        }
    }

    #[test]
    fn ambient_is_a_part_of_bounding() {
        let caps = Capabilities {
            bounding: vec!["KILL".into()],
            ambient: vec!["CHOWN".into()],
        };
        let error = caps.resolve().unwrap_err();
        assert_eq!(error.field.as_deref(), Some("ambient"));
        assert!(error.message.contains("CAP_CHOWN"));
    }
}
