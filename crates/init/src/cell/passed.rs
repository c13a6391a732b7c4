// SPDX-License-Identifier: Apache-2.0
//! The descriptors that a program gets from 3 on, and the variables that tell it of them
//! (sd_listen_fds(3)). Runs in the child alone ([`super::launch`]).

use std::os::fd::{AsFd, OwnedFd, RawFd};

use kernel::process;

use crate::failure::InStep;
use crate::protocol::{Failure, Launch, MAX_PASSED, Step};

/// The first one (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;
/// Above every number that one of them gets.
pub(super) const ABOVE: RawFd = FIRST + MAX_PASSED as RawFd;

/// Copies that are out of the way of the numbers that they will have.
pub(super) fn aside(passed: &[OwnedFd]) -> Result<Vec<OwnedFd>, Failure> {
    let copy = |fd: &OwnedFd| process::duplicate_above(fd.as_fd(), ABOVE).step(Step::Open);
    passed.iter().map(copy).collect()
}

/// Puts them in their places. Answers the first number behind them.
pub(super) fn place(copies: Vec<OwnedFd>, nonblocking: bool) -> Result<RawFd, Failure> {
    let mut number = FIRST;
    for copy in copies {
        if nonblocking {
            rustix::io::ioctl_fionbio(&copy, true)
                .map_err(|errno| kernel::Error::new("ioctl(FIONBIO)", errno))
                .step(Step::Open)?;
        }
        process::place_fd(copy.as_fd(), number).step(Step::Open)?;
        number += 1;
    }
    Ok(number)
}

/// What the environment says of them, and of the process itself: names and values. What was there
/// of these names counts no more.
pub(super) fn variables(launch: &Launch) -> Vec<(Vec<u8>, Vec<u8>)> {
    let own = process::id().to_string().into_bytes();
    let mut variables = Vec::new();
    if !launch.names.is_empty() {
        let count = launch.names.len().to_string().into_bytes();
        let names = launch.names.join(":").into_bytes();
        variables.push((b"LISTEN_FDS".to_vec(), count));
        variables.push((b"LISTEN_PID".to_vec(), own.clone()));
        variables.push((b"LISTEN_FDNAMES".to_vec(), names));
    }
    let of_pid = launch.pid_env.iter();
    variables.extend(of_pid.map(|name| (name.clone().into_bytes(), own.clone())));
    variables
}
