// SPDX-License-Identifier: Apache-2.0
//! Platforms: their names, and which entry of an index is taken for one. The rules are those of
//! containerd's `platforms` (exact variant first, then lower ones). Pure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::{ImageError, Result};
use crate::manifest::Descriptor;

/// An operating system and a processor, by Go's names (`linux/arm64`, `linux/arm/v7`).
///
/// Values that came from [`Platform::normalised`], [`FromStr`] or [`Platform::ours`] have one form
/// for each meaning; one that was read from a document may not.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Platform {
    /// `linux`.
    #[serde(default)]
    pub os: String,
    /// `amd64`.
    #[serde(default)]
    pub architecture: String,
    /// `v7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// `os.version`: of Windows alone.
    #[serde(
        rename = "os.version",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub os_version: Option<String>,
}

impl Platform {
    /// What this program was built for.
    pub fn ours() -> Self {
        Self::of("linux", std::env::consts::ARCH, None).normalised()
    }

    fn of(os: &str, architecture: &str, variant: Option<&str>) -> Self {
        Self {
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            variant: variant.map(str::to_owned),
            os_version: None,
        }
    }

    /// Whether what was built for `other` runs here: what [`Platform::choose`] takes of an index.
    pub fn runs(&self, other: &Self) -> bool {
        let mut entry = Descriptor::new("", Digest::of(b""), 0);
        entry.platform = Some(other.clone());
        self.choose(std::slice::from_ref(&entry)).is_ok()
    }

    /// With the one name that means the same.
    pub fn normalised(&self) -> Self {
        let os = self.os.to_ascii_lowercase();
        let variant = self
            .variant
            .as_deref()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let named = self.architecture.to_ascii_lowercase();
        let (architecture, variant) = match (named.as_str(), variant.as_str()) {
            ("x86_64" | "x86-64" | "amd64", "v1") => ("amd64", ""),
            ("x86_64" | "x86-64" | "amd64", variant) => ("amd64", variant),
            ("aarch64" | "arm64", "8" | "v8" | "v8.0") => ("arm64", ""),
            ("aarch64" | "arm64", variant) => ("arm64", variant),
            ("i386" | "i486" | "i586" | "i686" | "x86", _) => ("386", ""),
            ("armhf", _) | ("arm", "" | "7") => ("arm", "v7"),
            ("armel", _) | ("arm", "6") => ("arm", "v6"),
            ("arm", "5") => ("arm", "v5"),
            ("arm", "8") => ("arm", "v8"),
            (other, variant) => (other, variant),
        };
        Self {
            os_version: self.os_version.clone(),
            ..Self::of(&os, architecture, Some(variant).filter(|v| !v.is_empty()))
        }
    }

    /// What runs here, best first.
    fn candidates(&self) -> Vec<Platform> {
        let wanted = self.normalised();
        let lower = |from: u8, to: u8| (to..from).rev().map(|n| format!("v{n}"));
        let number = |text: &Option<String>| {
            let digits = text.as_deref().and_then(|text| text.strip_prefix('v'));
            digits.and_then(|digits| digits.split('.').next()?.parse::<u8>().ok())
        };
        let mut all = vec![wanted.clone()];
        let mut add = |architecture: &str, variant: Option<&str>| {
            all.push(Self::of(&wanted.os, architecture, variant));
        };
        match (wanted.architecture.as_str(), number(&wanted.variant)) {
            ("amd64", Some(level)) => {
                lower(level.min(16), 2).for_each(|v| add("amd64", Some(&v)));
                add("amd64", None);
            }
            ("amd64", None) => add("386", None),
            ("arm64", level) => {
                lower(level.unwrap_or(8).min(16), 9).for_each(|v| add("arm64", Some(&v)));
                add("arm64", None);
                ["v8", "v7", "v6", "v5"]
                    .iter()
                    .for_each(|v| add("arm", Some(v)));
            }
            ("arm", Some(level)) => lower(level.min(16), 5).for_each(|v| add("arm", Some(&v))),
            _ => {}
        }
        all
    }

    /// The entry that is best for this platform. Of several equal ones the first, as everyone takes
    /// it. An entry without a platform is taken where no other fits and it is the only one.
    ///
    /// # Errors
    /// [`ImageError::NoPlatform`] with what there is.
    pub fn choose<'a>(&self, entries: &'a [Descriptor]) -> Result<&'a Descriptor> {
        let with_platform = |wanted: &Platform| {
            entries.iter().find(|entry| {
                let platform = entry.platform.as_ref().map(Platform::normalised);
                platform.is_some_and(|platform| platform.same(wanted))
            })
        };
        let chosen = self.candidates().iter().find_map(with_platform);
        match (chosen, entries) {
            (Some(entry), _) => Ok(entry),
            (None, [only]) if only.platform.is_none() => Ok(only),
            (None, _) => Err(ImageError::NoPlatform {
                wanted: self.to_string(),
                offered: offered(entries),
            }),
        }
    }

    fn same(&self, other: &Self) -> bool {
        (&self.os, &self.architecture, &self.variant)
            == (&other.os, &other.architecture, &other.variant)
    }
}

fn offered(entries: &[Descriptor]) -> String {
    let mut names: Vec<String> = entries
        .iter()
        .filter_map(|entry| entry.platform.as_ref())
        // What builders attach (`unknown/unknown`) is no image.
        .filter(|platform| platform.os != "unknown")
        .map(ToString::to_string)
        .collect();
    names.dedup();
    names.truncate(16);
    match names.as_slice() {
        [] => "no images at all".to_owned(),
        _ => names.join(", "),
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Platform {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self> {
        let word = |part: &&str| {
            let inner =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
            !part.is_empty() && part.len() <= 64 && part.bytes().all(inner)
        };
        let parts: Vec<&str> = text.split('/').collect();
        match parts.as_slice() {
            all if !all.iter().all(word) => None,
            [os, architecture] => Some(Self::of(os, architecture, None)),
            [os, architecture, variant] => Some(Self::of(os, architecture, Some(variant))),
            _ => None,
        }
        .map(|platform| platform.normalised())
        .ok_or_else(|| {
            let problem = "expected OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT, as linux/arm64";
            ImageError::malformed("platform", text, problem)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;

    fn index(platforms: &[&str]) -> Vec<Descriptor> {
        let entry = |name: &&str| {
            let mut parts = name.split('/').map(str::to_owned);
            let mut descriptor = Descriptor::new("m", Digest::of(name.as_bytes()), 1);
            descriptor.platform = Some(Platform {
                os: parts.next().unwrap(),
                architecture: parts.next().unwrap(),
                variant: parts.next(),
                os_version: None,
            });
            descriptor
        };
        platforms.iter().map(entry).collect()
    }

    fn chosen(wanted: &str, platforms: &[&str]) -> Option<String> {
        let index = index(platforms);
        let wanted: Platform = wanted.parse().unwrap();
        let entry = wanted.choose(&index).ok()?;
        Some(entry.platform.as_ref().unwrap().to_string())
    }

    #[test]
    fn the_exact_variant_wins_and_then_lower_ones() {
        let all = [
            "linux/arm/v5",
            "linux/arm/v6",
            "linux/arm/v7",
            "linux/amd64",
            "linux/arm64/v8",
        ];
        for (wanted, expected) in [
            ("linux/amd64", "linux/amd64"),
            ("linux/x86_64", "linux/amd64"),
            ("linux/amd64/v3", "linux/amd64"),
            ("linux/arm64", "linux/arm64/v8"),
            ("linux/arm64/v9", "linux/arm64/v8"),
            ("linux/arm", "linux/arm/v7"),
            ("linux/arm/v6", "linux/arm/v6"),
            ("linux/arm/v8", "linux/arm/v7"),
        ] {
            assert_eq!(chosen(wanted, &all).as_deref(), Some(expected), "{wanted}");
        }
        assert_eq!(chosen("linux/arm/v5", &["linux/arm/v6"]), None);
        assert_eq!(
            chosen("linux/arm64", &["linux/arm/v7"]).as_deref(),
            Some("linux/arm/v7")
        );
        let levels = ["linux/amd64", "linux/amd64/v2"];
        assert_eq!(
            chosen("linux/amd64/v3", &levels).as_deref(),
            Some("linux/amd64/v2")
        );
        assert_eq!(
            chosen("linux/amd64", &levels).as_deref(),
            Some("linux/amd64")
        );
    }

    #[test]
    fn what_isnt_there_is_refused_with_what_is() {
        let index = index(&["windows/amd64", "unknown/unknown", "linux/s390x"]);
        let wanted: Platform = "linux/riscv64".parse().unwrap();
        let error = wanted.choose(&index).unwrap_err().to_string();
        assert_eq!(
            error,
            "the image has nothing for linux/riscv64; it has windows/amd64, linux/s390x"
        );
        assert!(wanted.choose(&[]).is_err());
    }

    #[test]
    fn an_only_entry_without_a_platform_is_taken() {
        let entry = [Descriptor::new("m", Digest::of(b""), 1)];
        assert_eq!(Platform::ours().choose(&entry).unwrap(), &entry[0]);
    }

    #[test]
    fn what_is_no_platform_is_refused() {
        for text in ["", "linux", "linux/", "/amd64", "a/b/c/d", "linux/a b"] {
            assert!(text.parse::<Platform>().is_err(), "{text:?}");
        }
    }
}
