// SPDX-License-Identifier: Apache-2.0
//! The filters of a program's system calls, and the listener of the first one, where an agent
//! decides on some of them ([`Listening`]). Runs in the child alone ([`super::launch`]).
//!
//! The listener goes to the daemon, which knows the agent. Nothing of the cell's is between them:
//! the socket pair is the daemon's, and the cell-init has closed its copy of this end.

use std::os::fd::{AsFd, BorrowedFd};

use kernel::seccomp::{self, InstallOptions};
use kernel::{Error, seqpacket};
use rustix::io::Errno;

use super::launch::{Child, invalid};
use crate::failure::InStep;
use crate::protocol::{Failure, Launch, Listening, Step};

/// Installs what is asked for. Nothing that comes after is refused by the first one, so what the
/// profile says of the calls that hand the listener over counts for the program alone.
pub(super) fn install_filters(child: &Child<'_>, launch: &Launch) -> Result<(), Failure> {
    match (&launch.listener, child.listener) {
        (Some(listening), Some(daemon)) => listen(listening, daemon)?,
        (None, None) => {}
        _ => return Err(invalid(Step::Protocol, "half of a listener")),
    }
    if launch.seccomp.is_empty() {
        return Ok(());
    }
    seccomp::install(&launch.seccomp, launch.seccomp_log).step(Step::Seccomp)
}

fn listen(listening: &Listening, daemon: BorrowedFd<'_>) -> Result<(), Failure> {
    let options = InstallOptions {
        listener: true,
        wait_killable: listening.killable,
        ..InstallOptions::default()
    };
    let listener = seccomp::install_with(&listening.program, options).step(Step::Seccomp)?;
    let listener = listener.ok_or_else(|| invalid(Step::Seccomp, "no listener"))?;
    let hand_over = seqpacket::send(daemon, b"l", &[listener.as_fd()]);
    hand_over.step(Step::Listener)?;
    let mut word = [0; Listening::MAX_WORD];
    let heard = seqpacket::receive(daemon, &mut word).map_err(Error::from);
    let length = heard.step(Step::Listener)?.map_or(0, |heard| heard.length);
    match word.get(..length).and_then(<[u8]>::split_first) {
        Some((&Listening::GO_ON, _)) => Ok(()),
        Some((_, why)) => {
            let errno = Errno::CONNREFUSED.raw_os_error();
            let why = String::from_utf8_lossy(why).into_owned();
            Err(Failure::new(Step::Listener, errno, why))
        }
        None => Err(invalid(Step::Listener, "the daemon has ended")),
    }
}
