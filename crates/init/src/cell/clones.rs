// SPDX-License-Identifier: Apache-2.0
//! Clones of the cell-init, the executables to be: in which pid namespace, with which OOM score.
//!
//! A cell-init is in the cell's pid namespace and stays there. The main process of a container is
//! PID 1 of a namespace inside of that; what is executed beside it enters its namespaces. All of
//! them are children of the cell-init, which is no process of theirs: it can be neither seen nor
//! signalled from there.

use std::os::fd::{AsFd, OwnedFd};

use kernel::clone::{self, Cloned};
use kernel::namespace::{self, Namespaces as Kinds};
use kernel::{Context, pidfd, process};
use rustix::io::Errno;

use super::Cell;
use super::room::Room;
use super::workload::State;
use crate::failure::InStep;
use crate::protocol::{Failure, Namespaces, Pids, Root, Step};

/// The pid namespace of an executable, and the mount namespace that goes with it.
pub(super) enum Inner {
    /// The cell's own.
    None,
    /// New ones.
    New,
    /// Those of the executable of this pidfd.
    Of(OwnedFd),
}

impl Inner {
    /// What a clone gets new.
    pub(super) fn to_be_new(&self) -> Kinds {
        match self {
            Inner::New => Kinds::PID | Kinds::MOUNT,
            Inner::None | Inner::Of(_) => Kinds::NONE,
        }
    }
}

impl Cell {
    /// The namespaces inside of the cell's that an executable is to be in.
    pub(super) fn inner(&mut self, room: &mut Room, pids: Pids) -> Result<Inner, Failure> {
        let refused =
            |errno: Errno, detail| Err(Failure::new(Step::Namespace, errno.raw_os_error(), detail));
        if self.root == Root::Node && pids != Pids::Cell {
            let detail =
                "a pid namespace of an executable's own needs another root than the node's";
            return refused(Errno::INVAL, detail);
        }
        let main = match pids {
            Pids::Cell => return Ok(Inner::None),
            Pids::New => return Ok(Inner::New),
            Pids::Of(main) => main,
        };
        if self.own.has(Namespaces::USER) && !self.own.has(Namespaces::PID) {
            let detail = "a cell with users of its own that shares the pid namespace can't enter \
                          another one and come back";
            return refused(Errno::INVAL, detail);
        }
        let Some(main) = room.workloads.find(main) else {
            return refused(
                Errno::SRCH,
                "the executable whose namespaces are to be entered",
            );
        };
        if main.pids != Pids::New {
            return refused(Errno::INVAL, "that executable has no namespaces of its own");
        }
        if !matches!(main.state, State::Running) {
            let detail = "the executable whose namespaces are to be entered doesn't run";
            return refused(Errno::SRCH, detail);
        }
        let main = main.pidfd.try_clone();
        main.call("dup").step(Step::Namespace).map(Inner::Of)
    }

    /// Clones in the pid namespace of another executable, where that is asked for. This process's
    /// own stays what it was; only its children's changes, and is changed back.
    pub(super) fn clone_among(
        &mut self,
        inner: &Inner,
        score: Option<i16>,
        options: clone::Options<'_>,
    ) -> Result<Cloned, Failure> {
        let home = || pidfd::open(process::id()).step(Step::Namespace);
        if self.away {
            namespace::join(home()?, Kinds::PID).step(Step::Namespace)?;
            self.away = false;
        }
        let Inner::Of(main) = inner else {
            return self.clone_with_score(score, options);
        };
        let home = home()?;
        namespace::join(main, Kinds::PID).step(Step::Namespace)?;
        let cloned = self.clone_with_score(score, options);
        if !matches!(cloned, Ok(Cloned::Child)) {
            // Where it fails, the next start tries again first.
            self.away = namespace::join(home, Kinds::PID).is_err();
        }
        cloned
    }

    /// Clones with an OOM score other than this process's own, which is 0: the child inherits it.
    /// So it never has to be dumpable, which it would have to be to write its own.
    fn clone_with_score(
        &self,
        score: Option<i16>,
        options: clone::Options<'_>,
    ) -> Result<Cloned, Failure> {
        let write = |value: i16| {
            let file = self.score.as_ref().map(AsFd::as_fd);
            let file = file.ok_or_else(|| {
                Failure::new(Step::Priority, Errno::BADF.raw_os_error(), "oom_score_adj")
            })?;
            let written = rustix::io::write(file, value.to_string().as_bytes());
            written.map(drop).map_err(|errno| {
                Failure::new(Step::Priority, errno.raw_os_error(), "oom_score_adj")
            })
        };
        let score = score.filter(|score| *score != 0);
        score.map_or(Ok(()), write)?;
        let cloned = clone::clone(options).step(Step::Clone);
        // The child has the descriptor, too, and the score that it is to keep.
        if score.is_some() && !matches!(cloned, Ok(Cloned::Child)) {
            write(0)?;
        }
        cloned
    }
}
