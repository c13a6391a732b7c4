// SPDX-License-Identifier: Apache-2.0
//! Scheduling: CPU affinity, nice, policies, priority for disks, and the OOM killer's preference.

use std::path::Path;

use crate::error::check;
use crate::{Context, Error, Result};

/// Lets the calling thread run on these CPUs alone: bit n of byte n/8 is CPU n.
///
/// # Errors
/// `EINVAL`: none of them is on line, or in the thread's cpuset.
pub fn set_affinity(mask: &[u8]) -> Result<()> {
    // The kernel takes any length, and reads that many bytes. SAFETY: pointer and length are of one
    // slice.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, mask.len(), mask.as_ptr()) };
    check("sched_setaffinity", result).map(|_| ())
}

/// The CPUs that the calling thread may run on, as in [`set_affinity`].
///
/// # Errors
/// `EINVAL`: the kernel is built for more than 8,192 CPUs.
pub fn affinity() -> Result<Vec<u8>> {
    let mut mask = vec![0u8; 1024];
    // SAFETY: pointer and length are of one vector.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            0,
            mask.len(),
            mask.as_mut_ptr(),
        )
    };
    let length = check("sched_getaffinity", result)?;
    mask.truncate(usize::try_from(length).unwrap_or(0));
    Ok(mask)
}

/// Sets the calling process's nice value, -20 (first) to 19 (last).
///
/// # Errors
/// `EACCES`: it would be lowered without `CAP_SYS_NICE`, below what `RLIMIT_NICE` allows.
pub fn set_nice(nice: i8) -> Result<()> {
    rustix::process::setpriority_process(None, nice.into()).call("setpriority")
}

/// The calling process's nice value.
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn nice() -> Result<i32> {
    rustix::process::getpriority_process(None).call("getpriority")
}

/// The kernel's `struct sched_attr` (sched_setattr(2)), without utilization clamps.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    size: u32,
    /// `SCHED_OTHER` (0), `FIFO` (1), `RR` (2), `BATCH` (3), `IDLE` (5), `DEADLINE` (6).
    pub policy: u32,
    /// `SCHED_FLAG_*`.
    pub flags: u64,
    /// Nice value, -20 to 19, of policies 0 and 3.
    pub nice: i32,
    /// Priority, 1 to 99, of policies 1 and 2.
    pub priority: u32,
    /// Nanoseconds of CPU time in a period, of policy 6.
    pub runtime_ns: u64,
    /// Nanoseconds until that must be done, of policy 6.
    pub deadline_ns: u64,
    /// Nanoseconds of a period, of policy 6.
    pub period_ns: u64,
}

impl Policy {
    /// `SCHED_FLAG_RESET_ON_FORK`: children begin with the usual policy.
    pub const RESET_ON_FORK: u64 = 1;

    /// One that is no deadline's; see the fields.
    pub fn of(policy: u32, priority: u32, nice: i32, flags: u64) -> Self {
        Self {
            policy,
            priority,
            nice,
            flags,
            ..Self::default()
        }
    }
}

/// Sets the calling thread's policy.
///
/// # Errors
/// `EPERM`: without `CAP_SYS_NICE`. `EINVAL`: a policy that the kernel doesn't know, or values that
/// don't go with it. `EBUSY`: a deadline that can't be promised.
pub fn set_policy(policy: &Policy) -> Result<()> {
    let policy = Policy {
        size: size_of::<Policy>() as u32,
        ..*policy
    };
    // SAFETY: a structure of the kernel's layout that says its size and lives during the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const policy, 0) };
    check("sched_setattr", result).map(|_| ())
}

/// Sets the calling thread's priority for disks (ioprio_set(2)): class 1 (real time), 2 (best
/// effort) or 3 (idle), and a level from 0 (first) to 7.
///
/// # Errors
/// `EPERM`: real time without `CAP_SYS_ADMIN` or `CAP_SYS_NICE`. `EINVAL`: no such class or level.
pub fn set_io_priority(class: u32, level: u32) -> Result<()> {
    const WHO_PROCESS: libc::c_int = 1;
    let value = (class << 13) | level;
    // SAFETY: integers.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) };
    check("ioprio_set", result).map(|_| ())
}

/// Sets the calling process's execution domain (personality(2)).
///
/// # Errors
/// `EINVAL`: the kernel refuses the value.
pub fn set_personality(persona: u64) -> Result<()> {
    // SAFETY: an integer.
    let result = unsafe { libc::syscall(libc::SYS_personality, persona) };
    check("personality", result).map(|_| ())
}

/// Sets a process's `oom_score_adj`, -1,000 (never killed) to 1,000 (first). Where the caller has
/// `CAP_SYS_RESOURCE`, the value is also the minimum that the process can return to itself.
///
/// # Errors
/// `EACCES`: it would be lowered without `CAP_SYS_RESOURCE`, or the process is another user's.
/// `ENOENT`, `ESRCH`: there is no such process. `EINVAL`: `value` is out of range.
pub fn set_oom_score_adj(pid: i32, value: i16) -> Result<()> {
    write_oom(&format!("/proc/{pid}/oom_score_adj"), value)
}

/// [`set_oom_score_adj`] of the calling process.
///
/// # Errors
/// `EACCES`: it would be lowered without `CAP_SYS_RESOURCE`. `ENOENT`: `/proc` is not mounted.
/// `EINVAL`: `value` is out of range.
pub fn set_own_oom_score_adj(value: i16) -> Result<()> {
    write_oom("/proc/self/oom_score_adj", value)
}

fn write_oom(path: &str, value: i16) -> Result<()> {
    if !(-1000..=1000).contains(&value) {
        return Err(Error::invalid("oom_score_adj", "not from -1000 to 1000"));
    }
    std::fs::write(path, value.to_string()).call_on("write", Path::new(path))
}

/// The number of CPUs that are on line.
///
/// # Errors
/// `EINVAL`: the kernel's list can't be read, or, where `/sys` is not mounted, that of
/// [`affinity`].
pub fn online_cpus() -> Result<usize> {
    let path = Path::new("/sys/devices/system/cpu/online");
    match std::fs::read_to_string(path) {
        Ok(text) => parse_cpu_list(text.trim())
            .map(|cpus| cpus.len())
            .ok_or_else(|| Error::invalid("read", "cpu/online")),
        Err(_) => Ok(affinity()?.iter().map(|b| b.count_ones() as usize).sum()),
    }
}

/// A list of CPUs as the kernel writes it (`0-3,8`): their numbers. `None` where it isn't one, or
/// has a CPU beyond 8,191.
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if first > last || last > 8191 {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// A mask as [`set_affinity`] takes it, of CPU numbers.
pub fn affinity_mask(cpus: &[u32]) -> Vec<u8> {
    let mut mask = Vec::new();
    for cpu in cpus.iter().filter(|cpu| **cpu <= 8191) {
        let byte = (*cpu / 8) as usize;
        if mask.len() <= byte {
            mask.resize(byte + 1, 0u8);
        }
        if let Some(slot) = mask.get_mut(byte) {
            *slot |= 1 << (cpu % 8);
        }
    }
    mask
}

/// Sets where the calling thread's memory comes from: `MPOL_*`, and a bit per memory node.
///
/// # Errors
/// `EINVAL`: no such policy, or no such node. `ENOSYS`: a kernel without NUMA.
pub fn set_memory_policy(mode: u32, nodes: &[u8]) -> Result<()> {
    let mut words: Vec<u64> = Vec::new();
    for chunk in nodes.chunks(8) {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(chunk) {
            *to = *from;
        }
        words.push(u64::from_le_bytes(word));
    }
    // The kernel looks at one bit less than it is told.
    let bits = words.len() * 64 + usize::from(!words.is_empty());
    let mask = match words.is_empty() {
        true => std::ptr::null(),
        false => words.as_ptr(),
    };
    // SAFETY: the mask is null with no bits, or lives during the call and has as many as are said,
    // less the one that the kernel takes off.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, bits) };
    check("set_mempolicy", result).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_cpu_list("0-3,8").unwrap(), [0, 1, 2, 3, 8]);
        assert_eq!(parse_cpu_list("").unwrap(), [0; 0]);
        for wrong in ["3-1", "a", "0-", "99999"] {
            assert_eq!(parse_cpu_list(wrong), None, "{wrong}");
        }
        assert_eq!(affinity_mask(&[0, 9]), [1, 2]);
    }

    #[test]
    fn a_thread_can_be_bound_to_the_cpus_it_has() {
        std::thread::spawn(|| {
            let all = affinity().unwrap();
            let first = (0..8192u32)
                .find(|c| all[(c / 8) as usize] & (1 << (c % 8)) != 0)
                .unwrap();
            let one = affinity_mask(&[first]);
            set_affinity(&one).unwrap();
            let now = affinity().unwrap();
            assert_eq!(now.iter().map(|b| b.count_ones()).sum::<u32>(), 1);
            assert_eq!(&now[..one.len()], &one[..]);
        })
        .join()
        .unwrap();
        assert!(online_cpus().unwrap() > 0);
    }

    proptest! {
        #[test]
        fn a_mask_has_its_cpus(cpus in prop::collection::btree_set(0..600u32, 0..20)) {
            let list: Vec<u32> = cpus.iter().copied().collect();
            let mask = affinity_mask(&list);
            let back: Vec<u32> = (0..600u32)
                .filter(|c| mask.get((c / 8) as usize).is_some_and(|b| b & (1 << (c % 8)) != 0))
                .collect();
            prop_assert_eq!(back, list);
        }
    }
}
