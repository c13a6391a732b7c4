// SPDX-License-Identifier: Apache-2.0
//! What the evaluator gives up before it sees a program: every descriptor but its socket, memory
//! beyond its limit, the file system, and every system call but those for memory, time and the
//! socket. Each lock holds alone; a program that breaks the engine meets all of them.
//!
//! The order matters: what is taken away first must not be needed for what comes after. Landlock is
//! missing on kernels before 5.13 and where it isn't configured: the filter of system calls refuses
//! what it would. Everything else is demanded.

use std::os::fd::AsFd;

use kernel::process;
use kernel::rlimit::{self, Limit, Resource};
use kernel::seccomp::{Action, Arch, Comparison, Condition, Profile, Rule};
use kernel::signal::Signal;
use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr};

/// Bytes of stack; the engine uses a half at most.
pub const STACK: u64 = 32 << 20;

/// Bytes of address space beside the engine's heap: the program itself is there already; this is
/// for messages on their way, the allocator's slack and the stack.
const BESIDE: u64 = 160 << 20;

/// Why a process couldn't be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// A limit, a descriptor, a filter.
    #[error("{0}")]
    Kernel(#[from] kernel::Error),
    /// The filter can't be made.
    #[error("{0}")]
    Filter(#[from] kernel::seccomp::ProfileError),
    /// Landlock is there and refuses.
    #[error("landlock: {0}")]
    Landlock(#[from] landlock::RulesetError),
    /// A kernel that doesn't know the resource.
    #[error("no such resource limit: {0}")]
    Resource(u8),
}

/// Confines this process, for good. It has one thread; standard input stays.
///
/// # Errors
/// Something other than landlock can't be had: nothing may be run then.
pub fn enter(max_memory: u64) -> Result<(), ConfineError> {
    // While there are files still: /proc says it, and on kernels before 6.4 the size of a page,
    // too.
    let mapped = address_space();
    process::close_all_but(&[rustix::stdio::stdin().as_fd()])?;
    process::set_parent_death_signal(Some(Signal::KILL))?;
    process::set_dumpable(false)?;
    process::set_no_new_privileges()?;
    landlock()?;
    let memory = max_memory.saturating_add(max_memory / 4);
    let space = mapped.saturating_add(memory).saturating_add(BESIDE);
    for (resource, most) in [
        (AS, space),
        (CORE, 0),
        (FSIZE, 0),
        (MEMLOCK, 0),
        (NPROC, 0),
        // The socket has the number 0: there is room for nothing else.
        (NOFILE, 1),
    ] {
        lower(resource, most)?;
    }
    stack()?;
    let filter = profile().compile(Arch::NATIVE)?;
    kernel::seccomp::install(&filter.to_bytes(), false)?;
    Ok(())
}

/// Numbers of setrlimit(2).
const FSIZE: u8 = 1;
const STACK_RESOURCE: u8 = 3;
const CORE: u8 = 4;
const NPROC: u8 = 6;
const NOFILE: u8 = 7;
const MEMLOCK: u8 = 8;
const AS: u8 = 9;

fn lower(number: u8, most: u64) -> Result<(), ConfineError> {
    let resource = Resource::from_number(number).ok_or(ConfineError::Resource(number))?;
    let hard = rlimit::get(resource)?.hard.min(most);
    Ok(rlimit::set(resource, Limit { soft: hard, hard })?)
}

/// The stack grows as far as the limit says at that moment: this is early enough.
fn stack() -> Result<(), ConfineError> {
    let number = STACK_RESOURCE;
    let resource = Resource::from_number(number).ok_or(ConfineError::Resource(number))?;
    let hard = rlimit::get(resource)?.hard.min(STACK);
    Ok(rlimit::set(resource, Limit { soft: hard, hard })?)
}

/// Bytes that are mapped already: most of it the program's own file.
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    // Without /proc a guess that is large enough.
    pages.map_or(512 << 20, |pages| pages.saturating_mul(page))
}

/// No file, no port.
fn landlock() -> Result<(), ConfineError> {
    let abi = ABI::V6;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(landlock::Scope::from_all(abi))?
        .create()?
        .restrict_self()?;
    Ok(())
}

/// What a confined evaluator may call: memory, its socket, the clock, and its end.
const CALLS: &[&str] = &[
    "brk",
    "clock_getres",
    "clock_gettime",
    "exit",
    "exit_group",
    "futex",
    "getrandom",
    "gettimeofday",
    "madvise",
    "mremap",
    "munmap",
    "poll",
    "ppoll",
    "recvfrom",
    "restart_syscall",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_yield",
    "sendto",
    "sigaltstack",
];

/// Calls that map memory, with the protection as their third argument.
const MAPPING: &[&str] = &["mmap", "mprotect"];

/// What a refused call answers.
const EPERM: u16 = 1;

/// The protection that makes memory executable.
const PROT_EXEC: u64 = 4;

fn profile() -> Profile {
    let known = CALLS
        .iter()
        .filter(|name| Arch::NATIVE.number(name).is_some());
    let mut profile = Profile::allow_list(known.copied(), Action::Errno(EPERM));
    let never_executed = Condition {
        argument: 2,
        mask: PROT_EXEC,
        comparison: Comparison::Equal,
        value: 0,
    };
    let mapping = Rule::new(Action::Allow, MAPPING.iter().copied()).when(never_executed);
    profile.rules.push(mapping);
    profile
}
