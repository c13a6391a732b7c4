// SPDX-License-Identifier: Apache-2.0
//! TypeScript's own compiler, where it is on the machine: which one it is ([`find`]), what it says
//! of a program ([`Compiler::findings`]), and which findings of ours stand beside it ([`decide`]).
//! It decides what is general to TypeScript; what the node's schema makes certain stays ours. It is
//! a process of its own, bounded in time and memory, and is given programs as text: nothing is
//! written beside them, and no program is run. Called by `aurae check` and by the editors' server.

use std::path::{Path, PathBuf};

mod ask;
pub mod decide;
mod find;
mod project;
mod watch;

pub use find::{NotFound, find};
pub(crate) use project::{Files, write_project};
pub(crate) use watch::confine;

/// The oldest that is asked: the first native one, whose defaults our declarations are made for.
pub const OLDEST: u32 = 7;

/// The variable that names a compiler, before every other.
pub const VARIABLE: &str = "AURAE_TSC";

/// A compiler that was found and is new enough.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: PathBuf,
    version: String,
}

impl Compiler {
    /// The file that is executed.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// As it says it: `7.0.2`.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Why a compiler that is there gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The folder with the types can't be written, or the compiler can't be started or read.
    #[error("{what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// It took longer than it is given.
    #[error("it gave no answer within {0} s")]
    TooLong(u64),
    /// It failed without a finding.
    #[error("it failed: {0}")]
    Failed(String),
    /// Our own declarations are broken.
    #[error("{0}")]
    Types(String),
}
