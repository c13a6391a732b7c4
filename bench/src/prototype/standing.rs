// SPDX-License-Identifier: Apache-2.0
//! What the kernel alone takes for a run in a cell that stands: a group and two pipes are made, a
//! message takes them to an init, the init clones into the group, executes the program there, waits
//! and answers; the pipes are read to their end and the group is removed. No API, no policy, no
//! record, no log: the bound of row `run`.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result, anyhow, ensure};
use kernel::cgroup::Cgroup;
use kernel::clone::{Cloned, Options, clone};
use kernel::exec::Prepared;
use kernel::process;
use kernel::seqpacket::{self, Mode};
use kernel::wait::{Reap, Target, wait};
use rustix::pipe::PipeFlags;

use super::{ENDS, TIMEOUT, clone_init, end};
use crate::reference::PROGRAM;

/// The group of the program.
const LEAF: &str = "runs";

/// An init that runs one program after the other. It ends when this is dropped.
pub(crate) struct Standing {
    place: Cgroup,
    socket: OwnedFd,
}

impl Standing {
    /// Starts it beside the other inits of `place`.
    pub(crate) fn start(place: Cgroup) -> Result<Self> {
        let (socket, theirs) = seqpacket::pair(Mode::Blocking)?;
        match clone_init(&place)? {
            Cloned::Child => {
                drop(socket);
                end(serve(&theirs))
            }
            Cloned::Parent(..) => Ok(Self { place, socket }),
        }
    }

    /// Runs the program once, until nothing of it is left.
    pub(crate) fn run(&self) -> Result<()> {
        let leaf = self.place.create(LEAF)?.into_fd();
        let (out, output) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (err, errors) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let sent = [leaf.as_fd(), output.as_fd(), errors.as_fd()];
        seqpacket::send(&self.socket, b"run", &sent)?;
        drop((leaf, output, errors));
        let answer = seqpacket::receive(&self.socket, &mut [0; 8])?;
        answer.context("the prototype's init is gone (see above)")?;
        for pipe in [out, err] {
            let read = rustix::io::read(&pipe, &mut [0; 1])?;
            ensure!(read == 0, "the prototype's program printed something");
        }
        self.place.remove(LEAF, TIMEOUT)?;
        Ok(())
    }
}

/// The init's side, until the other one is closed.
fn serve(socket: &OwnedFd) -> Result<()> {
    let environment: [&str; 0] = [];
    let program = Prepared::new(&ENDS, &environment)?;
    let path = std::ffi::CString::new(PROGRAM)?;
    while let Some(packet) = seqpacket::receive(socket, &mut [0; 8])? {
        let sent = <[OwnedFd; 3]>::try_from(packet.fds);
        let [leaf, output, errors] = sent.map_err(|_| anyhow!("not three descriptors"))?;
        let options = Options {
            cgroup: Some(leaf.as_fd()),
            ..Options::default()
        };
        match clone(options)? {
            Cloned::Child => {
                rustix::stdio::dup2_stdout(&output)?;
                rustix::stdio::dup2_stderr(&errors)?;
                let failed = program.exec(&path).err();
                eprintln!("prototype: {failed:?}");
                process::exit(127)
            }
            Cloned::Parent(_, pidfd) => {
                drop((leaf, output, errors));
                wait(Target::PidFd(pidfd.as_fd()), Reap::Yes)?;
                seqpacket::send(socket, b"ended", &[])?;
            }
        }
    }
    Ok(())
}
