// SPDX-License-Identifier: Apache-2.0
//! Programs of the node's administrator that the daemon runs for a moment, as root and in the
//! node's namespaces: plugins of CNI (`net::cni`) and hooks of containers (`auraed::hooks`).
//!
//! One run of one program: a bounded text on its standard input, bounded words from it, a bound in
//! time, and where the node has cgroups a group of its own with bounds of memory and processes, so
//! that nothing of it lives on. What is run, for whom, and what its words mean is the caller's.
//! Workloads are none of these: they have cells.

mod apart;
mod run;

pub use apart::{Apart, group};
pub use run::{Program, Said};

use std::path::{Path, PathBuf};

/// What programs that run others find them by.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a program did not come to an end of its own.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It took too long and was killed.
    #[error("no end within {seconds} s; it was killed")]
    Timeout {
        /// How long it had.
        seconds: u64,
    },
    /// A file, a program or a group can't be worked with.
    #[error("{}: {what}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    fn io(path: &Path, what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Error::Io { path, what, source }
    }
}
