// SPDX-License-Identifier: Apache-2.0
//! The daemon's own words: what it logs is in the journal, too, and goes to rsyslog, as what
//! systemd's PID 1 says does. The daemon's log is the caller, by a [`Speaker`].
//!
//! Who speaks never waits. The queue is bounded; what finds no room is counted and told as journald
//! tells of suppressed messages. What is said before the sockets are there is kept in the queue. A
//! thread that the journal is stored by says nothing here: a log that can't be written would tell
//! that to itself without end.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::desk::{Desk, Frames};
use super::entry::Entry;
use super::sender::Credentials;

/// Words that wait: some seconds of a start of a node with many cells.
const WAITING: usize = 1024;
/// A message is cut to so many bytes: a log line has no bound of its own.
const LONGEST: usize = 16 << 10;
/// What the journal calls the daemon.
const NAME: &str = "auraed";
/// Threads that have a part in storing the journal: its own, and those of the logs.
const STORING: [&str; 4] = ["journal", "log-mover", "log-keep", "log-sync"];

/// One message.
#[derive(Debug)]
struct Word {
    /// As of syslog(3).
    priority: u8,
    message: Vec<u8>,
}

/// Says something. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Speaker {
    words: mpsc::Sender<Word>,
    lost: Arc<AtomicU64>,
}

/// What was said, for the journal. Dropped where there is none.
#[derive(Debug)]
pub struct Words {
    words: mpsc::Receiver<Word>,
    lost: Arc<AtomicU64>,
}

/// Both ends of the queue.
pub fn own_words() -> (Speaker, Words) {
    let (speaks, words) = mpsc::channel(WAITING);
    let lost = Arc::new(AtomicU64::new(0));
    let speaker = Speaker {
        words: speaks,
        lost: lost.clone(),
    };
    (speaker, Words { words, lost })
}

impl Speaker {
    /// Says it, with a priority as of syslog(3): 0 is the most urgent, 7 the least.
    pub fn say(&self, priority: u8, message: &[u8]) {
        let stores = std::thread::current()
            .name()
            .is_some_and(|name| STORING.contains(&name));
        if stores || self.words.is_closed() {
            return;
        }
        let message = message.get(..LONGEST).unwrap_or(message).to_vec();
        if self.words.try_send(Word { priority, message }).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Takes words for as long as the journal is there.
pub(super) async fn run(mut own: Words, desk: Rc<Desk>) {
    let mut frames = Frames::default();
    while let Some(word) = own.words.recv().await {
        put(&word, &desk, &mut frames).await;
        while !frames.is_enough()
            && let Ok(word) = own.words.try_recv()
        {
            put(&word, &desk, &mut frames).await;
        }
        let lost = own.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let message = format!("Suppressed {lost} messages from {NAME}").into_bytes();
            let priority = 4;
            put(&Word { priority, message }, &desk, &mut frames).await;
        }
        desk.write(&mut frames).await;
    }
}

/// As the kernel would say of this process.
fn own_credentials() -> Credentials {
    Credentials {
        pid: std::process::id(),
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
    }
}

/// Its transport is the one of journald's own messages: no sender can have that.
async fn put(word: &Word, desk: &Desk, frames: &mut Frames) {
    let sender = desk.sender(own_credentials()).await;
    // What a tenant makes the daemon say is bounded as what it says itself.
    if !desk.admits(&sender, word.message.len(), frames) {
        return;
    }
    let mut entry = Entry::default();
    entry.put("PRIORITY", word.priority.to_string());
    // Facility `daemon`.
    entry.put("SYSLOG_FACILITY", "3");
    entry.put("SYSLOG_IDENTIFIER", NAME);
    entry.put("MESSAGE", word.message.clone());
    desk.sign(&entry, &sender, "driver", frames);
    desk.forward_entry(&entry);
}
