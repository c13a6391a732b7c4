// SPDX-License-Identifier: Apache-2.0
//! Resource limits (getrlimit(2)): names, reading, writing.

use std::fmt;
use std::str::FromStr;

use names::RLIMITS as NAMES;

use crate::error::check;
use crate::{Error, Result};

/// The value that means no limit (`RLIM_INFINITY`).
pub const UNLIMITED: u64 = u64::MAX;

/// One resource, by its number on Linux (0 to 15).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Resource(u8);

impl Resource {
    /// Open descriptors: the first number that the process can't get.
    pub const NOFILE: Resource = Resource(7);
    /// Size of core dumps, in bytes.
    pub const CORE: Resource = Resource(4);
    /// Processes of a user.
    pub const NPROC: Resource = Resource(6);

    /// The resource of this number.
    pub fn from_number(number: u8) -> Option<Resource> {
        (usize::from(number) < NAMES.len()).then_some(Resource(number))
    }

    /// The kernel's number of the resource, 0 to 15.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RLIMIT_{}",
            NAMES.get(usize::from(self.0)).copied().unwrap_or("?")
        )
    }
}

/// A string that names no resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such resource limit: {0:?} (expected a name as RLIMIT_NOFILE or NOFILE)")]
pub struct UnknownResource(pub String);

impl FromStr for Resource {
    type Err = UnknownResource;

    fn from_str(text: &str) -> Result<Self, UnknownResource> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("RLIMIT_").unwrap_or(&upper);
        let number = NAMES.iter().position(|n| *n == name);
        let number = number.and_then(|n| u8::try_from(n).ok());
        number
            .map(Resource)
            .ok_or_else(|| UnknownResource(text.to_owned()))
    }
}

/// A limit of a process: beyond `soft` it is refused, up to `hard` it may raise `soft` itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The limit that holds, in the resource's own unit; [`UNLIMITED`] for none.
    pub soft: u64,
    /// The most that `soft` can be raised to, in the same unit.
    pub hard: u64,
}

/// The caller's own limit.
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn get(resource: Resource) -> Result<Limit> {
    prlimit(0, resource, None)
}

/// Sets the caller's own limit.
///
/// # Errors
/// `EPERM`: `hard` is raised without `CAP_SYS_RESOURCE`, or is beyond `fs.nr_open` for
/// [`Resource::NOFILE`]. `EINVAL`: `soft` is above `hard`.
pub fn set(resource: Resource, limit: Limit) -> Result<()> {
    prlimit(0, resource, Some(limit)).map(|_| ())
}

/// Sets another process's limit and returns the old one.
///
/// # Errors
/// `ESRCH`: there is no such process. `EPERM`: it is another user's, and the caller has no
/// `CAP_SYS_RESOURCE`; or as in [`set`]. `EINVAL`: `soft` is above `hard`.
pub fn set_of(pid: i32, resource: Resource, limit: Limit) -> Result<Limit> {
    prlimit(pid, resource, Some(limit))
}

fn prlimit(pid: i32, resource: Resource, new: Option<Limit>) -> Result<Limit> {
    let new = new.map(|limit| [limit.soft, limit.hard]);
    let new = new
        .as_ref()
        .map_or(std::ptr::null(), |limit| limit.as_ptr());
    let mut old = [0u64; 2];
    // SAFETY: both are `struct rlimit64`, two 64-bit numbers, alive during the call; `new` may be
    // null.
    let result = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            pid,
            libc::c_int::from(resource.0),
            new,
            old.as_mut_ptr(),
        )
    };
    check("prlimit64", result).map_err(|e: Error| e.about(resource.to_string()))?;
    let [soft, hard] = old;
    Ok(Limit { soft, hard })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_is_read_back_from_its_own_text() {
        for number in 0..16 {
            let resource = Resource::from_number(number).unwrap();
            assert_eq!(resource.to_string().parse(), Ok(resource));
        }
        assert_eq!("nofile".parse(), Ok(Resource::NOFILE));
        assert_eq!(libc::RLIMIT_NOFILE, u32::from(Resource::NOFILE.number()));
        assert!(
            "FILES"
                .parse::<Resource>()
                .unwrap_err()
                .to_string()
                .contains("FILES")
        );
        assert_eq!(Resource::from_number(16), None);
    }

    #[test]
    fn a_limit_can_be_lowered_and_is_named_when_it_cannot_be_set() {
        let limit = get(Resource::CORE).unwrap();
        set(Resource::CORE, Limit { soft: 0, ..limit }).unwrap();
        assert_eq!(get(Resource::CORE).unwrap().soft, 0);
        let error = set(Resource::CORE, Limit { soft: 2, hard: 1 }).unwrap_err();
        assert!(error.to_string().contains("RLIMIT_CORE"), "{error}");
    }
}
