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
    /// The daemon before may have died within a frame, which is to be ended first.
    is_torn: Cell<bool>,
    boot_id: String,
    host: RefCell<String>,
    forward: Option<Forward>,
    refused: Cell<u64>,
}

/// Frames that go to the log by one write: a system call for each line would be most of its cost.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
}

/// As soon as they are so many bytes, they are written.
const ENOUGH: usize = 64 << 10;

impl Frames {
    pub(super) fn is_enough(&self) -> bool {
        self.bytes.len() >= ENOUGH
    }
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
        (log, is_torn): (pipe::Sender, bool),
        boot_id: String,
        forward: Option<PathBuf>,
    ) -> Desk {
        Desk {
            senders: Mutex::new(senders),
            limiter: RefCell::new(Limiter::new(limit)),
            log: Mutex::new(log),
            is_torn: Cell::new(is_torn),
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
    pub(super) fn admits(&self, sender: &Sender, bytes: usize, frames: &mut Frames) -> bool {
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
                self.sign(&entry, sender, "driver", frames);
                true
            }
        }
    }

    /// Puts an entry's frame to the others: the sender's fields, and the node's word on it.
    pub(super) fn sign(&self, entry: &Entry, sender: &Sender, transport: &str, to: &mut Frames) {
        let transport = [("_TRANSPORT", transport.as_bytes())];
        let fields = entry.fields().chain(sender.fields()).chain(transport);
        self.stamp(fields, to);
    }

    /// The same of an entry that nothing but the kernel has sent.
    pub(super) fn put(&self, entry: &Entry, to: &mut Frames) {
        self.stamp(entry.fields(), to);
    }

    fn stamp<'a>(
        &self,
        fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
        to: &mut Frames,
    ) {
        let host = self.host.borrow();
        let here = [
            ("_BOOT_ID", self.boot_id.as_bytes()),
            ("_HOSTNAME", host.as_bytes()),
        ];
        let time = Timestamp(kernel::time::realtime_ns());
        frame::encode(time, fields, &here, &mut to.bytes);
    }

    /// Writes frames. It waits while the mover is behind, and with it everybody who sends: that is
    /// the bound of what is held.
    pub(super) async fn write(&self, frames: &mut Frames) {
        if frames.bytes.is_empty() {
            return;
        }
        let mut log = self.log.lock().await;
        if self.is_torn.replace(false) {
            frames.bytes.insert(0, frame::END);
        }
        if let Err(error) = log.write_all(&frames.bytes).await {
            tracing::error!(%error, "the journal can't be written");
        }
        frames.bytes.clear();
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
