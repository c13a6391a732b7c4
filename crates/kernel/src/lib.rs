// SPDX-License-Identifier: Apache-2.0
//! Linux, safely.
//!
//! The only crate with `unsafe`. It knows nothing of Aurae: no names, no cells, no policy. `init`
//! and `node` call it. Every function is one thing that Linux does, with an error ([`Error`]) that
//! says which call failed, on what, and with which errno.
//!
//! Absent on purpose: async, threads, logging, global state, sleeping (but in [`oom_wait`]).
//! Functions that wait do so on a descriptor the kernel wakes, and take a bound.
//!
//! `init` runs code of this crate in children that were cloned without exec. Such a child is a copy
//! of a *single-threaded* process, so the allocator and the standard library work in it; see
//! [`clone`].
#![allow(
    unsafe_code,
    reason = "system calls that rustix does not wrap, or wraps as unsafe"
)]

pub mod autofs;
pub mod caps;
pub mod cgroup;
pub mod clone;
pub mod epoll;
mod error;
pub mod event;
pub mod exec;
pub mod fsutil;
pub mod idmap;
pub mod inherit;
pub mod ipc;
pub mod loopdev;
pub mod machine;
pub mod memory;
pub mod mount;
pub mod namespace;
pub mod netlink;
pub mod notify;
pub mod oom_wait;
pub mod pidfd;
pub mod pipe;
pub mod poll;
pub mod pressure;
pub mod process;
pub mod procfs;
pub mod rlimit;
pub mod run;
pub mod sched;
pub mod sealed;
pub mod seccomp;
pub mod seqpacket;
pub mod signal;
pub mod socket;
pub mod sysctl;
pub mod time;
pub mod title;
pub mod tty;
pub mod udev;
pub mod wait;
pub mod watchdog;

pub use error::{Context, Error, Result};
