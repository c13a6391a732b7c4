// SPDX-License-Identifier: Apache-2.0
//! A record as a cell-init keeps it. A long one stays in the sealed memfd that the daemon has
//! written: it takes no memory of the init's, and is never looked at here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kernel::sealed;
use rustix::io::Errno;

use crate::failure::InStep;
use crate::protocol::{Failure, MAX_SEALED, Record, Step};

/// See the module.
pub(crate) enum KeptRecord {
    /// As it came in a packet.
    Here(Vec<u8>),
    /// The memfd, and its size in bytes.
    Beside(OwnedFd, usize),
}

impl KeptRecord {
    /// Takes a record, and its descriptor out of those of its packet.
    ///
    /// # Errors
    /// None came, or it isn't sealed or too long: a later daemon could not trust what it reads.
    pub(crate) fn take(record: Record, fds: &mut Vec<OwnedFd>) -> Result<KeptRecord, Failure> {
        match record {
            Record::Here(bytes) => Ok(KeptRecord::Here(bytes)),
            Record::Beside => {
                let missing = || {
                    let errno = Errno::BADF.raw_os_error();
                    Failure::new(Step::Protocol, errno, "no descriptor of a long record came")
                };
                let file = fds.pop().ok_or_else(missing)?;
                let size = sealed::size(&file, MAX_SEALED).step(Step::Protocol)?;
                Ok(KeptRecord::Beside(file, size))
            }
        }
    }

    /// As the protocol says it.
    pub(crate) fn say(&self) -> Record {
        match self {
            KeptRecord::Here(bytes) => Record::Here(bytes.clone()),
            KeptRecord::Beside(..) => Record::Beside,
        }
    }

    /// The descriptor that goes last with a packet that says it.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            KeptRecord::Here(_) => None,
            KeptRecord::Beside(file, _) => Some(file.as_fd()),
        }
    }

    /// Its length in bytes.
    pub(crate) fn length(&self) -> usize {
        match self {
            KeptRecord::Here(bytes) => bytes.len(),
            KeptRecord::Beside(_, size) => *size,
        }
    }
}
