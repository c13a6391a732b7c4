// SPDX-License-Identifier: Apache-2.0
//! Why a cell was not made, in the words of the API: what may pass when it is tried again, what the
//! node can't do, what the spec asks too much of.

use std::time::Duration;

use ::init::protocol::{Failure, Step};
use model::error::{Error, Reason};
use rustix::io::Errno;

use crate::caller::given_up;
use crate::index::Key;
use crate::link::node::CreateError;

/// When a caller that met something that passes is to try again.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) fn not_made(error: CreateError, key: &Key) -> Error {
    let failed = match error {
        CreateError::Failed(failed) => failed,
        CreateError::GivenUp => return given_up(),
        CreateError::Gone => {
            return Error::new(
                Reason::ShuttingDown,
                "node-init is gone: no cell can be made",
            )
            .hint("try again when the node's daemon was started again");
        }
    };
    creation_failed(&failed).about("cell", key.path.to_string())
}

/// What another try may not meet: the spawner was busy or replaced, or what works at the cell was
/// killed or held up.
fn passing(failed: &Failure) -> Option<Error> {
    let (reason, hint) = match Errno::from_raw_os_error(failed.errno) {
        Errno::AGAIN => (
            Reason::LimitExceeded,
            "the node makes as many cells as it can, or the cell around it may have no more \
             processes: try again",
        ),
        Errno::CHILD | Errno::TIMEDOUT => (
            Reason::Internal,
            "try again; if it goes on, look at the cell's memory limit, and at what runs in the \
             cell around it",
        ),
        _ => return None,
    };
    let message = format!("the cell was not made: {}", failed.detail);
    let error = Error::new(reason, message).errno(failed.errno);
    Some(error.hint(hint).retry_after(AGAIN))
}

pub(super) fn creation_failed(failed: &Failure) -> Error {
    if failed.step == Step::Clone
        && let Some(error) = passing(failed)
    {
        return error;
    }
    let unsupported = |hint: &str| {
        let message = format!("the cell was not made: {}", crate::cell::start_said(failed));
        Error::new(Reason::Unsupported, message)
            .errno(failed.errno)
            .hint(hint)
    };
    match failed.step {
        Step::Attach if failed.errno == Errno::ROFS.raw_os_error() => {
            Error::new(Reason::Unsupported, failed.detail.clone())
                .errno(failed.errno)
                .field("cell.spec.mounts")
        }
        Step::Sysctl => unsupported(
            "before Linux 6.9 a cell may set parameters of the network alone; leave it out, or \
             give a value that the kernel takes",
        )
        .field("cell.spec.sysctls"),
        Step::Template | Step::Clone | Step::Namespace => unsupported(
            "the node can't make isolated cells as it runs now (`aurae node info` says why); share \
             the namespaces it can't make, or run auraed where /proc is not masked",
        ),
        Step::Attach | Step::Mount => unsupported("check the mounts and volumes of the cell"),
        _ => crate::cell::start_failure("the cell was not made", failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_to_be_tried_again_and_what_the_node_lacks_is_not() {
        let failed = |errno: Errno| {
            creation_failed(&Failure {
                step: Step::Clone,
                errno: errno.raw_os_error(),
                detail: "why".into(),
            })
        };
        for errno in [Errno::AGAIN, Errno::CHILD, Errno::TIMEDOUT] {
            let error = failed(errno);
            assert_ne!(error.reason, Reason::Unsupported);
            assert_eq!(error.retry_after, Some(AGAIN));
            assert_eq!(error.errno, Some(errno.raw_os_error()));
        }
        let error = failed(Errno::PERM);
        assert_eq!(
            (error.reason, error.retry_after),
            (Reason::Unsupported, None)
        );
    }
}
