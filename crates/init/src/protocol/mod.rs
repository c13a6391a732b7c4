// SPDX-License-Identifier: Apache-2.0
//! The messages between the daemon and the inits.
//!
//! Two kinds of connection, both `SOCK_SEQPACKET`: one message a packet, descriptors beside it.
//!
//! * **daemon ↔ node-init** over a socket pair that the daemon inherits. Node-init creates cells
//!   (through the spawner), reaps their inits, and keeps each cell-init's exit until the daemon
//!   acknowledges it.
//! * **daemon ↔ cell-init** over a socket that the cell-init listens on, at
//!   `RUN_DIR/cells/UID.sock`. The cell-init is the parent of the cell's executables: it keeps
//!   their records, the read ends of their pipes and their exits. A new daemon connects to every
//!   socket that it finds there; nothing else is needed to adopt a node's workloads, also after
//!   `kill -9` of node-init itself.
//!
//! A daemon speaks first (`Hello`); an init of another [`VERSION`] answers `Refused` and closes. An
//! init reads its old connection to the end before it accepts the next, so a request is never lost
//! between two daemons: it was either carried out, and shows in the snapshot, or never sent.
//!
//! Everything here is plain data. [`codec`] turns it into packets and back, bounded in every field;
//! a cell-init counts as hostile, so the daemon decodes with the same suspicion as the inits do.

mod bound;
pub mod codec;
mod launch;
mod record;
pub mod sandbox;
mod workload;

pub use bound::{FIRST_PART, longer_by};
pub use launch::{Before, First, Keyring, Launch, Listening, Open, OpenHow, Principal};
pub use record::Record;
pub use workload::{ExitHow, ExitRecord, Orphan, Stdio, WorkloadState};

/// The version of both conversations. Changes with every change of a packet's meaning.
pub const VERSION: u16 = 15;
/// The largest packet, in bytes.
pub const MAX_PACKET: usize = 160 * 1024;
/// The largest request that comes sealed ([`CellRequest::Sealed`]), in bytes: what `execve` takes
/// of arguments and environment (6 MiB, with the 4 bytes that stand before each here), and the rest
/// of a [`Launch`].
pub const MAX_SEALED: usize = 8 * 1024 * 1024;
/// The longest argument or variable, in bytes: what `execve` takes (`MAX_ARG_STRLEN`) less its NUL.
pub const MAX_STRING: usize = 128 * 1024 - 1;
/// The most layers of an image's root: what overlayfs takes, less one for the folders that the
/// spawner adds.
pub const MAX_LAYERS: usize = 499;
/// The most cells whose namespaces one cell joins.
pub const MAX_JOINS: usize = 3;
/// The most parameters of the kernel that a cell sets.
pub const MAX_SYSCTLS: usize = 64;
/// The most paths of a cell that are masked, and that are read-only.
pub const MAX_PATHS: usize = 256;
/// The largest opaque record that goes in a packet, in bytes. A longer one goes beside it
/// ([`Record`]).
pub const MAX_RECORD: usize = 64 * 1024;
/// The most that the records of one cell's workloads take together when another one is started, in
/// bytes: three quarters of what [`MAX_WORKLOADS`] of the largest in packets take. The rest is for
/// records that grow.
pub const MAX_RECORDS: usize = MAX_WORKLOADS * MAX_RECORD / 4 * 3;
/// The most descriptors that go with one packet (`SCM_MAX_FD` is 253).
pub const MAX_FDS: usize = 64;
/// The most workloads of one cell, running or not yet acknowledged.
pub const MAX_WORKLOADS: usize = 4096;
/// The most light cells that one cell-init serves.
pub const MAX_LIGHT: usize = 4096;
/// The most descriptors that an executable gets from 3 on.
pub const MAX_PASSED: usize = 48;
/// The most orphans whose ends node-init remembers for a cell-init that comes after a dead one.
pub const MAX_ORPHANS: usize = 256;
/// The most programs that run before an executable.
pub const MAX_BEFORE: usize = 64;
/// The most variables that get an executable's own pid.
pub const MAX_PID_ENV: usize = 8;
/// The most descriptors that node-init keeps for the next daemon, where its own limit of open files
/// (`RLIMIT_NOFILE`) is four times as high; a quarter of that limit otherwise.
pub const MAX_DESCRIPTORS: usize = 8192;
/// The most of them of one owner.
pub const MAX_DESCRIPTORS_OF_OWNER: usize = 1024;
/// The longest owner of a descriptor, in bytes: a unit's name (255) and what it is kept for.
pub const MAX_OWNER: usize = 288;
/// The longest name of a descriptor, in bytes: one of sd_listen_fds(3) (255) and a place.
pub const MAX_DESCRIPTOR_NAME: usize = 288;
/// The most cells of one node, running or not yet acknowledged; [`Welcome`] holds them all.
pub const MAX_CELLS: usize = 7680;

/// The group (of users) that may clone processes from the inits' cgroup into the leaves of a
/// tenant's cells. The spawner has it, cell-inits inherit it, and a workload loses it before its
/// program is executed. Below the first id that cells get where nothing is configured.
pub const CLONERS: u32 = 1_048_575;

/// One run of an object: 128 random bits, written as 32 lower-case hexadecimal digits elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Uid(pub [u8; 16]);

/// What the daemon sends node-init.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeRequest {
    /// First. `build` is for people, in a refusal.
    Hello {
        /// The daemon's [`VERSION`] of this protocol.
        version: u16,
        /// The daemon's own version.
        build: String,
    },
    /// Make a cell. Descriptors: see [`CellLaunch`].
    CreateCell {
        /// Comes back with the answer.
        request: u64,
        /// The cell to create.
        launch: CellLaunch,
    },
    /// The exit of this cell's init is stored; forget it.
    AckCell {
        /// The cell's run.
        uid: Uid,
    },
    /// Stop everything, then the machine (or, as a service, end).
    Shutdown {
        /// What happens to the machine afterwards.
        mode: PowerMode,
        /// The longest that it may take, in milliseconds; 0: node-init's own bound, which the
        /// daemon may have made longer ([`NodeRequest::EndsFirst`]).
        bound_ms: u32,
    },
    /// The newest entry of the audit, so that a cut tail shows.
    AuditHead {
        /// The entry's number.
        sequence: u64,
        /// The entry's SHA-256.
        hash: [u8; 32],
    },
    /// The daemon is ready to serve (for back-off, and `sd_notify` where init is a service).
    Ready,
    /// Whether the daemon has something to end before the cells do, when the machine goes down.
    /// Where it has, cells are left alone for at most [`FIRST_PART`] of the bound, until it hasn't
    /// any more. For as long as this connection.
    EndsFirst {
        /// It has.
        wanted: bool,
        /// The longest that it takes, in milliseconds. Where the machine goes down within
        /// node-init's own bound ([`NodeEvent::ShuttingDown`], `grows`), the first of these makes
        /// that bound longer by what the first part lacks. At other times it says nothing.
        needs_ms: u32,
    },
    /// Keep a descriptor for the daemons to come. Descriptor: that one. It is no file whose closing
    /// asks a server (FUSE, NFS): node-init would wait for that.
    KeepDescriptor {
        /// Comes back with the answer.
        request: u64,
        /// Whom it is kept for: whatever the daemon calls it, at most [`MAX_OWNER`] bytes.
        owner: String,
        /// At most [`MAX_DESCRIPTOR_NAME`] bytes; several of an owner may have one name.
        name: String,
    },
    /// Close a descriptor that is kept. Of a number that isn't known nothing is closed.
    DropDescriptor {
        /// What [`NodeEvent::DescriptorKept`] or [`NodeEvent::Descriptor`] called it.
        number: u64,
    },
    /// Hand over all that are kept: [`NodeEvent::Descriptor`] for each, in the order of their
    /// numbers, then [`NodeEvent::DescriptorsListed`]. They stay kept. One listing at a time: a
    /// second one begins anew, and answers for both.
    ListDescriptors {
        /// Comes back with the answers.
        request: u64,
    },
    /// What is mounted on the node is what cells are to see from now on: what their roots are
    /// copies of is made anew, once no cell is in the making. Cells that are there stay as they
    /// are.
    RenewRoot,
    /// Say how orphans of the administrators' cells end: processes whose cell-init has ended before
    /// them, so that node-init is their parent. Each as an [`Orphan`] on a socket, for as long as
    /// the init of this cell lives; at first those of the last minute, [`MAX_ORPHANS`] at most.
    /// What the socket has no room for is dropped. Descriptor: the socket, whose other end goes
    /// with [`CellRequest::Orphans`].
    TellOrphans {
        /// The cell whose init is to know.
        uid: Uid,
    },
}

/// What node-init sends the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeEvent {
    /// The answer to `Hello`. Sent only when no cell is in creation any more.
    Welcome(Welcome),
    /// Another version. The connection ends.
    Refused {
        /// The init's [`VERSION`] of this protocol.
        version: u16,
        /// One sentence for people.
        reason: String,
    },
    /// The cell's init runs and listens. Descriptor: its pidfd.
    CellCreated {
        /// The number of the `CreateCell`.
        request: u64,
        /// The cell-init's, in node-init's pid namespace.
        pid: i32,
    },
    /// The cell could not be created; nothing of it is left.
    CellFailed {
        /// The number of the `CreateCell`.
        request: u64,
        /// The step that failed, and why.
        failure: Failure,
    },
    /// A cell's init has ended; kept and repeated to each new daemon until `AckCell`.
    CellExited {
        /// The cell's run.
        uid: Uid,
        /// How its init ended.
        exit: ExitRecord,
    },
    /// The machine goes down: no new work; output is still to be stored. Everything ends within the
    /// bound.
    ShuttingDown {
        /// What happens to the machine afterwards.
        mode: PowerMode,
        /// The bound from now on, in milliseconds.
        bound_ms: u32,
        /// It is node-init's own, and no one has been told of it: the daemon is to say how long it
        /// needs, by [`NodeRequest::EndsFirst`].
        grows: bool,
    },
    /// The descriptor is kept, over the death of this daemon.
    DescriptorKept {
        /// The number of the `KeepDescriptor`.
        request: u64,
        /// What it is called from now on: no other one ever is, as long as this node-init lives.
        number: u64,
    },
    /// It is not: too many are, or the request was malformed.
    DescriptorNotKept {
        /// The number of the `KeepDescriptor`.
        request: u64,
        /// The step that failed, and why.
        failure: Failure,
    },
    /// One of those that are kept. Descriptor: a duplicate.
    Descriptor {
        /// The number of the `ListDescriptors`.
        request: u64,
        /// As in `DescriptorKept`.
        number: u64,
        /// As it was given.
        owner: String,
        /// As it was given.
        name: String,
    },
    /// These were all.
    DescriptorsListed {
        /// The number of the `ListDescriptors`.
        request: u64,
    },
}

/// The facts that node-init gives a daemon that connects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The init's [`VERSION`] of this protocol.
    pub version: u16,
    /// The kind of init.
    pub role: Role,
    /// How many daemons were started since init's own start, this one included.
    pub daemon_starts: u64,
    /// `CLOCK_BOOTTIME` at init's own start, in nanoseconds.
    pub started_ns: u64,
    /// Number and SHA-256 of the last `AuditHead`.
    pub audit_head: Option<(u64, [u8; 32])>,
    /// Cell-inits that run, as node-init's children.
    pub cells: Vec<(Uid, i32)>,
    /// Whether isolated cells can be created here, or the failure.
    pub isolation: Result<(), Failure>,
}

/// The kind of init.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// PID 1 of a machine.
    Machine,
    /// PID 1 of a container that another program made.
    Container,
    /// A child subreaper under another init.
    Service,
}

/// How the machine goes down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PowerMode {
    /// The power is switched off.
    PowerOff,
    /// The machine starts again, through its firmware.
    Reboot,
    /// The machine stops; the power stays on.
    Halt,
    /// As a service: stop everything and exit.
    Exit,
}

/// A step that failed: which, the errno, and what it was about (a path, a field).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The step that failed.
    pub step: Step,
    /// The errno as in `libc`; 0 where no call failed.
    pub errno: i32,
    /// The path or field that it was about, at most 1,024 bytes.
    pub detail: String,
}

/// Steps of creating a cell or starting an executable, for [`Failure`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Step {
    /// The request is malformed, or its descriptors are not what it says.
    Protocol = 1,
    /// Too many of something.
    Limit = 2,
    /// The template mount namespace isn't there.
    Template = 3,
    /// Cloning the process.
    Clone = 4,
    /// Writing its user or group map.
    IdMap = 5,
    /// Becoming the cell's root, or the executable's user.
    Identity = 6,
    /// Mounting what every cell has.
    Mount = 7,
    /// Attaching a mount or a volume.
    Attach = 8,
    /// Setting the host name.
    Hostname = 9,
    /// Bringing the loopback up.
    Network = 10,
    /// Going into the cgroup.
    Cgroup = 11,
    /// Setting up the standard streams.
    Stdio = 12,
    /// Resolving a user or a group.
    User = 13,
    /// Going to the working directory.
    Directory = 14,
    /// Setting a resource limit.
    Rlimit = 15,
    /// Setting nice or `oom_score_adj`.
    Priority = 16,
    /// Setting the CPUs that it may use.
    Affinity = 17,
    /// Setting capabilities or `no_new_privs`.
    Capabilities = 18,
    /// Installing the filter of system calls.
    Seccomp = 19,
    /// `execve` of the program.
    Exec = 20,
    /// Entering a namespace of the enclosing cell, or of another executable.
    Namespace = 21,
    /// Building the root of an image, or going into it.
    Root = 22,
    /// Setting a parameter of the kernel.
    Sysctl = 23,
    /// Setting the priority for disks, the scheduling policy, timer slack or personality.
    Scheduling = 24,
    /// Opening a standard stream, or passing a descriptor.
    Open = 25,
    /// Making a mount namespace, or what is mounted in it.
    Sandbox = 26,
    /// Joining a network namespace.
    SandboxNetwork = 27,
    /// Making a user namespace of an executable.
    SandboxUsers = 28,
    /// Installing a filter of a sandbox.
    SandboxFilter = 29,
    /// Setting the label of a security module.
    SandboxLabel = 30,
    /// Setting where memory comes from.
    SandboxMemory = 31,
    /// Setting the label of a security module, outside of a sandbox.
    Label = 32,
    /// Handing over the listener of a filter.
    Listener = 33,
    /// Running what comes before it.
    Before = 34,
}

/// Namespaces, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Namespaces(pub u8);

impl Namespaces {
    /// User and group ids, capabilities.
    pub const USER: u8 = 1;
    /// The tree of files.
    pub const MOUNT: u8 = 2;
    /// Process ids.
    pub const PID: u8 = 4;
    /// Interfaces, addresses, ports, abstract Unix sockets.
    pub const NET: u8 = 8;
    /// System V IPC, POSIX queues.
    pub const IPC: u8 = 16;
    /// Host and domain name.
    pub const UTS: u8 = 32;
    /// The root of the cgroup tree: each executable's is its own leaf. A nested cell always has it.
    pub const CGROUP: u8 = 64;
    /// All seven.
    pub const ALL: Namespaces = Namespaces(127);

    /// Whether the set has this one.
    pub fn has(self, one: u8) -> bool {
        self.0 & one != 0
    }
}

/// One extent of a user or group id map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdMap {
    /// The first id in the cell.
    pub inside: u32,
    /// The first id outside, among the *node's* ids, also for nested cells.
    pub outside: u32,
    /// How many ids; at least 1.
    pub count: u32,
}

/// A new cell. Descriptors that go with it, in this order:
/// 1. the group of the tenant's cell-inits (directory), outside of the groups of its cells. The
///    `cgroup.procs` of the group around both belongs to the group [`CLONERS`], of which every
///    cell-init is, so that it can clone into the leaves of its cell,
/// 2. the listening control socket,
/// 3. where `parent` is set, the pidfd of the enclosing cell's init,
/// 4. for each of `joins`, the pidfd of the init of the cell that has these namespaces,
/// 5. where `root` is an image, those of [`ImageRoot`],
/// 6. that of a [`Record`] that is beside the packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CellLaunch {
    /// The cell's run.
    pub uid: Uid,
    /// New ones; the others are shared with the parent.
    pub unshare: Namespaces,
    /// What the root of the cell's files is. Other than the node's only with a mount namespace of
    /// the cell's own.
    pub root: Root,
    /// The enclosing cell is another cell, not the node.
    pub parent: bool,
    /// Namespaces that are neither new nor the parent's, but another cell's: of the network, of IPC
    /// and of UTS; at most [`MAX_JOINS`].
    pub joins: Vec<Namespaces>,
    /// The map of user ids; empty where the user namespace is shared. Inside id 0 must be mapped.
    pub uid_map: Vec<IdMap>,
    /// The map of group ids; as `uid_map`.
    pub gid_map: Vec<IdMap>,
    /// The user id on the node that the cell-init runs as. No other process has it and `uid_map`
    /// hasn't got it, so that no workload can become it. With a user namespace of its own it is of
    /// the cell's range; where that is the enclosing cell's, that cell's; 0 where it is the node's.
    pub init_id: u32,
    /// The title of the init that `ps` on the node shows behind `aurae-cell`: TENANT/CELL.
    pub title: String,
    /// Empty: unchanged. Only with a UTS namespace of its own.
    pub hostname: String,
    /// Volumes to mount; only with a mount namespace of its own.
    pub volumes: Vec<Volume>,
    /// Parameters of the kernel to set, of namespaces of its own; at most [`MAX_SYSCTLS`].
    pub sysctls: Vec<Sysctl>,
    /// The cell's opaque record, returned to each new daemon.
    pub record: Record,
}

/// A parameter of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sysctl {
    /// Below `/proc/sys`, as in `net/core/somaxconn`.
    pub path: String,
    /// What is written.
    pub value: String,
}

/// What the root of a cell's files is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Root {
    /// The allowed folders of the node, read-only.
    Node,
    /// No file of the node and of no image: the folders that every cell has, and empty ones to
    /// mount on.
    Bare,
    /// The folders of an image, stacked.
    Image(ImageRoot),
}

/// The root of a cell from an image (a container). Descriptors that go with it, in this order:
/// 1. a detached mount of the folder that the layers are in, never attached anywhere: where the
///    cell has user ids of its own, the spawner maps the owners of its files to those,
/// 2. where `writable` is set, a detached mount of a folder with two empty ones in it, `upper` and
///    `work`, on a file system with extended attributes of the kind `trusted`. Owner and mode of
///    `upper` are those of the cell's `/`, as ids of the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageRoot {
    /// The layers' folders, the uppermost first, 1 to [`MAX_LAYERS`]: paths in that folder, without
    /// `..` and through no link.
    pub layers: Vec<Vec<u8>>,
    /// Whether the cell can write to its root; all of that goes to `upper`.
    pub writable: bool,
    /// Absolute paths of the cell that show nothing: what isn't there needs no mask. Links are
    /// followed inside of the image alone, and none below `/proc` and `/sys`.
    pub masked: Vec<Vec<u8>>,
    /// Absolute paths of the cell that can't be written.
    pub read_only: Vec<Vec<u8>>,
    /// The most that `/dev/shm` holds, in bytes; 0: half of the machine's memory.
    pub shared_memory_bytes: u64,
    /// PID 1 of an inner pid namespace can write to its groups, where their owners let it.
    pub own_groups: bool,
    /// The label of SELinux's that all files of the root, of `/dev` and of terminals have. Empty:
    /// what the kernel's policy says.
    pub file_label: String,
}

/// The pid namespace that an executable runs in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pids {
    /// The cell's.
    Cell,
    /// A new one, as its PID 1, with a proc of its own: in a mount namespace of its own, into which
    /// later mounts of the cell come. Only with a root other than the node's.
    New,
    /// Those of another executable of the cell, which was started with [`Pids::New`] and runs.
    Of(Uid),
}

/// Where one mount is attached in a cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountTarget {
    /// An absolute path in the cell. It is created where it isn't there. With the node's root and
    /// the bare one it lies under a folder that every cell has of its own (/tmp, /run, /var/tmp) or
    /// that is hidden (/home, /root, /var/log, ...). In an image links are followed, inside of it.
    pub target: Vec<u8>,
    /// Whether the mount is a folder, or a file.
    pub directory: bool,
}

/// A tmpfs of the cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Volume {
    /// As [`MountTarget::target`]; a folder.
    pub target: Vec<u8>,
    /// The most it holds, in bytes; 0: half of the machine's memory.
    pub size_bytes: u64,
    /// Permissions of its root, as in `chmod`.
    pub mode: u32,
    /// The user of the cell that its root belongs to.
    pub uid: u32,
    /// The group of the cell that its root belongs to.
    pub gid: u32,
    /// No program in it can be executed.
    pub no_exec: bool,
}

/// What the daemon sends a cell-init.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CellRequest {
    /// The first request.
    Hello {
        /// The daemon's [`VERSION`] of this protocol.
        version: u16,
    },
    /// Replace the cell's own record.
    PutCellRecord {
        /// Comes back with the answer.
        request: u64,
        /// The new one.
        record: Record,
    },
    /// Replace a workload's record (a stop was asked for, labels changed).
    PutRecord {
        /// Comes back with the answer.
        request: u64,
        /// The workload's run.
        uid: Uid,
        /// The new one.
        record: Record,
    },
    /// Start an executable. Descriptors: see [`Launch`].
    Start {
        /// Comes back with the answer.
        request: u64,
        /// The executable to start.
        launch: Launch,
    },
    /// Signal the main process. Race-free: cell-init is its parent.
    Signal {
        /// Comes back with the answer.
        request: u64,
        /// The workload's run.
        uid: Uid,
        /// The signal's number, 1 to 64.
        signal: u8,
    },
    /// Close the kept write end of standard input.
    CloseStdin {
        /// Comes back with the answer.
        request: u64,
        /// The workload's run.
        uid: Uid,
    },
    /// The exit and all output of this workload are stored; forget it and close its pipes.
    Ack {
        /// The workload's run.
        uid: Uid,
    },
    /// Attach the staging folder of this cell: a slave of a folder of the node, empty at first.
    /// Mounts that the node attaches in it later show here with flags that the cell's root can't
    /// clear; a mount that the cell-init attached from a descriptor wouldn't have such flags.
    /// Descriptor: the slave.
    Stage {
        /// Comes back with the answer.
        request: u64,
    },
    /// Attach a copy of a mount of the staging folder at its target.
    Mount {
        /// Comes back with the answer.
        request: u64,
        /// The mount's number in the folder.
        from: u32,
        /// Where it is attached in the cell.
        to: MountTarget,
    },
    /// Detach the mount at a path.
    Unmount {
        /// Comes back with the answer.
        request: u64,
        /// The path that it was attached at.
        target: Vec<u8>,
    },
    /// A request that is too long for a packet. Descriptors: a sealed memfd of at most
    /// [`MAX_SEALED`] bytes with the packet of a [`CellRequest::Start`], then those of that. The
    /// answer has the number of the request inside.
    Sealed {
        /// The number of the request inside.
        request: u64,
    },
    /// Serve a light cell, too: one that shares all of this cell's namespaces. Its conversation is
    /// one of its own, on its own socket, and is about that cell alone. Descriptor: the listening
    /// socket.
    Light {
        /// Comes back with the answer.
        request: u64,
        /// The light cell's run.
        uid: Uid,
        /// The light cell's opaque record, as [`CellLaunch::record`].
        record: Record,
    },
    /// Serve a light cell no more that came to nothing. Refused (EBUSY) while something runs in it.
    Unlight {
        /// Comes back with the answer.
        request: u64,
        /// The light cell's run.
        uid: Uid,
    },
    /// Which process is the main one of a workload from now on: a child of this init, or one that
    /// was, and no other workload's (EEXIST). Where it has ended already, its end is told, if it is
    /// known still. Of one that another process is the parent of, how it ends isn't known. A
    /// workload that has forked may get another after its main process's end, until `Ack`.
    /// Descriptor: its pidfd.
    Main {
        /// Comes back with the answer.
        request: u64,
        /// The workload's run.
        uid: Uid,
        /// Its process id in the cell-init's pid namespace.
        pid: i32,
    },
    /// Where node-init says how those end that it is the parent of. Before the first `Adopt`.
    /// Descriptor: the socket; see [`NodeRequest::TellOrphans`].
    Orphans {
        /// Comes back with the answer.
        request: u64,
    },
    /// Keep a workload that another init of this cell had kept, and that has died. Descriptors: its
    /// leaf, then those of a [`CellEvent::Workload`]. The answer is `Done`; what has ended
    /// meanwhile is told as any end.
    Adopt {
        /// Comes back with the answer.
        request: u64,
        /// What the daemon knows of it.
        state: WorkloadState,
        /// As in [`Launch`].
        forks: bool,
        /// As in [`Launch`].
        stop_signal: u8,
        /// As in [`Launch`], in milliseconds.
        grace_ms: u32,
    },
    /// End: nothing runs here any more. Refused (EBUSY) while something does, or a light cell that
    /// is served here has a daemon's connection or something that runs. A light cell's
    /// conversation ends; any other cell's init does, which serves no light cells any more.
    Exit {
        /// Comes back with the answer.
        request: u64,
    },
}

/// What a cell-init sends the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CellEvent {
    /// The answer to `Hello`: the cell's uid and record; `workloads` packets of `Workload` follow.
    Welcome {
        /// The init's [`VERSION`] of this protocol.
        version: u16,
        /// The cell's run.
        uid: Uid,
        /// The last `PutCellRecord`, or what it was made with.
        record: Record,
        /// How many `Workload` follow.
        workloads: u32,
    },
    /// Another version, or a request before `Hello`. The connection ends.
    Refused {
        /// The init's [`VERSION`] of this protocol.
        version: u16,
        /// One sentence for people.
        reason: String,
    },
    /// One per workload, running or ended and not acknowledged. Descriptors: the pidfd if it has
    /// a process, then the kept read ends (stdout and stderr, or the terminal's master), then the
    /// write end of stdin if kept, and that of a [`Record`] beside the packet.
    Workload(WorkloadState),
    /// The program was executed. Descriptors: its pidfd; with [`Stdio::Terminal`] then the master.
    Started {
        /// Comes back with the answer.
        request: u64,
        /// The process id in the cell-init's pid namespace.
        pid: i32,
        /// As [`WorkloadState::started_ns`], so that the next daemon says the same.
        started_ns: u64,
    },
    /// The request failed; nothing of it is left.
    Failed {
        /// Comes back with the answer.
        request: u64,
        /// The step that failed, and why.
        failure: Failure,
    },
    /// A request without an answer of its own was carried out.
    Done {
        /// Comes back with the answer.
        request: u64,
    },
    /// The first process of a workload that [`Launch::forks`] has exited with 0: it has no main
    /// process until `Main` says so. Kept, see [`WorkloadState::first`].
    Forked {
        /// The workload's run.
        uid: Uid,
        /// How its first process ended.
        exit: ExitRecord,
    },
    /// A workload's main process has ended; kept until `Ack`.
    Exited {
        /// The workload's run.
        uid: Uid,
        /// How its main process ended.
        exit: ExitRecord,
    },
}
