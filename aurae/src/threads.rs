// SPDX-License-Identifier: Apache-2.0
//! What a command runs on. Its own work is on the thread that it began with; what it is connected
//! by is looked after by a second one. So a pager that is not read, a terminal that is stopped or a
//! long piece of work holds up no answer to the node's question whether its client is still there,
//! after which the node would close the connection.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// The threads of a command.
///
/// # Errors
/// The kernel gives no descriptors for them.
pub(crate) fn runtime() -> io::Result<Runtime> {
    // Where a user may have no second one, the first does all: the library would panic.
    let second = std::thread::Builder::new().spawn(|| {});
    let mut builder = match second.map(|it| it.join()) {
        Ok(Ok(())) => Builder::new_multi_thread(),
        Ok(Err(_)) | Err(_) => Builder::new_current_thread(),
    };
    builder
        .worker_threads(1)
        .thread_name("connection")
        .enable_all()
        .build()
}
