// SPDX-License-Identifier: Apache-2.0
//! What the daemon and the inits say to each other.
//!
//! Two conversations, both over `SOCK_SEQPACKET`, one message a packet, descriptors beside it:
//!
//! * **daemon ↔ node-init** over a socket pair that the daemon inherits. Node-init makes cells (through the
//!   spawner), reaps their inits, and keeps each cell-init's exit until it is acknowledged.
//! * **daemon ↔ cell-init** over a socket that the cell-init listens on, at `RUN_DIR/cells/UID.sock`. The
//!   cell-init is the parent of the cell's executables: it keeps their records, the read ends of their pipes
//!   and their exits. A new daemon connects to every socket that it finds there; nothing else is needed to
//!   adopt a node's workloads, also after `kill -9` of node-init itself.
//!
//! A daemon speaks first (`Hello`); an init of another [`VERSION`] answers `Refused` and closes. An init
//! reads its old connection to the end before it accepts the next, so a request is never lost between two
//! daemons: it was either carried out, and shows in the snapshot, or never sent.
//!
//! Everything here is plain data. [`codec`] turns it into packets and back, bounded in every field; a
//! cell-init counts as hostile, so the daemon decodes with the same suspicion as the inits do.

pub mod codec;

/// The version of both conversations. Changes with every change of a packet's meaning.
pub const VERSION: u16 = 1;
/// The largest packet, in bytes.
pub const MAX_PACKET: usize = 160 * 1024;
/// The largest opaque record, in bytes.
pub const MAX_RECORD: usize = 64 * 1024;
/// The most descriptors that go with one packet (`SCM_MAX_FD` is 253).
pub const MAX_FDS: usize = 64;
/// The most workloads of one cell, running or not yet acknowledged.
pub const MAX_WORKLOADS: usize = 4096;
/// The most cells of one node, running or not yet acknowledged.
pub const MAX_CELLS: usize = 8192;

/// One run of an object: 128 random bits, written as 32 lower-case hexadecimal digits elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Uid(pub [u8; 16]);

/// Daemon → node-init.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeRequest {
    /// First. `build` is for people, in a refusal.
    Hello { version: u16, build: String },
    /// Make a cell. Descriptors: see [`CellLaunch`].
    CreateCell { request: u64, launch: CellLaunch },
    /// The exit of this cell's init is stored; forget it.
    AckCell { uid: Uid },
    /// Stop everything, then the machine (or, as a service, end).
    Shutdown { mode: PowerMode, bound_ms: u32 },
    /// The newest entry of the audit, so that a cut tail shows.
    AuditHead { sequence: u64, hash: [u8; 32] },
    /// The daemon is ready to serve (for back-off, and `sd_notify` where init is a service).
    Ready,
}

/// Node-init → daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeEvent {
    /// The answer to `Hello`. Sent only when no cell is being made any more.
    Welcome(Welcome),
    /// Another version. The connection ends.
    Refused { version: u16, reason: String },
    /// The cell's init runs. Descriptor: its pidfd.
    CellCreated { request: u64, pid: i32 },
    /// The cell could not be made; nothing of it is left.
    CellFailed { request: u64, failure: Failure },
    /// A cell's init has ended; kept and repeated to each new daemon until `AckCell`.
    CellExited { uid: Uid, exit: ExitRecord },
    /// The machine goes down: no new work; output is still to be stored. Everything ends within the bound.
    ShuttingDown { mode: PowerMode, bound_ms: u32 },
}

/// What node-init knows when a daemon comes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    pub version: u16,
    pub role: Role,
    /// How many daemons were started since init's own start, this one included.
    pub daemon_starts: u64,
    /// `CLOCK_BOOTTIME` at init's own start, in nanoseconds.
    pub started_ns: u64,
    /// The last `AuditHead`.
    pub audit_head: Option<(u64, [u8; 32])>,
    /// Cell-inits that run, as node-init's children.
    pub cells: Vec<(Uid, i32)>,
    /// Whether isolated cells can be made here, or why not.
    pub isolation: Result<(), Failure>,
}

/// What kind of init it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// PID 1 of a machine.
    Machine,
    /// PID 1 of a container made by somebody else.
    Container,
    /// A child subreaper under another init.
    Service,
}

/// How the machine goes down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PowerMode {
    PowerOff,
    Reboot,
    Halt,
    /// As a service: stop everything and exit.
    Exit,
}

/// A step that failed: which, the errno, and what it was about (a path, a field).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub step: Step,
    pub errno: i32,
    pub detail: String,
}

/// Steps of making a cell or starting an executable, for [`Failure`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Step {
    Protocol = 1,
    Limit = 2,
    Template = 3,
    Clone = 4,
    IdMap = 5,
    Identity = 6,
    Mount = 7,
    Grant = 8,
    Hostname = 9,
    Network = 10,
    Cgroup = 11,
    Stdio = 12,
    User = 13,
    Directory = 14,
    Rlimit = 15,
    Priority = 16,
    Affinity = 17,
    Capabilities = 18,
    Seccomp = 19,
    Exec = 20,
    Namespace = 21,
}

/// Namespaces, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Namespaces(pub u8);

impl Namespaces {
    pub const USER: u8 = 1;
    pub const MOUNT: u8 = 2;
    pub const PID: u8 = 4;
    pub const NET: u8 = 8;
    pub const IPC: u8 = 16;
    pub const UTS: u8 = 32;
    pub const CGROUP: u8 = 64;
    pub const ALL: Namespaces = Namespaces(127);

    /// Whether the set has this one.
    pub fn has(self, one: u8) -> bool {
        self.0 & one != 0
    }
}

/// One extent of a user or group id map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdMap {
    pub inside: u32,
    /// In the *node's* ids, also for nested cells.
    pub outside: u32,
    pub count: u32,
}

/// A new cell. Descriptors that go with it, in this order:
/// 1. the `_init` leaf cgroup (directory),
/// 2. the listening control socket,
/// 3. where `parent` is set, the pidfd of the enclosing cell's init,
/// 4. one detached mount (`open_tree`, already idmapped and with its flags) per grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CellLaunch {
    pub uid: Uid,
    /// New ones; the others are shared with the parent.
    pub unshare: Namespaces,
    /// The enclosing cell is another cell, not the node.
    pub parent: bool,
    pub uid_map: Vec<IdMap>,
    pub gid_map: Vec<IdMap>,
    pub hostname: String,
    pub grants: Vec<GrantMount>,
    pub volumes: Vec<Volume>,
    /// Paths of the node hidden under an empty tmpfs, beside those always hidden.
    pub record: Vec<u8>,
}

/// Where one granted mount goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantMount {
    pub target: Vec<u8>,
    pub directory: bool,
}

/// A tmpfs of the cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Volume {
    pub target: Vec<u8>,
    pub size_bytes: u64,
    pub mode: u32,
}

/// Daemon → cell-init.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CellRequest {
    Hello {
        version: u16,
    },
    /// Replace the cell's own record.
    PutCellRecord {
        request: u64,
        record: Vec<u8>,
    },
    /// Replace a workload's record (a stop was asked for, labels changed).
    PutRecord {
        request: u64,
        uid: Uid,
        record: Vec<u8>,
    },
    /// Start an executable. Descriptors: see [`Launch`].
    Start {
        request: u64,
        launch: Launch,
    },
    /// Signal the main process. Race-free: cell-init is its parent.
    Signal {
        request: u64,
        uid: Uid,
        signal: u8,
    },
    /// Close the kept write end of standard input.
    CloseStdin {
        request: u64,
        uid: Uid,
    },
    /// The exit and all output of this workload are stored; forget it and close its pipes.
    Ack {
        uid: Uid,
    },
    /// Attach a grant to the running cell. Descriptor: the detached mount.
    Mount {
        request: u64,
        grant: GrantMount,
    },
    /// Detach it.
    Unmount {
        request: u64,
        target: Vec<u8>,
    },
    /// End: nothing runs here any more. Refused (EBUSY) while something does.
    Exit {
        request: u64,
    },
}

/// Cell-init → daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CellEvent {
    /// The answer to `Hello`: the cell's uid and record; `workloads` packets of `Workload` follow.
    Welcome {
        version: u16,
        uid: Uid,
        record: Vec<u8>,
        workloads: u32,
    },
    Refused {
        version: u16,
        reason: String,
    },
    /// One per workload, running or ended and not acknowledged. Descriptors: the pidfd if it runs, then the
    /// kept read ends (stdout and stderr, or the terminal's master), then the write end of stdin if kept.
    Workload(WorkloadState),
    /// The program was executed. Descriptor: its pidfd.
    Started {
        request: u64,
        pid: i32,
    },
    /// It was not; nothing of it is left.
    Failed {
        request: u64,
        failure: Failure,
    },
    /// A request without an answer of its own was carried out.
    Done {
        request: u64,
    },
    /// A workload's main process has ended; kept until `Ack`.
    Exited {
        uid: Uid,
        exit: ExitRecord,
    },
}

/// What a cell-init knows of one workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadState {
    pub uid: Uid,
    /// In the pid namespace of the receiver of the descriptor's fdinfo; as seen by the cell-init here.
    pub pid: i32,
    pub stdio: Stdio,
    pub has_stdin: bool,
    pub record: Vec<u8>,
    /// `CLOCK_REALTIME`, nanoseconds.
    pub started_ns: u64,
    pub exit: Option<ExitRecord>,
}

/// What a workload's standard streams are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stdio {
    /// Two pipes.
    Pipes,
    /// One terminal, the workload's controlling one.
    Terminal,
}

/// How a process ended. Times are `CLOCK_REALTIME` nanoseconds, durations nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExitRecord {
    pub how: ExitHow,
    pub started_ns: u64,
    pub finished_ns: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    pub max_rss_bytes: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    /// `memory.events` `oom_kill` of the leaf when the main process ended; absent without the controller.
    pub oom_kills: Option<u64>,
}

/// The status of [`ExitRecord`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitHow {
    Code(u8),
    Signal {
        signal: u8,
        core: bool,
    },
    /// Reaped by somebody else.
    Unknown,
}

/// A user or group as asked for; resolved by the cell-init in the cell's own files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Principal {
    Id(u32),
    Name(String),
}

/// A new executable. Descriptors that go with it, in this order:
/// 1. its leaf cgroup (directory),
/// 2. with [`Stdio::Pipes`]: stdin's read end (or /dev/null), stdout's and stderr's write ends, then the
///    read ends to keep; with [`Stdio::Terminal`]: the slave, then the master to keep,
/// 3. with `keep_stdin`: stdin's write end, to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    pub uid: Uid,
    pub argv: Vec<Vec<u8>>,
    /// `NAME=value`; complete, nothing is added but HOME, USER, LOGNAME, SHELL where absent.
    pub env: Vec<Vec<u8>>,
    pub cwd: Vec<u8>,
    pub user: Option<Principal>,
    pub group: Option<Principal>,
    pub groups: Vec<Principal>,
    pub umask: u32,
    /// `RLIMIT_*` number, soft, hard (`u64::MAX`: unlimited).
    pub rlimits: Vec<(u8, u64, u64)>,
    pub nice: i8,
    pub oom_score_adj: Option<i16>,
    /// One bit per CPU; empty: unchanged.
    pub affinity: Vec<u8>,
    /// Bit masks of capability numbers.
    pub bounding: u64,
    pub ambient: u64,
    pub no_new_privileges: bool,
    /// A compiled filter: `struct sock_filter[]` as bytes. Empty: none.
    pub seccomp: Vec<u8>,
    /// `SECCOMP_FILTER_FLAG_LOG`.
    pub seccomp_log: bool,
    pub stdio: Stdio,
    pub keep_stdin: bool,
    /// For shutdown without a daemon.
    pub stop_signal: u8,
    pub grace_ms: u32,
    pub record: Vec<u8>,
}
