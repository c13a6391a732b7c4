// SPDX-License-Identifier: Apache-2.0
//! The system calls that a program may use, as a client gives them: a profile, names and groups of
//! names, or a whole [`document`]. Only their form is checked here; the kernel crate knows the
//! names and groups.

pub mod document;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, Within};
use crate::text::check_count;

/// The most names in `allow`, and in `deny`.
pub const MAX_NAMES: usize = 512;

/// The filter of system calls, as the client gave it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Seccomp {
    /// The list that `allow` and `deny` change.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub profile: Profile,
    /// System calls by name, or systemd's groups such as `@mount`. Added to the profile.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub allow: Vec<String>,
    /// Taken away from the profile; wins over `allow`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub deny: Vec<String>,
    /// The action on a call that isn't allowed.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub action: Action,
    /// A name such as `EPERM`, or a number. Empty: EPERM.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub errno: String,
    /// A whole filter in Docker's JSON form, in place of all the others ([`document`]).
    #[serde(skip_serializing_if = "crate::is_default")]
    pub custom: String,
}

/// A list of calls to begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The calls that container runtimes refuse by default are refused.
    #[default]
    Default,
    /// No call but those of `allow`.
    Strict,
    /// Every call but those of `deny`.
    Unconfined,
}

/// The action on a call that isn't allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It fails with `errno`.
    #[default]
    Errno,
    /// The process is killed with SIGSYS.
    Kill,
    /// It goes on and the kernel logs it.
    Log,
}

impl Seccomp {
    /// Checks the form, and gives the number that a refused call fails with.
    pub(crate) fn resolve_errno(&self) -> Result<u16> {
        self.check_custom()?;
        check_names("allow", &self.allow)?;
        check_names("deny", &self.deny)?;
        if self.errno.is_empty() {
            return Ok(1);
        }
        if self.action != Action::Errno {
            let problem = "has a meaning only with the action ERRNO";
            return Err(Error::invalid("errno", problem));
        }
        crate::errno::parse(&self.errno).ok_or_else(|| {
            let shown: String = self.errno.chars().take(40).collect();
            Error::invalid("errno", format!("{shown:?} is not an error number"))
                .hint("give a name such as EPERM, or a number from 1 to 133")
        })
    }
}

impl Seccomp {
    /// A document says all there is to say.
    fn check_custom(&self) -> Result<()> {
        if self.custom.is_empty() {
            return Ok(());
        }
        let alone = Self {
            custom: self.custom.clone(),
            ..Self::default()
        };
        if *self != alone {
            let problem = "takes the place of profile, allow, deny, action and errno";
            return Err(Error::invalid("custom", problem).hint("give it alone, or leave it out"));
        }
        document::Document::read(&self.custom).within("custom")?;
        Ok(())
    }

    /// The filter with the error number of refused calls filled in, by name, where calls are
    /// refused with one.
    pub(crate) fn with_errno(mut self, errno: u16) -> Self {
        if self.action == Action::Errno && self.custom.is_empty() {
            self.errno = crate::errno::name(errno.into()).map_or(errno.to_string(), str::to_owned);
        }
        self
    }
}

fn check_names(field: &str, names: &[String]) -> Result<()> {
    check_count(field, names.len(), MAX_NAMES)?;
    for (i, name) in names.iter().enumerate() {
        let bare = name.strip_prefix('@').unwrap_or(name);
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
        if bare.is_empty() || bare.len() > 64 || !bare.bytes().all(good) {
            let shown: String = name.chars().take(40).collect();
            return Err(Error::invalid(
                format!("{field}[{i}]"),
                format!("{shown:?} is neither a system call nor a group such as @mount"),
            ));
        }
    }
    Ok(())
}
