// SPDX-License-Identifier: Apache-2.0
//! Capabilities: names, sets, and the calling thread's five sets (capabilities(7)).
//!
//! The calls concern the calling thread alone: for children about to be executed.

use std::fmt;
use std::str::FromStr;

use names::CAPABILITIES as NAMES;
use rustix::io::Errno;

use crate::error::check;
use crate::{Error, Result};

/// One capability, by its number (0 to 40 have names).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Capability(u8);

impl Capability {
    /// Reboot, load a kernel for kexec.
    pub const SYS_BOOT: Capability = Capability(22);
    /// Mounts, namespaces and much else.
    pub const SYS_ADMIN: Capability = Capability(21);
    /// Raise hard limits, lower `oom_score_adj`.
    pub const SYS_RESOURCE: Capability = Capability(24);
    /// Configure devices, addresses, routes and filters of the network namespace.
    pub const NET_ADMIN: Capability = Capability(12);
    /// Trace any process.
    pub const SYS_PTRACE: Capability = Capability(19);

    /// The capability of this number, if it has a name.
    pub fn from_number(number: u8) -> Option<Capability> {
        (usize::from(number) < NAMES.len()).then_some(Capability(number))
    }

    /// The kernel's number, 0 to 40.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.get(usize::from(self.0)).copied().unwrap_or("?");
        write!(f, "CAP_{name}")
    }
}

/// A string that names no capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such capability: {0:?} (expected a name as CAP_NET_ADMIN or NET_ADMIN)")]
pub struct UnknownCapability(pub String);

impl FromStr for Capability {
    type Err = UnknownCapability;

    fn from_str(text: &str) -> Result<Self, UnknownCapability> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("CAP_").unwrap_or(&upper);
        let number = NAMES.iter().position(|n| *n == name);
        let number = number.and_then(|n| u8::try_from(n).ok());
        number
            .map(Capability)
            .ok_or_else(|| UnknownCapability(text.to_owned()))
    }
}

/// A set of capabilities: bit n is number n.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CapabilitySet(pub u64);

impl CapabilitySet {
    /// No capability.
    pub const EMPTY: CapabilitySet = CapabilitySet(0);
    /// All that have names.
    pub const ALL: CapabilitySet = CapabilitySet((1 << NAMES.len()) - 1);

    /// The capabilities of a container's root by default, in container engines: `CHOWN`,
    /// `DAC_OVERRIDE`, `FOWNER`, `FSETID`, `KILL`, `SETGID`, `SETUID`, `SETPCAP`,
    /// `NET_BIND_SERVICE`, `NET_RAW`, `SYS_CHROOT`, `MKNOD`, `AUDIT_WRITE`, `SETFCAP`.
    pub const CONTAINER: CapabilitySet =
        Self::of(&[0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31]);

    #[allow(
        clippy::indexing_slicing,
        reason = "a constant loop, checked at compile time"
    )]
    const fn of(numbers: &[u8]) -> CapabilitySet {
        let (mut set, mut i) = (0, 0);
        while i < numbers.len() {
            set |= 1 << numbers[i];
            i += 1;
        }
        CapabilitySet(set)
    }

    /// Whether it has this one.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability.0) != 0
    }

    /// This set and `capability`.
    #[must_use]
    pub const fn with(self, capability: Capability) -> CapabilitySet {
        CapabilitySet(self.0 | 1 << capability.0)
    }

    /// This set less `capability`.
    #[must_use]
    pub const fn without(self, capability: Capability) -> CapabilitySet {
        CapabilitySet(self.0 & !(1 << capability.0))
    }

    /// The capabilities that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: CapabilitySet) -> CapabilitySet {
        CapabilitySet(self.0 & other.0)
    }

    /// The named ones in it, by number.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        (0..64u8)
            .filter(move |n| self.0 & (1 << n) != 0)
            .filter_map(Capability::from_number)
    }
}

impl FromIterator<Capability> for CapabilitySet {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        capabilities.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// The three sets that `capget` and `capset` deal with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadSets {
    /// The capabilities that count in checks.
    pub effective: CapabilitySet,
    /// The capabilities that may be made effective.
    pub permitted: CapabilitySet,
    /// The capabilities that survive exec, where the file has them as inheritable too.
    pub inheritable: CapabilitySet,
}

/// `_LINUX_CAPABILITY_VERSION_3` and the calling thread.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

const HEADER: Header = Header {
    version: 0x2008_0522,
    pid: 0,
};

/// The calling thread's sets.
///
/// # Errors
/// What `capget` answers: `EPERM` under a seccomp filter that refuses it.
pub fn get() -> Result<ThreadSets> {
    let mut header = HEADER;
    let mut data = [[0u32; 3]; 2];
    // SAFETY: header and data have the layout of version 3 and live during the call.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    check("capget", result)?;
    let [low, high] = data;
    let join = |(l, h): (&u32, &u32)| CapabilitySet(u64::from(*l) | u64::from(*h) << 32);
    let mut sets = low.iter().zip(&high).map(join);
    let mut next = || sets.next().unwrap_or_default();
    Ok(ThreadSets {
        effective: next(),
        permitted: next(),
        inheritable: next(),
    })
}

/// Replaces the calling thread's sets.
///
/// # Errors
/// `EPERM`: a capability that the thread isn't permitted now, or an effective one that isn't in the
/// new permitted set.
pub fn set(sets: &ThreadSets) -> Result<()> {
    let mut header = HEADER;
    let all = [sets.effective.0, sets.permitted.0, sets.inheritable.0];
    let data = [all.map(|set| set as u32), all.map(|set| (set >> 32) as u32)];
    // SAFETY: header and data have the layout of version 3 and live during the call.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) };
    check("capset", result).map(|_| ())
}

fn prctl(
    call: &'static str,
    option: libc::c_int,
    a: libc::c_ulong,
    b: libc::c_ulong,
) -> Result<libc::c_long> {
    // SAFETY: used below only with options whose arguments are integers.
    let result = unsafe { libc::prctl(option, a, b, 0 as libc::c_ulong, 0 as libc::c_ulong) };
    check(call, result.into())
}

/// The calling thread's bounding set: no exec ever grants more. Capabilities that the running
/// kernel doesn't know are not in it.
pub fn bounding() -> CapabilitySet {
    let known = |number: &u8| {
        prctl(
            "prctl(PR_CAPBSET_READ)",
            libc::PR_CAPBSET_READ,
            (*number).into(),
            0,
        ) == Ok(1)
    };
    CapabilitySet(
        (0..64u8)
            .filter(known)
            .fold(0, |set, number| set | 1 << number),
    )
}

/// Drops all but these from the bounding set, also capabilities newer than this code.
///
/// # Errors
/// `EPERM`: without `CAP_SETPCAP`; those before the first that failed are dropped.
pub fn limit_bounding(keep: CapabilitySet) -> Result<()> {
    for number in 0..64u8 {
        if keep.0 & (1 << number) != 0 {
            continue;
        }
        match prctl(
            "prctl(PR_CAPBSET_DROP)",
            libc::PR_CAPBSET_DROP,
            number.into(),
            0,
        ) {
            Ok(_) => {}
            // Beyond the kernel's last.
            Err(e) if e.is(libc::EINVAL) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Replaces the ambient set: what an ordinary program without privileges of its own keeps across
/// exec.
///
/// # Errors
/// `EPERM`: a capability isn't permitted and inheritable already, or `SECBIT_NO_CAP_AMBIENT_RAISE`
/// is set; the message names the capability, and those before it are set.
pub fn set_ambient(set: CapabilitySet) -> Result<()> {
    let option = libc::PR_CAP_AMBIENT;
    let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong;
    prctl("prctl(PR_CAP_AMBIENT_CLEAR_ALL)", option, clear, 0)?;
    for number in (0..64u8).filter(|n| set.0 & (1 << n) != 0) {
        let raise = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
        prctl("prctl(PR_CAP_AMBIENT_RAISE)", option, raise, number.into()).map_err(|e| {
            let name = Capability::from_number(number).map(|c| c.to_string());
            e.about(name.unwrap_or_else(|| number.to_string()))
        })?;
    }
    Ok(())
}

/// Sets the securebits (`SECBIT_*`), which say whether uid 0 has capabilities by itself.
///
/// # Errors
/// `EPERM`: without `CAP_SETPCAP`, or a bit that is locked would change.
pub fn set_securebits(bits: u32) -> Result<()> {
    prctl(
        "prctl(PR_SET_SECUREBITS)",
        libc::PR_SET_SECUREBITS,
        bits.into(),
        0,
    )
    .map(|_| ())
}

/// Checks that the calling thread can make these effective.
///
/// # Errors
/// `EPERM`: it isn't permitted all of them; the message names those that are missing.
pub fn require(set: CapabilitySet) -> Result<()> {
    let missing = CapabilitySet(set.0 & !get()?.permitted.0);
    if missing == CapabilitySet::EMPTY {
        return Ok(());
    }
    let names: Vec<String> = missing.iter().map(|c| c.to_string()).collect();
    Err(Error::new("capabilities", Errno::PERM).about(format!("missing {}", names.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read_with_and_without_their_prefix() {
        assert_eq!("cap_net_admin".parse(), Ok(Capability::NET_ADMIN));
        assert_eq!("NET_ADMIN".parse(), Ok(Capability::NET_ADMIN));
        assert!("CAP_".parse::<Capability>().is_err());
        assert!(
            "root"
                .parse::<Capability>()
                .unwrap_err()
                .to_string()
                .contains("\"root\"")
        );
    }

    #[test]
    fn numbers_are_the_kernel_s() {
        let last = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap").unwrap();
        let last: u8 = last.trim().parse().unwrap();
        assert!(
            usize::from(last) < NAMES.len(),
            "the kernel has a newer capability: {last}"
        );
        assert_eq!(
            "CAP_CHECKPOINT_RESTORE"
                .parse::<Capability>()
                .unwrap()
                .number(),
            40
        );
        assert_eq!("CAP_SYS_ADMIN".parse(), Ok(Capability::SYS_ADMIN));
        assert_eq!("CAP_SETFCAP".parse::<Capability>().unwrap().number(), 31);
    }

    #[test]
    fn the_container_set_has_no_administration_in_it() {
        let names: Vec<_> = CapabilitySet::CONTAINER
            .iter()
            .map(|c| c.to_string())
            .collect();
        assert_eq!(names.len(), 14);
        assert!(
            !names
                .iter()
                .any(|n| n.contains("ADMIN") || n.contains("PTRACE")),
            "{names:?}"
        );
        assert!(CapabilitySet::CONTAINER.has("NET_BIND_SERVICE".parse().unwrap()));
    }

    #[test]
    fn this_thread_s_sets_can_be_read_and_written_back() {
        let sets = get().unwrap();
        set(&sets).unwrap();
        assert_eq!(get().unwrap(), sets);
        assert_eq!(bounding().0 & !CapabilitySet::ALL.0, 0);
    }

    proptest! {
        #[test]
        fn every_capability_is_read_back_from_its_own_text(number in 0..41u8) {
            let capability = Capability::from_number(number).unwrap();
            prop_assert_eq!(capability.to_string().parse(), Ok(capability));
            prop_assert!(CapabilitySet::ALL.has(capability));
            prop_assert_eq!([capability].into_iter().collect::<CapabilitySet>().0, 1 << number);
        }
    }
}
