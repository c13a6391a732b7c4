// SPDX-License-Identifier: Apache-2.0
//! Tells a service manager that the calling daemon is ready (sd_notify(3)): a datagram to
//! `NOTIFY_SOCKET`.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use crate::{Context, Error, Result};

/// Sends `message` (`READY=1`, `STOPPING=1`, `STATUS=text`, several on lines of their own) to
/// `socket`, the value of `NOTIFY_SOCKET`: an absolute path, or `@name` for an abstract one. Never
/// waits.
///
/// # Errors
/// `EINVAL`: `socket` is neither a path nor `@name`, or is longer than 107 bytes. `ENOENT`,
/// `ECONNREFUSED`: no service manager listens there. `EACCES`: the caller may not write to it.
/// `EAGAIN`: its queue is full.
pub fn notify(socket: &OsStr, message: &str) -> Result<()> {
    let shown = Path::new(socket);
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(shown),
        _ => {
            return Err(Error::invalid(
                "notify",
                "NOTIFY_SOCKET is neither /PATH nor @NAME",
            ));
        }
    }
    .call_on("notify", shown)?;
    let from = UnixDatagram::unbound().call("socket")?;
    from.set_nonblocking(true).call("notify")?;
    from.send_to_addr(message.as_bytes(), &address)
        .call_on("sendto", shown)
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_sockets_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n");
        let name = format!("kernel-notify-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        let abstract_name = format!("@{name}");
        for (to, at) in [
            (path.as_os_str(), &by_path),
            (OsStr::new(&abstract_name), &by_name),
        ] {
            notify(to, "READY=1").unwrap();
            let mut buffer = [0; 16];
            let length = at.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1");
        }
        assert!(notify(OsStr::new("x"), "READY=1").is_err());
    }
}
