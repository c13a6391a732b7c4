// SPDX-License-Identifier: Apache-2.0
//! Where entries of all protocols come together: they are counted, signed with what is known of
//! their senders, framed and written to the journal's log; and passed on to rsyslog's socket, where
//! there is one. Used by the tasks of one thread.

use std::cell::{Cell, RefCell};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::time::Timestamp;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use super::entry::Entry;
use super::frame;
use super::limit::{Limiter, RateLimit, Verdict};
use super::sender::{Credentials, Sender, Senders};

/// systemd's id of messages that tell of suppressed ones (sd-messages(3)).
const DROPPED: &str = "a596d6fe7bfa4994828e72309e95d61e";

/// See the module.
pub(super) struct Desk {
    senders: Mutex<Senders>,
    limiter: RefCell<Limiter>,
    /// The log's end. Who waits for it waits for the mover.
    log: Mutex<pipe::Sender>,
    boot_id: String,
    host: RefCell<String>,
    forward: Option<Forward>,
    refused: Cell<u64>,
}

/// rsyslog's socket.
struct Forward {
    socket: UnixDatagram,
    to: PathBuf,
}

impl Forward {
    fn to(to: PathBuf) -> Option<Forward> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Forward { socket, to })
    }
}

impl Desk {
    pub(super) fn new(
        senders: Senders,
        limit: RateLimit,
        log: pipe::Sender,
        boot_id: String,
        forward: Option<PathBuf>,
    ) -> Desk {
        Desk {
            senders: Mutex::new(senders),
            limiter: RefCell::new(Limiter::new(limit)),
            log: Mutex::new(log),
            boot_id,
            host: RefCell::new(host()),
            forward: forward.and_then(Forward::to),
            refused: Cell::new(0),
        }
    }

    pub(super) async fn sender(&self, credentials: Credentials) -> Arc<Sender> {
        self.senders.lock().await.of(credentials, clock()).await
    }

    /// Something came that can't be taken.
    pub(super) fn refused(&self) {
        let count = self.refused.get().saturating_add(1);
        self.refused.set(count);
        // Once for each power of two: the sender can send a lot.
        if count.is_power_of_two() {
            tracing::warn!(count, "messages to the journal were refused");
        }
    }

    /// Whether the sender may say that much now. What it lost before is told first.
    pub(super) async fn admits(&self, sender: &Arc<Sender>, bytes: usize) -> bool {
        let (who, system) = (sender.account(), sender.is_systems());
        let verdict = self.limiter.borrow_mut().take(&who, system, bytes, clock());
        match verdict {
            Verdict::Suppressed => false,
            Verdict::Taken { after: 0 } => true,
            Verdict::Taken { after } => {
                let mut entry = Entry::default();
                entry.put("PRIORITY", "4");
                entry.put("SYSLOG_IDENTIFIER", "auraed");
                entry.put("MESSAGE_ID", DROPPED);
                entry.put("N_DROPPED", after.to_string());
                entry.put("MESSAGE", format!("Suppressed {after} messages from {who}"));
                self.keep(entry, sender, "driver").await;
                true
            }
        }
    }

    /// Signs an entry and writes it.
    pub(super) async fn keep(&self, mut entry: Entry, sender: &Sender, transport: &str) {
        sender.sign(&mut entry);
        entry.put("_TRANSPORT", transport);
        self.write(entry).await;
    }

    /// Writes an entry. It waits while the mover is behind, and with it everybody who sends: that
    /// is the bound of what is held.
    pub(super) async fn write(&self, mut entry: Entry) {
        entry.time = Timestamp(kernel::time::realtime_ns());
        entry.put("_BOOT_ID", self.boot_id.clone());
        entry.put("_HOSTNAME", self.host.borrow().clone());
        let frame = frame::encode(&entry);
        if let Err(error) = self.log.lock().await.write_all(&frame).await {
            tracing::error!(%error, "the journal can't be written");
        }
    }

    /// Looks at the machine's name again.
    pub(super) fn name_again(&self) {
        *self.host.borrow_mut() = host();
    }

    /// Passes a message on as it came. The daemon doesn't wait: a syslog that is slow, or isn't
    /// there, gets none.
    pub(super) fn forward(&self, message: &[u8]) {
        if let Some(forward) = &self.forward {
            let _lost = forward.socket.send_to(message, &forward.to);
        }
    }

    /// The same of an entry, as syslog(3) would have written it.
    pub(super) fn forward_entry(&self, entry: &Entry) {
        if self.forward.is_none() {
            return;
        }
        let number = |name: &str| -> Option<u16> {
            std::str::from_utf8(entry.get(name)?).ok()?.parse().ok()
        };
        let priority = number("PRIORITY").filter(|it| *it < 8).unwrap_or(6);
        let facility = number("SYSLOG_FACILITY").filter(|it| *it < 24).unwrap_or(3);
        let mut message = format!("<{}>", facility * 8 + priority).into_bytes();
        message.extend_from_slice(entry.get("SYSLOG_IDENTIFIER").unwrap_or(b"unknown"));
        message.extend_from_slice(b": ");
        message.extend_from_slice(entry.get("MESSAGE").unwrap_or_default());
        self.forward(&message);
    }
}

/// A clock that only goes forwards.
fn clock() -> Duration {
    Duration::from_nanos(kernel::time::boottime_ns())
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
