// SPDX-License-Identifier: Apache-2.0
//! What a command runs on. Its own work is on the thread that it began with; what it is connected
//! by is looked after by a second one. So a pager that is not read, a terminal that is stopped or a
//! long piece of work holds up no answer to the node's question whether its client is still there,
//! after which the node would close the connection.
//!
//! A command that runs a program has one thread for all: the calls of a program begin in the order
//! in which it makes them, and a plan is compared by that.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// The threads of a command.
///
/// # Errors
/// The kernel gives no descriptors for them.
pub(crate) fn two() -> io::Result<Runtime> {
    // Where a user may have no second one, the first does all: the library would panic.
    let second = std::thread::Builder::new().spawn(|| {});
    match second.map(|it| it.join()) {
        Ok(Ok(())) => Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("connection")
            .enable_all()
            .build(),
        Ok(Err(_)) | Err(_) => one(),
    }
}

/// The thread of a command that runs a program.
///
/// # Errors
/// As [`two`].
pub(crate) fn one() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
