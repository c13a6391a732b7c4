// SPDX-License-Identifier: Apache-2.0
//! Connections of the stream protocol: systemd-cat(1) and sd_journal_stream_fd(3). They are bounded
//! by sender, and outlive the daemon once their heading has come.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::net::sockopt;
use tokio::net::{UnixListener, UnixStream};

use super::desk::{Desk, Frames};
use super::entry::Entry;
use super::receive::HELD;
use super::sender::{Credentials, Sender};
use super::settle::{Reader, Settling};
use super::sockets::{Keep, Kept};
use super::stdout::Text;

/// Connections of the stream protocol; a quarter is the tenant `system`'s alone.
const CONNECTIONS: usize = 1000;
/// Of one unit, executable or user.
const OF_ONE: usize = 64;
/// Connections that wait to be taken are no more: as many as the library asks the kernel for, at
/// most.
const BACKLOG: usize = 4096;
/// Bytes of a read of a connection.
const PIECE: usize = 16 << 10;

/// Connections by account.
type Open = Rc<RefCell<HashMap<String, usize>>>;

/// A connection's place, until it is dropped.
struct Place {
    open: Open,
    account: String,
}

impl Place {
    fn take(open: &Open, sender: &Sender) -> Option<Place> {
        let account = sender.account();
        let mut counts = open.borrow_mut();
        let all: usize = counts.values().sum();
        let most = match sender.is_systems() {
            true => CONNECTIONS,
            false => CONNECTIONS / 4 * 3,
        };
        let own = counts.get(&account).copied().unwrap_or(0);
        if all >= most || own >= OF_ONE {
            return None;
        }
        counts.insert(account.clone(), own + 1);
        Some(Place {
            open: open.clone(),
            account,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.open.borrow_mut();
        if let Some(count) = counts.get_mut(&self.account) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.account);
            }
        }
    }
}

/// What connections have in common.
pub(super) struct Streams {
    open: Open,
    desk: Rc<Desk>,
    settling: Rc<Settling>,
    store: Arc<dyn Keep>,
}

impl Streams {
    pub(super) fn new(desk: Rc<Desk>, settling: Rc<Settling>, store: Arc<dyn Keep>) -> Streams {
        Streams {
            open: Open::default(),
            desk,
            settling,
            store,
        }
    }

    /// Goes on with the connections of an earlier daemon, and takes new ones.
    ///
    /// # Errors
    /// The listener can't be watched.
    pub(super) async fn run(
        self,
        listener: std::os::unix::net::UnixListener,
        left: Vec<Kept>,
    ) -> io::Result<()> {
        let listener = UnixListener::from_std(listener)?;
        let mut reader = self.settling.reader(BACKLOG);
        for kept in left {
            self.resume(kept).await;
        }
        loop {
            reader.look(&listener);
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = reader.asked() => continue,
            };
            reader.took(1);
            match accepted {
                Ok((stream, _)) => self.begin(stream, Text::default(), None).await,
                Err(error) => {
                    // Too many descriptors: others will be closed.
                    tracing::warn!(%error, "a connection to the journal can't be taken");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// One that an earlier daemon has left.
    async fn resume(&self, kept: Kept) {
        let stream = std::os::unix::net::UnixStream::from(kept.fd);
        match (UnixStream::from_std(stream), Text::resumed(&kept.name)) {
            (Ok(stream), Some(text)) => self.begin(stream, text, Some(kept.number)).await,
            _ => self.store.forget(kept.number).await,
        }
    }

    async fn begin(&self, stream: UnixStream, text: Text, kept: Option<u64>) {
        let Ok(sent) = sockopt::socket_peercred(stream.as_fd()) else {
            return;
        };
        let credentials = Credentials::from(sent);
        let sender = self.desk.sender(credentials).await;
        let Some(place) = Place::take(&self.open, &sender) else {
            self.desk.refused();
            if let Some(number) = kept {
                self.store.forget(number).await;
            }
            return;
        };
        let connection = Connection {
            stream,
            credentials,
            text,
            desk: self.desk.clone(),
            reader: self.settling.reader(HELD),
            keeping: Keeping {
                store: self.store.clone(),
                kept,
                was_tried: kept.is_some(),
            },
            _place: place,
        };
        tokio::task::spawn_local(connection.run());
    }
}

/// What is kept of a connection. Where the daemon ends before the connection does, it stays.
struct Keeping {
    store: Arc<dyn Keep>,
    kept: Option<u64>,
    was_tried: bool,
}

impl Keeping {
    /// Keeps it as soon as it is known what its lines mean. One that can't be kept ends with the
    /// daemon.
    async fn look(&mut self, stream: &UnixStream, text: &Text) {
        if self.was_tried {
            return;
        }
        let Some(name) = text.name() else { return };
        self.was_tried = true;
        if let Ok(fd) = stream.as_fd().try_clone_to_owned() {
            self.kept = self.store.keep(&name, fd).await.ok();
        }
    }

    async fn end(&mut self) {
        if let Some(number) = self.kept.take() {
            self.store.forget(number).await;
        }
    }
}

/// One connection. Who has connected is asked for anew with each piece: systemd-cat executes its
/// program after it has connected.
struct Connection {
    stream: UnixStream,
    credentials: Credentials,
    text: Text,
    desk: Rc<Desk>,
    reader: Reader,
    keeping: Keeping,
    _place: Place,
}

impl Connection {
    async fn run(mut self) {
        self.take_lines().await;
        self.keeping.end().await;
    }

    async fn take_lines(&mut self) {
        let mut buffer = vec![0; PIECE];
        let mut frames = Frames::default();
        loop {
            self.reader.look(&self.stream);
            let ready = tokio::select! {
                ready = self.stream.readable() => ready,
                () = self.reader.asked() => continue,
            };
            if ready.is_err() {
                break;
            }
            let piece = match self.stream.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => buffer.get(..read).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => break,
            };
            self.reader.took(piece.len());
            let Ok(entries) = self.text.take(piece) else {
                return self.desk.refused();
            };
            self.keeping.look(&self.stream, &self.text).await;
            let sender = self.desk.sender(self.credentials).await;
            for entry in entries {
                line(&self.desk, &sender, &entry, &mut frames);
                if frames.is_enough() {
                    self.desk.write(&mut frames).await;
                }
            }
            self.desk.write(&mut frames).await;
            tokio::task::yield_now().await;
        }
        if let Some(entry) = self.text.finish() {
            let sender = self.desk.sender(self.credentials).await;
            line(&self.desk, &sender, &entry, &mut frames);
            self.desk.write(&mut frames).await;
        }
    }
}

fn line(desk: &Desk, sender: &Sender, entry: &Entry, frames: &mut Frames) {
    if desk.admits(sender, entry.size(), frames) {
        desk.forward_entry(entry);
        desk.sign(entry, sender, "stdout", frames);
    }
}
