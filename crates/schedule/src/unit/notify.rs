// SPDX-License-Identifier: Apache-2.0
//! The sockets on which services say something of themselves (sd_notify(3)). Each unit has one of
//! its own, `RUN/units/LABEL.notify`, so that who floods his fills no other's queue, and what comes
//! in on it counts only where the kernel says that the sender is a process of that unit. Who of a
//! unit may speak (`NotifyAccess=`) the manager decides; descriptors go on as they came.
//!
//! Node-init keeps them for the next daemon (ADR 53), so that what is said while there is none
//! waits in the socket. It holds as many messages as `net.unix.max_dgram_qlen` says; who says more
//! waits.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::seqpacket::{Credentials, ReceiveError, pass_credentials, receive};
use kernel::time::{boottime_ns, monotonic_ns};
use model::error::{Error, Reason};
use tokio::io::Interest;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use units::name::UnitName;

use super::fdstore;
use super::name;
use super::runs::Runs;
use super::steps::service::Said;

/// The longest message that counts, in bytes, as in systemd.
const LONGEST: usize = 4096;
/// So many messages of a unit are taken at once; then one in [`PACE`].
const BURST: u32 = 100;
const PACE: Duration = Duration::from_millis(10);
/// No longer text of `STATUS=` is kept, in bytes.
const STATUS: usize = 1024;

/// A message, and who has sent it.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) unit: UnitName,
    /// The sender's number.
    pub(crate) pid: i32,
    /// It is the number of the unit's init. systemd-notify(1) speaks for its parent, unless that is
    /// PID 1: a command of a unit is PID 1's child under systemd, and its init's here. Only who may
    /// do everything can speak for another process.
    pub(crate) by_init: bool,
    /// It was a process of the unit's cell when its message was read. One that had ended by then
    /// isn't, unless the manager knows it by its number.
    pub(crate) inside: bool,
    pub(crate) message: Message,
}

/// What a message says. The last one of a field counts, as in systemd; unknown ones don't.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// In the order in which they are to be taken.
    pub(crate) said: Vec<Said>,
    /// `MAINPID=`
    pub(crate) main_pid: Option<i32>,
    /// `STATUS=`
    pub(crate) status: Option<String>,
    /// `ERRNO=`
    pub(crate) errno: Option<i32>,
    /// What is for the store of descriptors, with those that came along.
    pub(crate) store: Option<Store>,
}

/// `FDSTORE=1` and `FDSTOREREMOVE=1`. Descriptors that came with anything else are closed.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) message: fdstore::Message,
    pub(crate) descriptors: Vec<OwnedFd>,
}

fn nanos(value: &str) -> Option<u64> {
    value.parse::<u64>().ok().map(|it| it.saturating_mul(1000))
}

impl Message {
    /// Reads a message; `None`: there is nothing to do. `ahead`: how far `CLOCK_BOOTTIME` is before
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub(crate) fn parse(bytes: &[u8], descriptors: Vec<OwnedFd>, ahead: u64) -> Option<Message> {
        // What is behind a zero counts no more, as for a program in C.
        let bytes = bytes.split(|b| *b == 0).next().unwrap_or_default();
        let text = std::str::from_utf8(bytes).ok()?;
        let lines: Vec<&str> = text.lines().filter(|it| !it.is_empty()).collect();
        // sd_notify_barrier(3): its descriptor is closed, which is the answer.
        if lines == ["BARRIER=1"] {
            return None;
        }
        let last = |name: &str| {
            let of = |line: &&&str| {
                line.strip_prefix(name)
                    .is_some_and(|it| it.starts_with('='))
            };
            let line = lines.iter().rev().find(of)?;
            line.split_once('=').map(|(_, value)| value)
        };
        let state = lines
            .iter()
            .rev()
            .find(|it| matches!(**it, "READY=1" | "RELOADING=1" | "STOPPING=1"));
        let at = last("MONOTONIC_USEC").and_then(nanos);
        let at = at.map(|at| at.saturating_add(ahead));
        let state = state.map(|line| match *line {
            "READY=1" => Said::Ready,
            "RELOADING=1" => Said::Reloading(at),
            _ => Said::Stopping,
        });
        let beat = match last("WATCHDOG") {
            Some("1") => Some(Said::Alive),
            Some("trigger") => Some(Said::Trigger),
            _ => None,
        };
        let extend = last("EXTEND_TIMEOUT_USEC").and_then(nanos);
        let every = last("WATCHDOG_USEC").and_then(nanos);
        let said = [
            state,
            extend.map(Said::Extend),
            every.map(Said::Every),
            beat,
        ];
        Some(Message {
            said: said.into_iter().flatten().collect(),
            main_pid: last("MAINPID").and_then(|it| it.parse().ok()),
            status: last("STATUS").map(shortened),
            errno: last("ERRNO").and_then(|it| it.parse().ok()),
            store: store(&lines, descriptors),
        })
    }
}

fn store(lines: &[&str], descriptors: Vec<OwnedFd>) -> Option<Store> {
    let message = fdstore::Message::of(lines.iter().copied());
    message.is_any().then_some(Store {
        message,
        descriptors,
    })
}

fn shortened(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut kept = String::new();
    for c in plain {
        if kept.len() + c.len_utf8() > STATUS {
            break;
        }
        kept.push(c);
    }
    kept
}

/// The socket of a unit, and who listens on it as long as this is there.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    listener: AbortHandle,
    /// Tells it from others of its unit.
    pub(crate) turn: u64,
    /// Under which node-init keeps it, once it does.
    pub(crate) kept: Option<u64>,
}

impl Socket {
    /// `$NOTIFY_SOCKET`.
    pub(crate) fn address(&self) -> String {
        self.path.display().to_string()
    }

    /// No process is to say anything any more. The number under which it is kept.
    pub(crate) fn close(self) -> Option<u64> {
        // One that stays takes nothing, and the next one takes its place.
        let _ = std::fs::remove_file(&self.path);
        self.kept
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// The socket at a place, which every user may write to: a service says things as its own user.
/// What an earlier daemon has left there goes.
///
/// # Errors
/// It can't be made: the path is longer than 107 bytes, the folder isn't there.
pub(crate) fn bind(path: &Path) -> std::io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixDatagram::bind(path)?;
    socket.set_nonblocking(true)?;
    pass_credentials(&socket)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(socket.into())
}

/// What an earlier daemon had listened on: its number, and the socket.
pub(crate) type Earlier = (u64, OwnedFd);

/// Makes the socket of a unit in a folder, or goes on with an earlier daemon's, and hands on what
/// comes in. A new one comes along as a duplicate, to be kept.
///
/// # Errors
/// `UNSUPPORTED`: it can't be made.
pub(crate) fn open(
    folder: &Path,
    (unit, turn): (&UnitName, u64),
    earlier: Option<Earlier>,
    runs: &Runs,
    heard: &mpsc::Sender<Heard>,
) -> Result<(Socket, Option<OwnedFd>), Error> {
    let path = folder.join(format!("{}.notify", name::label(unit)?));
    let failed = |error: std::io::Error| {
        let words = format!("the socket {} can't be made: {error}", path.display());
        Error::new(Reason::Unsupported, words)
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, everybody).map_err(failed)?;
    // No process reaches one whose file has gone.
    let earlier = earlier.filter(|_| path.exists());
    let (socket, kept, copy) = match earlier {
        Some((number, socket)) => (socket, Some(number), None),
        None => {
            let socket = bind(&path).map_err(failed)?;
            let copy = socket.try_clone().map_err(failed)?;
            (socket, None, Some(copy))
        }
    };
    let watched = runtime::watched::watch(socket, Interest::READABLE).map_err(failed)?;
    let (unit, runs, heard) = (unit.clone(), runs.clone(), heard.clone());
    let listener = tokio::spawn(async move {
        let mut left = BURST;
        let mut pace = tokio::time::interval(PACE);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if left == 0 {
                pace.tick().await;
                left = 1;
            }
            let Ok(mut ready) = watched.readable().await else {
                return;
            };
            let Some((message, sender)) = take(watched.get_ref()) else {
                ready.clear_ready();
                // Nothing waits: a process that was too quick has been heard.
                left = BURST;
                continue;
            };
            left = left.saturating_sub(1);
            let Some(message) = message else {
                continue;
            };
            let by_init = runs.is_init_of(&unit, sender.pid);
            let inside = by_init || runs.is_of(&unit, sender.pid);
            let heard_of = Heard {
                unit: unit.clone(),
                pid: sender.pid,
                by_init,
                inside,
                message,
            };
            // The manager takes one of each unit in turn.
            if heard.send(heard_of).await.is_err() {
                return;
            }
        }
    });
    let socket = Socket {
        path,
        listener: listener.abort_handle(),
        turn,
        kept,
    };
    Ok((socket, copy))
}

/// The next message; `None`: none waits. One that can't be read, or has no sender, is none.
fn take(socket: &OwnedFd) -> Option<(Option<Message>, Credentials)> {
    const NOBODY: Credentials = Credentials {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut buffer = [0; LONGEST];
    let packet = match receive(socket, &mut buffer) {
        Ok(Some(packet)) => packet,
        // An empty datagram.
        Ok(None) => return Some((None, NOBODY)),
        Err(error) if error.is_would_block() => return None,
        Err(ReceiveError::Os(error)) => {
            tracing::warn!(%error, "a service's word can't be read");
            return None;
        }
        Err(error) => {
            tracing::debug!(%error, "a service says too much at once");
            return Some((None, NOBODY));
        }
    };
    let Some(sender) = packet.credentials.filter(|it| it.pid > 0) else {
        return Some((None, NOBODY));
    };
    let bytes = buffer.get(..packet.length).unwrap_or_default();
    let ahead = boottime_ns().saturating_sub(monotonic_ns());
    Some((Message::parse(bytes, packet.fds, ahead), sender))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<Said> {
        Message::parse(text.as_bytes(), Vec::new(), 5).unwrap().said
    }

    #[test]
    fn a_message_is_read_as_systemd_reads_it() {
        // sd_notify(3).
        assert_eq!(said("READY=1"), [Said::Ready]);
        assert_eq!(said("STOPPING=1\nREADY=1\n"), [Said::Ready]);
        assert_eq!(said("READY=1\nSTOPPING=1"), [Said::Stopping]);
        assert_eq!(said("READY=0\nREADY=yes\nX_OWN=1\nnonsense"), []);
        assert_eq!(
            said("RELOADING=1\nMONOTONIC_USEC=7"),
            [Said::Reloading(Some(7_005))]
        );
        assert_eq!(said("RELOADING=1"), [Said::Reloading(None)]);
        assert_eq!(said("WATCHDOG=1"), [Said::Alive]);
        assert_eq!(said("WATCHDOG=trigger"), [Said::Trigger]);
        assert_eq!(said("WATCHDOG_USEC=3"), [Said::Every(3_000)]);
        assert_eq!(
            said("EXTEND_TIMEOUT_USEC=18446744073709551615"),
            [Said::Extend(u64::MAX)]
        );
        assert_eq!(said("EXTEND_TIMEOUT_USEC=-1\nWATCHDOG_USEC=x"), []);
        let text = "MAINPID=4711\nSTATUS=one\nSTATUS=two\tthree\nERRNO=2\0READY=1";
        let message = Message::parse(text.as_bytes(), Vec::new(), 0).unwrap();
        assert_eq!((message.main_pid, message.errno), (Some(4711), Some(2)));
        assert_eq!(message.status.as_deref(), Some("two three"));
        assert!(message.said.is_empty() && message.store.is_none());
        let long = format!("STATUS={}", "ä".repeat(2000));
        let message = Message::parse(long.as_bytes(), Vec::new(), 0).unwrap();
        assert_eq!(message.status.map(|it| it.len()), Some(STATUS));
        assert!(Message::parse(b"\xff\xfe", Vec::new(), 0).is_none());
        assert!(Message::parse(b"BARRIER=1\n", Vec::new(), 0).is_none());
    }

    #[test]
    fn descriptors_go_to_the_store_alone_and_others_are_closed() {
        let null = || vec![OwnedFd::from(std::fs::File::open("/dev/null").unwrap())];
        let of = |text: &str, given| Message::parse(text.as_bytes(), given, 0).unwrap().store;
        assert!(of("READY=1", null()).is_none());
        let kept = of("FDSTORE=1\nFDNAME=a\nFDPOLL=0", null()).unwrap();
        assert_eq!(kept.descriptors.len(), 1);
        assert_eq!(kept.message.name.as_deref(), Some("a"));
        assert!(kept.message.stores && !kept.message.polls);
        let removed = of("FDSTOREREMOVE=1\nFDNAME=a", null()).unwrap();
        assert!(removed.message.removes);
    }

    /// The kernel says who has sent it; the message can't.
    #[tokio::test]
    async fn the_sender_is_the_kernels_word() {
        let name = format!("aurae-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let socket = bind(&path).unwrap();
        let client = UnixDatagram::unbound().unwrap();
        client.send_to(b"READY=1\nMAINPID=1", &path).unwrap();
        client.send_to(b"", &path).unwrap();
        client.send_to(&[b'A'; LONGEST + 1], &path).unwrap();
        let (message, sender) = take(&socket).unwrap();
        assert_eq!(sender.pid, kernel::process::id());
        assert_eq!(message.unwrap().main_pid, Some(1));
        assert!(take(&socket).unwrap().0.is_none());
        assert!(take(&socket).unwrap().0.is_none());
        assert!(take(&socket).is_none());
        // The next daemon's takes its place.
        let again = bind(&path).unwrap();
        client.send_to(b"STOPPING=1", &path).unwrap();
        assert!(take(&again).is_some() && take(&socket).is_none());
        std::fs::remove_file(path).unwrap();
    }
}
