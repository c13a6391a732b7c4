// SPDX-License-Identifier: Apache-2.0
//! What a hostile tenant runs in its cell: each attack is a program of its own (`--attack`) that
//! takes as much of one thing as the node gives it, and never ends by itself.
//!
//! `kernel` has those that need nothing but system calls; they run under systemd, too. `calls` has
//! those that call the node's API as the hostile tenant's user, from within its cell. Who starts
//! them, and what they do to a neighbour, is `rows::neighbour`'s; `evidence` tells it what an
//! attack has done.

mod calls;
mod evidence;
mod kernel;

pub(crate) use calls::CELL;
pub(crate) use evidence::Told;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::subject::Subject;
use evidence::Done;

/// What is taken too much of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Attack {
    /// Processes, each of which starts more of them.
    Forks,
    /// Memory, page by page.
    Memory,
    /// Every processor, with more threads than there are.
    Cpu,
    /// A file in a file system in memory.
    Tmpfs,
    /// A file on the disk, written and synced.
    Io,
    /// A thousand readers of one log that is written to.
    Streams,
    /// Cells in a cell that has a hundredth of a processor.
    Creations,
    /// Requests, large ones and such with large answers.
    Requests,
}

/// What an attack is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// Where an attack on a file system writes
    #[arg(long, hide = true, default_value = "/tmp")]
    folder: PathBuf,
    /// The folder of ca.pem, user.pem and user.key of who attacks through the API
    #[arg(long, hide = true, default_value = "/run/bench-user")]
    user: PathBuf,
    /// The file that an attack tells what it has done
    #[arg(long, hide = true)]
    evidence: Option<PathBuf>,
}

impl Attack {
    /// All of them, the order of the table.
    pub(crate) const ALL: [Self; 8] = [
        Self::Forks,
        Self::Memory,
        Self::Cpu,
        Self::Tmpfs,
        Self::Io,
        Self::Streams,
        Self::Creations,
        Self::Requests,
    ];

    /// As it is written on the command line and in the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Forks => "forks",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Tmpfs => "tmpfs",
            Self::Io => "io",
            Self::Streams => "streams",
            Self::Creations => "creations",
            Self::Requests => "requests",
        }
    }

    /// Whether it goes through the API. The others are held by the kernel's controllers alone.
    pub(crate) const fn is_by_calls(self) -> bool {
        matches!(self, Self::Streams | Self::Creations | Self::Requests)
    }
}

/// Is the attack. Returns only where it can't go on.
pub(crate) fn run(attack: Attack, socket: &Path, place: &Place) -> Result<()> {
    let done = Done::told_in(place.evidence.as_deref())?;
    match attack {
        Attack::Forks => kernel::forks(&done),
        Attack::Memory => kernel::memory(&done),
        Attack::Cpu => kernel::cpu(&done),
        Attack::Tmpfs => kernel::fill(&place.folder, &done),
        Attack::Io => kernel::write(&place.folder, &done),
        Attack::Streams | Attack::Creations | Attack::Requests => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let connect = || Subject::connect_user(socket, &place.user);
                match attack {
                    Attack::Streams => calls::streams(connect, &done).await,
                    Attack::Creations => calls::creations(connect().await?, &done).await,
                    _ => calls::requests(connect, &done).await,
                }
                .context(attack.name())
            })
        }
    }
}
