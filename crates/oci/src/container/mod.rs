// SPDX-License-Identifier: Apache-2.0
//! A container: its processes, from the clone to the exec, and what is kept of it.
//!
//! * [`create`]: the runtime's part; [`life`]: the container's process's part; [`talk`]: between
//!   them. * [`exec`]: one more process. * [`namespaces`], [`maps`], [`user`], [`seccomp`],
//!   [`console`], [`program`], [`hooks`], [`memory_policy`], [`net_devices`]: one subject each.
//! * [`state`]: the folder in `--root`. * [`foreground`]: a process that a command stands by.

pub(crate) mod console;
pub(crate) mod create;
pub(crate) mod exec;
pub(crate) mod foreground;
pub(crate) mod hooks;
pub(crate) mod life;
pub(crate) mod maps;
pub(crate) mod memory_policy;
pub(crate) mod namespaces;
pub(crate) mod net_devices;
pub(crate) mod program;
pub(crate) mod seccomp;
pub(crate) mod state;
pub(crate) mod talk;
pub(crate) mod user;
