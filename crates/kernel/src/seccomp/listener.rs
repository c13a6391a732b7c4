// SPDX-License-Identifier: Apache-2.0
//! The other side of a filter with [`super::Action::Notify`]: an agent hears of calls and says what
//! becomes of them (seccomp_unotify(2)). Agents are programs of a node's administrator, not of the
//! node: who calls this are tests of those who hand listeners over.

use std::os::fd::{AsFd, AsRawFd};

use crate::Result;
use crate::error::check;

/// A call that waits for a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Which one; the answer names it.
    pub id: u64,
    /// The calling thread, in the reader's pid namespace; 0 where that doesn't show it.
    pub pid: u32,
    /// The call's number.
    pub number: i32,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// The kernel carries it out. No guard: the arguments may have changed since they were read.
    GoOn,
    /// It fails with this errno.
    Fail(i32),
}

/// `struct seccomp_notif`.
#[repr(C)]
#[derive(Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`: `_IOWR('!', 0 and 1, …)`.
const RECEIVE: libc::Ioctl = request(0, size_of::<Notification>());
const SEND: libc::Ioctl = request(1, size_of::<Answer>());
/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`.
const CONTINUE: u32 = 1;

const fn request(number: u64, size: usize) -> libc::Ioctl {
    (3 << 30 | (size as u64) << 16 | (b'!' as u64) << 8 | number) as libc::Ioctl
}

/// Waits for the next call.
///
/// # Errors
/// `ENOENT`: the caller was killed meanwhile. `EINTR`: a signal came.
pub fn receive(listener: impl AsFd) -> Result<Call> {
    let mut heard = Notification::default();
    // SAFETY: the structure has the kernel's layout, is zeroed as the call wants it, and lives
    // during the call, which writes it.
    let result = unsafe { libc::ioctl(listener.as_fd().as_raw_fd(), RECEIVE, &raw mut heard) };
    check("ioctl(SECCOMP_IOCTL_NOTIF_RECV)", result.into())?;
    Ok(Call {
        id: heard.id,
        pid: heard.pid,
        number: heard.number,
        arguments: heard.arguments,
    })
}

/// Says what becomes of one.
///
/// # Errors
/// `ENOENT`: its caller is gone.
pub fn answer(listener: impl AsFd, id: u64, word: Word) -> Result<()> {
    let answer = Answer {
        id,
        value: 0,
        error: match word {
            Word::GoOn => 0,
            Word::Fail(errno) => -errno,
        },
        flags: match word {
            Word::GoOn => CONTINUE,
            Word::Fail(_) => 0,
        },
    };
    // SAFETY: the structure has the kernel's layout and lives during the call, which reads it.
    let result = unsafe { libc::ioctl(listener.as_fd().as_raw_fd(), SEND, &raw const answer) };
    check("ioctl(SECCOMP_IOCTL_NOTIF_SEND)", result.into()).map(drop)
}
