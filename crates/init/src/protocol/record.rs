// SPDX-License-Identifier: Apache-2.0
//! The daemon's records of cells and executables on their way to an init and back. What they say is
//! the daemon's business; an init keeps them, and gives them to each new daemon.

#[cfg(doc)]
use super::{MAX_RECORD, MAX_SEALED};

/// A record, opaque to the inits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// In the packet; at most [`MAX_RECORD`] bytes.
    Here(Vec<u8>),
    /// Longer: a sealed memfd of at most [`MAX_SEALED`] bytes. It is the last descriptor of the
    /// packet, whatever the others are.
    Beside,
}

impl From<Vec<u8>> for Record {
    fn from(bytes: Vec<u8>) -> Record {
        Record::Here(bytes)
    }
}
