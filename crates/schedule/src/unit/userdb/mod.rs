// SPDX-License-Identifier: Apache-2.0
//! `io.systemd.DynamicUser`: the socket by which every program of the machine learns the names of
//! dynamic users (nss-systemd(8), "User/Group Record Lookup API via Varlink"). Started by
//! [`super::handle`] where the machine is the node's.
//!
//! What is answered is read from the links beside the users' locks ([`super::dynamic`]), and never
//! asked of the unit manager: that waits for programs (generators) which may look up users
//! themselves. While there is no daemon the socket refuses, and programs go on without.

mod answer;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use answer::answer;

/// Where programs look for it.
pub(super) const SOCKET: &str = "/run/systemd/userdb/io.systemd.DynamicUser";
/// Clients at the same time; a user that isn't root has so many of them.
const MOST: usize = 128;
const MOST_OF_USER: usize = 16;
/// The longest call, in bytes.
const LONGEST: u64 = 4 << 10;
/// How long a client may take for a call, and to read its answer.
const SLOWEST: Duration = Duration::from_secs(5);
/// After an accept that failed, for want of descriptors.
const AGAIN: Duration = Duration::from_millis(100);

/// Answers as long as it is polled.
pub(super) async fn serve(socket: &Path, users: PathBuf) {
    let listener = match bind(socket) {
        Ok(listener) => listener,
        Err(error) => {
            let path = socket.display();
            tracing::error!(%path, %error, "names of dynamic users are not told");
            return;
        }
    };
    let counts = Counts::default();
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if clients.len() < MOST => match accepted {
                Ok((stream, _)) => {
                    // One too many is closed: its program goes on without these names.
                    if let Some(place) = counts.take(&stream) {
                        clients.spawn(client(stream, users.clone(), place));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a program that asks for a user is not taken");
                    tokio::time::sleep(AGAIN).await;
                }
            },
            Some(_) = clients.join_next() => {}
        }
    }
}

/// Makes the socket anew: what an earlier daemon has left has no process behind it.
fn bind(socket: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = socket.parent() {
        std::fs::create_dir_all(folder)?;
    }
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// How many clients each user has.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<u32, usize>>>);

/// One of them; it is given back when it goes.
struct Place(Counts, u32);

impl Counts {
    /// `None`: the user has too many, or isn't known.
    fn take(&self, stream: &UnixStream) -> Option<Place> {
        let uid = stream.peer_cred().ok()?.uid();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(uid).or_default();
        if uid != 0 && *count >= MOST_OF_USER {
            return None;
        }
        *count += 1;
        Some(Place(self.clone(), uid))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Place(Counts(counts), uid) = self;
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(uid) {
            *count -= 1;
            if *count == 0 {
                counts.remove(uid);
            }
        }
    }
}

async fn client(stream: UnixStream, users: PathBuf, _place: Place) {
    if let Err(error) = talk(stream, users).await {
        tracing::debug!(%error, "a program that asks for users");
    }
}

/// Calls and answers, each with a zero behind it, until the client has no more.
async fn talk(stream: UnixStream, users: PathBuf) -> io::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    loop {
        let mut call = Vec::new();
        let mut bounded = (&mut from).take(LONGEST);
        let read = bounded.read_until(0, &mut call);
        tokio::time::timeout(SLOWEST, read).await??;
        if call.is_empty() {
            return Ok(());
        }
        if call.pop() != Some(0) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let folder = users.clone();
        let answers = tokio::task::spawn_blocking(move || answer(&call, &folder));
        let Some(answers) = answers.await? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let bytes: Vec<u8> = answers.iter().flat_map(framed).collect();
        tokio::time::timeout(SLOWEST, to.write_all(&bytes)).await??;
    }
}

fn framed(answer: &serde_json::Value) -> Vec<u8> {
    let mut bytes = answer.to_string().into_bytes();
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(stream: &mut UnixStream, call: &str) -> String {
        stream.write_all(call.as_bytes()).await.unwrap();
        stream.write_all(&[0]).await.unwrap();
        let mut answer = Vec::new();
        BufReader::new(stream)
            .read_until(0, &mut answer)
            .await
            .unwrap();
        answer.pop();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn names_are_told_to_all_and_no_client_may_have_all_places() {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("users");
        std::fs::create_dir(&users).unwrap();
        std::os::unix::fs::symlink("61200", users.join("direct:web")).unwrap();
        std::os::unix::fs::symlink("web", users.join("direct:61200")).unwrap();
        let socket = folder.path().join("userdb/io.systemd.DynamicUser");
        let server = (socket.clone(), users);
        let task = tokio::spawn(async move { serve(&server.0, server.1).await });
        let mut stream = loop {
            match UnixStream::connect(&socket).await {
                Ok(stream) => break stream,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
        let call = r#"{"method":"io.systemd.UserDatabase.GetUserRecord","parameters":{"service":"io.systemd.DynamicUser","userName":"web"}}"#;
        // Several on one connection.
        for _ in 0..2 {
            let answer = ask(&mut stream, call).await;
            assert!(answer.contains("\"uid\":61200"), "{answer}");
        }
        // What is no call ends the conversation.
        assert_eq!(ask(&mut stream, "nonsense").await, "");
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        let long = "x".repeat(5_000);
        // The connection may be closed before all is written.
        let _ = stream.write_all(long.as_bytes()).await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert_eq!(rest, b"");
        task.abort();
    }

    #[test]
    fn a_place_is_given_back() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (near, _far) = UnixStream::pair().unwrap();
            let counts = Counts::default();
            let place = counts.take(&near).unwrap();
            assert_eq!(counts.0.lock().unwrap().len(), 1);
            drop(place);
            assert!(counts.0.lock().unwrap().is_empty());
        });
    }
}
