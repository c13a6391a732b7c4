// SPDX-License-Identifier: Apache-2.0
//! The way to the syslog: datagrams to systemd's socket for it. It waits while the syslog is
//! behind, also while it isn't running and its socket unit holds the socket; where there is no
//! socket, what comes goes nowhere.

use std::path::PathBuf;

use rustix::io::Errno;
use tokio::net::UnixDatagram;
use tokio::sync::mpsc;

/// Passes messages on until there are no more.
pub(super) async fn pass_on(mut messages: mpsc::Receiver<Vec<u8>>, to: PathBuf) {
    let mut connection = None;
    while let Some(message) = messages.recv().await {
        // A connection may be to a socket that is gone: then to the one that is there now.
        let was_connected = connection.is_some();
        if !send(&mut connection, &message, &to).await && was_connected {
            send(&mut connection, &message, &to).await;
        }
    }
}

/// Whether it was sent. A connection to what is gone is given up.
async fn send(connection: &mut Option<UnixDatagram>, message: &[u8], to: &PathBuf) -> bool {
    let socket = match connection {
        Some(socket) => socket,
        None => match connect(to) {
            Ok(socket) => connection.insert(socket),
            Err(_) => return false,
        },
    };
    match socket.send(message).await {
        Ok(_) => true,
        // Too long for the socket's buffer; the next ones may not be.
        Err(error) if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) => true,
        Err(_) => {
            *connection = None;
            false
        }
    }
}

fn connect(to: &PathBuf) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(to)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::time::Duration;

    use super::*;

    async fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = vec![0; 100];
        let received = tokio::time::timeout(Duration::from_secs(60), socket.recv(&mut buffer));
        let length = received.await.unwrap().unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[tokio::test]
    async fn what_has_no_socket_goes_nowhere_and_a_slow_one_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("syslog");
        let (says, messages) = mpsc::channel(1);
        let passed = tokio::spawn(pass_on(messages, to.clone()));
        says.send(b"unheard".to_vec()).await.unwrap();
        // Taken, which is all that can be seen of it.
        says.reserve().await.unwrap();
        let first = loop {
            // Bound once the message before is gone.
            if says.capacity() == 1 {
                break UnixDatagram::bind(&to).unwrap();
            }
            tokio::task::yield_now().await;
        };
        let count = 2000;
        let sends = tokio::spawn(async move {
            for number in 0..count {
                says.send(number.to_string().into_bytes()).await.unwrap();
            }
            says
        });
        // More than the socket holds, none of them lost.
        for number in 0..count {
            let mut said = heard(&first).await;
            if said == "unheard" {
                said = heard(&first).await;
            }
            assert_eq!(said, number.to_string());
        }
        let says = sends.await.unwrap();
        // Not just closed: a program that another test begins at this moment has it, too, until
        // it is executed, and what is sent meanwhile is lost with it.
        first.shutdown(Shutdown::Both).unwrap();
        drop(first);
        std::fs::remove_file(&to).unwrap();
        let next = UnixDatagram::bind(&to).unwrap();
        says.send(b"again".to_vec()).await.unwrap();
        assert_eq!(heard(&next).await, "again");
        drop(says);
        passed.await.unwrap();
    }
}
