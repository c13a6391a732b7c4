// SPDX-License-Identifier: Apache-2.0
//! Whether the other end of a connection is still there, as the kernel knows it at this moment. A
//! message that is handed to HTTP/2 after the daemon has died is lost without an error, until the
//! task of the connection has run. A caller that can't send its message twice asks here first.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The socket under the connection in use; clones are about the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line(Arc<Mutex<Weak<OwnedFd>>>);

impl Line {
    /// Sets the socket. The value that is returned must live as long as the connection does.
    pub(crate) fn watch(&self, socket: &impl AsFd) -> std::io::Result<Arc<OwnedFd>> {
        let socket = Arc::new(socket.as_fd().try_clone_to_owned()?);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&socket);
        Ok(socket)
    }

    /// Whether the other end has hung up, or there is no connection.
    pub(crate) fn has_hung_up(&self) -> bool {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(socket) = socket.upgrade() else {
            return true;
        };
        let mut ask = [PollFd::new(&*socket, PollFlags::RDHUP)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match poll(&mut ask, Some(&now)) {
            Ok(_) => ask.iter().any(|asked| !asked.revents().is_empty()),
            // Not known: the next call on the connection finds out.
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_hang_up_is_known_at_once() {
        let line = Line::default();
        assert!(line.has_hung_up(), "there is no connection");
        let (ours, theirs) = UnixStream::pair().unwrap();
        let kept = line.watch(&ours).unwrap();
        assert!(!line.clone().has_hung_up());
        drop(theirs);
        assert!(line.has_hung_up());
        let (again, _theirs) = UnixStream::pair().unwrap();
        let _kept = line.watch(&again).unwrap();
        assert!(!line.has_hung_up());
        drop(kept);
    }

    #[test]
    fn watching_keeps_no_connection_open() {
        let line = Line::default();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let kept = line.watch(&ours).unwrap();
        drop((ours, kept));
        assert!(line.has_hung_up());
        let end = std::io::Read::read(&mut &theirs, &mut [0]).unwrap();
        assert_eq!(end, 0, "the other end sees the end");
    }
}
