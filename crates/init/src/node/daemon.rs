// SPDX-License-Identifier: Apache-2.0
//! The daemon's process and connection, for node-init: starts it, reads its requests, restarts it
//! with back-off. Whatever it sends, PID 1 goes on.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use kernel::pidfd;
use kernel::poll::Deadline;
use kernel::seqpacket::{Packet as Received, ReceiveError};
use kernel::signal::Signal;
use rustix::io::Errno;

use super::binary::Binary;
use super::cells::Stage;
use super::child::{self, BackOff, Child, Recipe};
use super::{DAEMON, Node, PACKETS_AT_ONCE};
use crate::codec::{CREATE_CELL, KEEP_DESCRIPTOR, Packet, request_number};
use crate::poll::Interest;
use crate::protocol::{Failure, NodeEvent, NodeRequest, Role, Step, VERSION, Welcome};

/// How long a daemon that closed its connection has to exit by itself, with an exit code of its
/// own.
const HUNG_UP: Duration = Duration::from_secs(1);
/// How long a new daemon waits for the creation of cells that an earlier daemon asked for. It is
/// answered before it gives up node-init as silent (20 s).
const WELCOME_BOUND: Duration = Duration::from_secs(10);
/// Packets up to this size leave their pages in the buffer.
const KEEP: usize = 16 * 1024;
/// How many malformed packets of one daemon are reported on the console.
const COMPLAINTS: u32 = 8;

/// How far the conversation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Handshake {
    #[default]
    None,
    /// It has sent `Hello`; the answer waits for cells in creation and for the spawner's first
    /// word.
    Heard,
    Welcomed,
}

/// The daemon's process and the connection to it.
pub(super) struct Daemon {
    pub(super) child: Option<Child>,
    pub(super) handshake: Handshake,
    /// At a shutdown the cells wait for it.
    pub(super) ends_first: bool,
    pub(super) starts: u64,
    binary: Binary,
    /// It has said that it serves.
    ready: bool,
    back_off: BackOff,
    start_at: Deadline,
    complaints: u32,
    /// It has sent `Hello`: how long cells in creation may delay the answer.
    welcome_due: Option<Deadline>,
    /// It hung up: when it is killed.
    kill_at: Option<Deadline>,
}

impl Daemon {
    /// Of an init whose options name this program; none runs yet.
    pub(super) fn of(program: &Path) -> Daemon {
        Daemon {
            binary: Binary::of(program),
            ready: false,
            child: None,
            handshake: Handshake::None,
            ends_first: false,
            starts: 0,
            back_off: BackOff::NEW,
            start_at: Deadline::after(Duration::ZERO),
            complaints: 0,
            welcome_due: None,
            kill_at: None,
        }
    }

    /// The next one is due.
    pub(super) fn start_now(&mut self) {
        self.back_off = BackOff::NEW;
        self.start_at = Deadline::after(Duration::ZERO);
    }

    pub(super) fn start_at(&self) -> Option<Deadline> {
        self.child.is_none().then_some(self.start_at)
    }

    pub(super) fn kill_at(&self) -> Option<Deadline> {
        self.kill_at
    }

    pub(super) fn welcome_due(&self) -> Option<Deadline> {
        self.welcome_due
    }

    /// The answer no longer waits for cells in creation.
    pub(super) fn wait_no_longer(&mut self) {
        self.welcome_due = None;
    }
}

impl Node {
    pub(super) fn start_daemon_if_due(&mut self) {
        if self.daemon.child.is_some() || !self.daemon.start_at.passed() {
            return;
        }
        let mut argv = self.options.daemon.clone();
        argv.extend(["--init-fd".into(), child::CHILD_SOCKET.to_string().into()]);
        let installed = self.daemon.binary.next();
        let program = installed.as_ref().unwrap_or(&self.options.program);
        self.daemon.ready = false;
        let recipe = Recipe {
            program,
            unwritable: false,
            argv,
            cgroup: self.groups.daemon(),
            in_our_group: self.role == Role::Machine,
            dies_with_us: true,
            oom_score_adj: Some(-900),
            descriptors: None,
        };
        let started = child::start(&recipe).and_then(|child| {
            self.poll.add(&child.link, DAEMON, Interest::READ)?;
            Ok(child)
        });
        self.daemon.starts += 1;
        match started {
            Ok(child) => self.daemon.child = Some(child),
            Err(error) => {
                let delay = self.daemon.back_off.step().min(self.options.back_off);
                self.daemon.start_at = Deadline::after(delay);
                let error = format!("the daemon can't be started: {error}; again in {delay:?}");
                self.console.say(&error);
            }
        }
    }

    /// Its process has ended. What it sent before is carried out first: no request is lost between
    /// two.
    pub(super) fn daemon_ended(&mut self, how: &str) {
        self.read_daemon_to_the_end();
        let Some(child) = self.daemon.child.take() else {
            return;
        };
        // It was meant for this one; the next must not die of it.
        self.daemon.kill_at = None;
        if !self.daemon.ready {
            self.daemon.binary.failed();
            self.daemon_has_failed();
        }
        if !child.closed {
            let _ = self.poll.remove(&child.link);
        }
        self.forget_daemon();
        let delay = self.daemon.back_off.step().min(self.options.back_off);
        let delay = self.rescue.pause(delay);
        self.daemon.start_at = Deadline::after(delay);
        if self.shutdown.is_none() {
            let cells = self.cells.running().len();
            let starts = self.daemon.starts;
            self.console.say(&format!(
                "the daemon {how} (start {starts}); {cells} cells go on; again in {delay:?}"
            ));
        }
    }

    pub(super) fn kill_daemon_if_due(&mut self) {
        if self.daemon.kill_at.is_some_and(Deadline::passed) {
            self.daemon.kill_at = None;
            self.signal_daemon(Signal::KILL);
        }
    }

    fn read_daemon_to_the_end(&mut self) {
        if let Some(child) = &mut self.daemon.child {
            child.link.peer_is_gone();
        }
        // A daemon that has ended has sent no more than its socket holds.
        while self.daemon.child.is_some() && self.read_daemon_packets() {}
    }

    /// It talks no more but still runs: a daemon without init is of no use, so it is made way for.
    pub(super) fn lose_daemon_link(&mut self) {
        let Some(child) = &mut self.daemon.child else {
            return;
        };
        if self.shutdown.is_none() {
            self.daemon
                .kill_at
                .get_or_insert_with(|| Deadline::after(HUNG_UP));
        }
        // Its end is noticed by its pid; until then nothing is read.
        if !std::mem::replace(&mut child.closed, true) {
            let _ = self.poll.remove(&child.link);
            child.link.hang_up();
        }
        self.forget_daemon();
    }

    fn forget_daemon(&mut self) {
        self.daemon.handshake = Handshake::None;
        self.daemon.ends_first = false;
        self.daemon.welcome_due = None;
        self.daemon.complaints = 0;
        self.kept.stop_listing();
        for cell in &mut self.cells.0 {
            cell.request = None;
            if let Stage::Ended { told, .. } = &mut cell.stage {
                *told = false;
            }
        }
    }

    pub(super) fn read_daemon(&mut self) {
        let _ = self.read_daemon_packets();
    }

    /// Reads a batch; `true` if there may be more.
    fn read_daemon_packets(&mut self) -> bool {
        let Some(mut buffer) = self.buffer.take() else {
            return false;
        };
        let mut more = true;
        for _ in 0..PACKETS_AT_ONCE {
            let open = |child: &&Child| !child.closed && child.link.has_room();
            let Some(child) = self.daemon.child.as_ref().filter(open) else {
                more = false;
                break;
            };
            match child.link.receive(&mut buffer) {
                Ok(Some(packet)) => {
                    let length = packet.length;
                    self.daemon_says(buffer.get(..length).unwrap_or_default(), packet);
                    if length > KEEP {
                        buffer.discard();
                    }
                }
                Err(error) if error.is_would_block() => {
                    more = false;
                    break;
                }
                Ok(None) | Err(ReceiveError::Os(_)) => {
                    self.lose_daemon_link();
                    more = false;
                    break;
                }
                Err(error) => self.refuse(&buffer, &error.to_string()),
            }
        }
        self.buffer = Some(buffer);
        more
    }

    fn daemon_says(&mut self, bytes: &[u8], packet: Received) {
        let request = match NodeRequest::decode(bytes) {
            Ok(request) => request,
            Err(error) => return self.refuse(bytes, &error.to_string()),
        };
        if let NodeRequest::Hello { version, build } = request {
            return self.hear_hello(version, &build, &packet);
        }
        if self.daemon.handshake == Handshake::None {
            return self.complain("a request before Hello");
        }
        match request {
            NodeRequest::Hello { .. } => {}
            NodeRequest::CreateCell { request, launch } => {
                self.create_cell(request, launch, packet.fds);
            }
            NodeRequest::AckCell { uid } => self.acknowledge_cell(uid),
            NodeRequest::Shutdown { mode, bound_ms } => {
                let bound = (bound_ms > 0).then(|| Duration::from_millis(bound_ms.into()));
                self.begin_shutdown(mode, bound, "the daemon asks for it");
            }
            NodeRequest::AuditHead { sequence, hash } => self.audit_head = Some((sequence, hash)),
            NodeRequest::Ready => self.daemon_is_ready(),
            NodeRequest::EndsFirst { wanted, needs_ms } => {
                self.daemon.ends_first = wanted;
                self.lengthen_shutdown(Duration::from_millis(needs_ms.into()));
            }
            NodeRequest::KeepDescriptor {
                request,
                owner,
                name,
            } => self.keep_descriptor(request, owner, name, packet.fds),
            NodeRequest::DropDescriptor { number } => self.kept.forget(number),
            NodeRequest::ListDescriptors { request } => self.kept.list(request),
            NodeRequest::RenewRoot => self.renew_root(),
            NodeRequest::TellOrphans { uid } => self.tell_orphans(uid, packet.fds),
        }
    }

    /// Only the process that was started here, as the user it was started as, is the daemon.
    fn hear_hello(&mut self, version: u16, build: &str, packet: &Received) {
        let Some(child) = &self.daemon.child else {
            return;
        };
        let expected = (child.pid, kernel::process::effective_uid());
        let sender = packet.credentials.map(|sender| (sender.pid, sender.uid));
        if sender != Some(expected) {
            return self.complain("a Hello of another process than the daemon");
        }
        if version == VERSION {
            self.daemon.handshake = Handshake::Heard;
            self.daemon.welcome_due = Some(Deadline::after(WELCOME_BOUND));
            return;
        }
        let reason = format!("init speaks version {VERSION}, the daemon {build} version {version}");
        self.console.say(&reason);
        self.daemon.binary.refuse();
        self.post(
            &NodeEvent::Refused {
                version: VERSION,
                reason,
            },
            &[],
        );
        if let Some(child) = &mut self.daemon.child {
            let _ = child.link.flush();
        }
        self.lose_daemon_link();
    }

    fn daemon_is_ready(&mut self) {
        self.daemon.ready = true;
        self.rescue.daemon_serves();
        // From now on little of the binary is run here.
        kernel::memory::release_code();
        // Whatever ends one that came to serve, the next is started at once. That it serves takes
        // some time, so nothing spins.
        self.daemon.back_off = BackOff::NEW;
        self.notify("READY=1");
    }

    /// Tells the service manager, where there is one.
    pub(super) fn notify(&self, state: &str) {
        if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
            let _ = kernel::notify::notify(&socket, state);
        }
    }

    /// A packet that can't be carried out: answered if it asks for a cell, or to keep a
    /// descriptor.
    fn refuse(&mut self, packet: &[u8], reason: &str) {
        self.complain(reason);
        let failure = Failure::new(Step::Protocol, Errno::BADMSG.raw_os_error(), reason);
        match request_number(packet) {
            Some((CREATE_CELL, request)) => {
                self.post(&NodeEvent::CellFailed { request, failure }, &[]);
            }
            Some((KEEP_DESCRIPTOR, request)) => {
                self.post(&NodeEvent::DescriptorNotKept { request, failure }, &[]);
            }
            _ => {}
        }
    }

    pub(super) fn complain(&mut self, what: &str) {
        self.daemon.complaints = self.daemon.complaints.saturating_add(1);
        if self.daemon.complaints <= COMPLAINTS {
            self.console
                .say(&format!("the daemon sent a malformed request: {what}"));
        }
    }

    pub(super) fn post(&mut self, event: &NodeEvent, fds: &[BorrowedFd<'_>]) {
        let Some(child) = self.daemon.child.as_mut().filter(|child| !child.closed) else {
            return;
        };
        if child.link.post(event, fds).is_err() {
            self.lose_daemon_link();
        }
    }

    /// Answers a daemon that waits for its `Welcome`, and sends ends that it doesn't know.
    pub(super) fn tell_news(&mut self) {
        if self.daemon.handshake == Handshake::Heard {
            self.welcome_if_settled();
        }
        if self.daemon.handshake != Handshake::Welcomed {
            return;
        }
        let Some(child) = &mut self.daemon.child else {
            return;
        };
        if !self.kept.tell(&mut child.link) {
            return self.lose_daemon_link();
        }
        if !self.news {
            return;
        }
        for cell in &mut self.cells.0 {
            if let Stage::Ended {
                exit,
                told: told @ false,
            } = &mut cell.stage
            {
                if !child.link.is_flushed() {
                    return;
                }
                let event = NodeEvent::CellExited {
                    uid: cell.uid,
                    exit: *exit,
                };
                if child.link.post(&event, &[]).is_err() {
                    return self.lose_daemon_link();
                }
                *told = true;
            }
        }
        self.news = false;
    }

    fn welcome_if_settled(&mut self) {
        let Some(isolation) = self.spawner.isolation.clone() else {
            return;
        };
        if self.cells.any_in_the_making() {
            return;
        }
        let welcome = Welcome {
            version: VERSION,
            role: self.role,
            daemon_starts: self.daemon.starts,
            started_ns: self.started_ns,
            audit_head: self.audit_head,
            cells: self.cells.running(),
            isolation,
        };
        self.daemon.handshake = Handshake::Welcomed;
        self.daemon.welcome_due = None;
        self.news = true;
        self.post(&NodeEvent::Welcome(welcome), &[]);
        if let Some(shutdown) = &self.shutdown {
            let announcement = shutdown.announcement();
            self.post(&announcement, &[]);
        }
    }

    /// An order to read the configuration again. A daemon whose binary was replaced makes way for
    /// one of the new binary, which reads it, too.
    pub(super) fn reload_daemon(&mut self) {
        if self.daemon.binary.is_replaced() && self.shutdown.is_none() {
            self.console
                .say("the daemon makes way for the one that is installed");
            // Its end is asked for, and says nothing against it.
            self.daemon.ready = true;
            return self.signal_daemon(Signal::TERM);
        }
        self.signal_daemon(Signal::HUP);
    }

    /// Passes a signal on.
    pub(super) fn signal_daemon(&self, signal: Signal) {
        if let Some(child) = &self.daemon.child {
            let _ = pidfd::send_signal(&child.pidfd, signal);
        }
    }
}
