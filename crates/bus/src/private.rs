// SPDX-License-Identifier: Apache-2.0
//! `/run/systemd/private`: a socket without a bus, for uid 0 by the kernel's word. `systemctl` of
//! root speaks to it, also where no bus runs.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use identity::SocketCredentials;
use tokio::io::BufReader;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::serve::{Caller, Service};
use crate::wire::message::Kind;
use crate::wire::outbox::Outbox;
use crate::wire::{auth, next};

/// Connections at the same time.
const MOST: usize = 64;
/// After an accept that failed, for want of descriptors: the kernel doesn't say when there are some
/// again.
const AGAIN: Duration = Duration::from_millis(100);

/// Listens as long as it is polled.
pub(crate) async fn listen(path: &Path, service: Arc<Service>) {
    let listener = match bind(path) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "systemctl of others is not served");
            return;
        }
    };
    let mut connections = JoinSet::new();
    let mut number = 0_u64;
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MOST => match accepted {
                Ok((stream, _)) => {
                    number += 1;
                    connections.spawn(connection(stream, number, service.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a client of the private socket is not taken");
                    tokio::time::sleep(AGAIN).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Makes the socket anew: no process listens on one that an earlier daemon has left.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    if std::fs::symlink_metadata(path).is_ok() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn connection(stream: UnixStream, number: u64, service: Arc<Service>) {
    let ended = serve(stream, number, &service).await;
    service.told().private.remove(&number);
    if let Err(error) = ended
        && error.kind() != io::ErrorKind::UnexpectedEof
    {
        tracing::debug!(%error, "a client of the private socket");
    }
}

async fn serve(stream: UnixStream, number: u64, service: &Service) -> io::Result<()> {
    let credentials = stream.peer_cred()?;
    let process = SocketCredentials {
        uid: credentials.uid(),
        pid: credentials.pid().unwrap_or(0),
    };
    if process.uid != 0 {
        tracing::warn!(?process, "the private socket is for root alone");
        return Ok(());
    }
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    let guid = format!("{number:032x}");
    auth::serve(&mut from, &mut to, process.uid, &guid).await?;
    let (outbox, mut over) = Outbox::new(to);
    service.told().private.insert(number, outbox.clone());
    let caller = Caller {
        process,
        how: "/run/systemd/private",
        name: number.to_string(),
    };
    loop {
        let message = tokio::select! {
            message = next(&mut from) => message?,
            _ = over.wait_for(|over| *over) => return Ok(()),
        };
        if message.kind != Kind::Call {
            continue;
        }
        let answer = service.answer(&caller, &message).await;
        if message.wants_reply() {
            outbox.send(&answer);
        }
    }
}
