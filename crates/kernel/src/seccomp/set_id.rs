// SPDX-License-Identifier: Apache-2.0
//! No set-user-id or set-group-id bit on any file, by any call: rules to be put before a profile's
//! own.
//!
//! A mount of the node's that a cell may write is nosuid in the cell, but not on the node, where a
//! file with such a bit is a program of its owner for everybody. The bits are in the mode of
//! `chmod` and its kin, of `mknod`, and of `open` where it creates. `openat2` and `io_uring` hide
//! the mode behind a pointer: the first is refused as unknown, after which libraries take `openat`.
//! `mkdir` ignores the bits (its mode is cut to permissions and the sticky bit).

use super::{Action, Arch, Comparison, Condition, Rule};

const REFUSED: Action = Action::Errno(libc::EPERM as u16);
const UNKNOWN: Action = Action::Errno(libc::ENOSYS as u16);
/// Set-user-id and set-group-id.
const SET_ID: u64 = 0o6000;
/// `O_CREAT`, and the bit that `O_TMPFILE` has for itself.
const CREATING: u64 = libc::O_CREAT as u64 | (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64;

/// Calls with a mode, and which argument it is.
const MODES: [(&str, u8); 7] = [
    ("chmod", 1),
    ("fchmod", 1),
    ("fchmodat", 2),
    ("fchmodat2", 2),
    ("creat", 1),
    ("mknod", 1),
    ("mknodat", 2),
];
/// Calls that may create, with their flags and their mode.
const OPENS: [(&str, u8, u8); 2] = [("open", 1, 2), ("openat", 2, 3)];
const IO_URING: [&str; 3] = ["io_uring_setup", "io_uring_enter", "io_uring_register"];

/// The rules, for the machine's own calls.
pub fn no_set_id() -> Vec<Rule> {
    no_set_id_on(Arch::NATIVE)
}

/// The rules, for the calls of an architecture.
pub fn no_set_id_on(arch: Arch) -> Vec<Rule> {
    let there = |name: &str| arch.number(name).is_some();
    let any = |argument, mask| Condition {
        argument,
        mask,
        comparison: Comparison::NotEqual,
        value: 0,
    };
    let modes = MODES
        .into_iter()
        .filter(|(name, _)| there(name))
        .map(|(name, mode)| Rule::new(REFUSED, [name]).when(any(mode, SET_ID)));
    let opens = OPENS
        .into_iter()
        .filter(|(name, ..)| there(name))
        .map(|(name, flags, mode)| {
            Rule::new(REFUSED, [name])
                .when(any(flags, CREATING))
                .when(any(mode, SET_ID))
        });
    modes
        .chain(opens)
        .chain([
            Rule::new(UNKNOWN, ["openat2"].into_iter().filter(|name| there(name))),
            Rule::new(REFUSED, IO_URING.into_iter().filter(|name| there(name))),
        ])
        .collect()
}
