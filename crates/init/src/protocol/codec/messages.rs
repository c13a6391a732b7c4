// SPDX-License-Identifier: Apache-2.0
//! The layout of every message: which field stands where, and how long it may be.
//!
//! A table, not logic. Adding a field here changes [`super::super::VERSION`].

use super::field::{Bytes, Field, List, Maybe, Outcome, Plain, Reader, Text, Writer};
use super::{CodecError, Packet};
use crate::protocol::{
    Before, CellEvent, CellLaunch, CellRequest, ExitHow, ExitRecord, Failure, First, IdMap,
    ImageRoot, Keyring, Launch, Listening, MAX_BEFORE, MAX_CELLS, MAX_DESCRIPTOR_NAME, MAX_JOINS,
    MAX_LAYERS, MAX_OWNER, MAX_PASSED, MAX_PATHS, MAX_PID_ENV, MAX_RECORD, MAX_SEALED, MAX_STRING,
    MAX_SYSCTLS, MountTarget, Namespaces, NodeEvent, NodeRequest, Open, OpenHow, Orphan, Pids,
    PowerMode, Principal, Record, Role, Root, Stdio, Step, Sysctl, Uid, Volume, Welcome,
    WorkloadState,
};
use crate::spawner::wire::SpawnerEvent;

/// A sentence for people.
pub(super) const SENTENCE: usize = 1024;
/// A host name (`HOST_NAME_MAX`) or the name of a user.
pub(super) const NAME: usize = 64;
/// A label of SELinux's.
const NAME_OF_LABEL: usize = 255;
/// The name of a descriptor (sd_listen_fds(3)).
const DESCRIPTOR: usize = 255;
/// The longest path, in bytes (`PATH_MAX`).
pub(super) const PATH: usize = 4096;
/// Extents of an id map (the kernel's limit).
const EXTENTS: usize = 340;
/// Volumes of one cell.
const VOLUMES: usize = 256;
/// Arguments, and variables of an environment: an empty one takes `execve` a byte and a pointer, so
/// it takes no more in 6 MiB.
const STRINGS: usize = 6 * 1024 * 1024 / 9;
/// The most supplementary groups.
const GROUPS: usize = 1024;
/// A compiled seccomp filter: `BPF_MAXINSNS` (4,096) of 8 bytes.
pub(super) const FILTER: usize = 32 * 1024;
/// A bit per processor.
pub(super) const PROCESSORS: usize = 1024;

macro_rules! layout {
    ($type:ident { $($field:ident: $codec:expr),* $(,)? }) => {
        impl Field<$type> for Plain {
            fn put(
                &self,
                value: &$type,
                _: &'static str,
                to: &mut Writer<'_>,
            ) -> Result<(), CodecError> {
                $($codec.put(&value.$field, stringify!($field), to)?;)*
                Ok(())
            }
            fn get(&self, _: &'static str, from: &mut Reader<'_>) -> Result<$type, CodecError> {
                Ok($type { $($field: $codec.get(stringify!($field), from)?),* })
            }
        }
    };
}

macro_rules! choice {
    ($type:ident {
        $($tag:literal $variant:ident
            $({ $($field:ident: $codec:expr),* $(,)? })?
            $(($inner:ident: $inner_codec:expr))?),* $(,)?
    }) => {
        impl Field<$type> for Plain {
            fn put(
                &self,
                value: &$type,
                _: &'static str,
                to: &mut Writer<'_>,
            ) -> Result<(), CodecError> {
                match value {
                    $($type::$variant $({ $($field),* })? $(($inner))? => {
                        to.put(&[$tag], stringify!($type))?;
                        $($($codec.put($field, stringify!($field), to)?;)*)?
                        $($inner_codec.put($inner, stringify!($inner), to)?;)?
                    })*
                }
                Ok(())
            }
            fn get(&self, _: &'static str, from: &mut Reader<'_>) -> Result<$type, CodecError> {
                let tag: u8 = Plain.get(stringify!($type), from)?;
                match tag {
                    $($tag => Ok($type::$variant
                        $({ $($field: $codec.get(stringify!($field), from)?),* })?
                        $(($inner_codec.get(stringify!($inner), from)?))?),)*
                    _ => Err(CodecError::Unknown {
                        field: stringify!($type),
                        value: tag.into(),
                    }),
                }
            }
        }
    };
}

pub(super) use {choice, layout};

macro_rules! packets {
    ($($type:ident),*) => {$(
        impl Packet for $type {
            fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
                Plain.put(self, stringify!($type), &mut Writer::new(out))
            }
            fn decode(packet: &[u8]) -> Result<Self, CodecError> {
                let mut from = Reader::new(packet);
                let message = Plain.get(stringify!($type), &mut from)?;
                from.finish()?;
                Ok(message)
            }
        }
    )*};
}

packets!(
    NodeRequest,
    NodeEvent,
    CellRequest,
    CellEvent,
    Failure,
    Orphan,
    SpawnerEvent
);

choice!(NodeRequest {
    1 Hello { version: Plain, build: Text(SENTENCE) },
    2 CreateCell { request: Plain, launch: Plain },
    3 AckCell { uid: Plain },
    4 Shutdown { mode: Plain, bound_ms: Plain },
    5 AuditHead { sequence: Plain, hash: Plain },
    6 Ready,
    7 EndsFirst { wanted: Plain, needs_ms: Plain },
    8 KeepDescriptor { request: Plain, owner: Text(MAX_OWNER), name: Text(MAX_DESCRIPTOR_NAME) },
    9 DropDescriptor { number: Plain },
    10 ListDescriptors { request: Plain },
    11 RenewRoot,
    12 TellOrphans { uid: Plain },
});

choice!(NodeEvent {
    1 Welcome(welcome: Plain),
    2 Refused { version: Plain, reason: Text(SENTENCE) },
    3 CellCreated { request: Plain, pid: Plain },
    4 CellFailed { request: Plain, failure: Plain },
    5 CellExited { uid: Plain, exit: Plain },
    6 ShuttingDown { mode: Plain, bound_ms: Plain, grows: Plain },
    7 DescriptorKept { request: Plain, number: Plain },
    8 DescriptorNotKept { request: Plain, failure: Plain },
    9 Descriptor {
        request: Plain,
        number: Plain,
        owner: Text(MAX_OWNER),
        name: Text(MAX_DESCRIPTOR_NAME),
    },
    10 DescriptorsListed { request: Plain },
});

choice!(CellRequest {
    // The first, because `start_head` knows it.
    1 Start { request: Plain, launch: Plain },
    2 Hello { version: Plain },
    3 PutCellRecord { request: Plain, record: Plain },
    4 PutRecord { request: Plain, uid: Plain, record: Plain },
    5 Signal { request: Plain, uid: Plain, signal: Plain },
    6 CloseStdin { request: Plain, uid: Plain },
    7 Ack { uid: Plain },
    8 Mount { request: Plain, from: Plain, to: Plain },
    9 Unmount { request: Plain, target: Bytes(PATH) },
    10 Exit { request: Plain },
    11 Stage { request: Plain },
    12 Sealed { request: Plain },
    13 Light { request: Plain, uid: Plain, record: Plain },
    14 Main { request: Plain, uid: Plain, pid: Plain },
    15 Unlight { request: Plain, uid: Plain },
    16 Orphans { request: Plain },
    17 Adopt {
        request: Plain,
        state: Plain,
        forks: Plain,
        stop_signal: Plain,
        grace_ms: Plain,
    },
});

choice!(CellEvent {
    1 Welcome { version: Plain, uid: Plain, record: Plain, workloads: Plain },
    2 Refused { version: Plain, reason: Text(SENTENCE) },
    3 Workload(state: Plain),
    4 Started { request: Plain, pid: Plain, started_ns: Plain },
    5 Failed { request: Plain, failure: Plain },
    6 Done { request: Plain },
    7 Exited { uid: Plain, exit: Plain },
    8 Forked { uid: Plain, exit: Plain },
});

choice!(SpawnerEvent {
    1 Isolation { outcome: Outcome(Plain) },
    2 Cloned { request: Plain, pid: Plain },
    3 Failed { request: Plain, failure: Plain },
});

layout!(Welcome {
    version: Plain,
    role: Plain,
    daemon_starts: Plain,
    started_ns: Plain,
    audit_head: Maybe(Plain),
    cells: List(MAX_CELLS, Plain),
    isolation: Outcome(Plain),
});

layout!(CellLaunch {
    uid: Plain,
    unshare: Plain,
    root: Plain,
    parent: Plain,
    joins: List(MAX_JOINS, Plain),
    uid_map: List(EXTENTS, Plain),
    gid_map: List(EXTENTS, Plain),
    init_id: Plain,
    title: Text(SENTENCE),
    hostname: Text(NAME),
    volumes: List(VOLUMES, Plain),
    sysctls: List(MAX_SYSCTLS, Plain),
    record: Plain,
});

layout!(ImageRoot {
    layers: List(MAX_LAYERS, Bytes(SENTENCE)),
    writable: Plain,
    masked: List(MAX_PATHS, Bytes(SENTENCE)),
    read_only: List(MAX_PATHS, Bytes(SENTENCE)),
    shared_memory_bytes: Plain,
    own_groups: Plain,
    file_label: Text(NAME_OF_LABEL),
});

layout!(Launch {
    // The fields that the cell-init itself reads; see `StartHead`.
    uid: Plain,
    pids: Plain,
    stdio: Plain,
    keep_stdin: Plain,
    passed: Plain,
    listens: Plain,
    forks: Plain,
    stop_signal: Plain,
    grace_ms: Plain,
    oom_score_adj: Maybe(Plain),
    record: Plain,
    // The fields that its child reads.
    argv: List(STRINGS, Bytes(MAX_STRING)),
    env: List(STRINGS, Bytes(MAX_STRING)),
    cwd: Bytes(PATH),
    user: Maybe(Plain),
    group: Maybe(Plain),
    groups: List(GROUPS, Plain),
    member: Plain,
    umask: Plain,
    rlimits: List(64, Plain),
    nice: Plain,
    affinity: Bytes(PROCESSORS),
    bounding: Plain,
    ambient: Plain,
    no_new_privileges: Plain,
    seccomp: Bytes(FILTER),
    seccomp_log: Plain,
    listener: Maybe(Plain),
    program: Maybe(Bytes(PATH)),
    cwd_optional: Plain,
    opens: List(3, Plain),
    names: List(MAX_PASSED, Text(DESCRIPTOR)),
    nonblocking: Plain,
    pid_env: List(MAX_PID_ENV, Text(NAME)),
    io_priority: Maybe(Plain),
    policy: Maybe(Plain),
    reset_on_fork: Plain,
    timer_slack_ns: Plain,
    ignore_sigpipe: Plain,
    keyring: Plain,
    linux32: Plain,
    label: Maybe(Plain),
    sandbox: Maybe(Plain),
    before: Maybe(Plain),
});

layout!(Before {
    state: Bytes(PATH),
    programs: List(MAX_BEFORE, Plain),
});

layout!(First {
    path: Bytes(PATH),
    argv: List(STRINGS, Bytes(MAX_STRING)),
    env: List(STRINGS, Bytes(MAX_STRING)),
    timeout_ms: Plain,
});

layout!(Listening {
    program: Bytes(FILTER),
    killable: Plain,
});

layout!(Open {
    stream: Plain,
    how: Plain,
    path: Bytes(PATH),
});

/// The part of [`CellRequest::Start`] that the cell-init itself needs; the rest is read by its
/// child, in a copy of the packet, so that an idle cell-init holds no memory for what others ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartHead {
    /// The number of the request.
    pub request: u64,
    /// As in [`Launch`].
    pub uid: Uid,
    /// As in [`Launch`].
    pub pids: Pids,
    /// As in [`Launch`].
    pub stdio: Stdio,
    /// As in [`Launch`].
    pub keep_stdin: bool,
    /// As in [`Launch`].
    pub passed: u16,
    /// As in [`Launch`].
    pub listens: bool,
    /// As in [`Launch`].
    pub forks: bool,
    /// As in [`Launch`].
    pub stop_signal: u8,
    /// As in [`Launch`], in milliseconds.
    pub grace_ms: u32,
    /// As in [`Launch`].
    pub oom_score_adj: Option<i16>,
    /// As in [`Launch`].
    pub record: Record,
}

choice!(Record {
    1 Here(record: Bytes(MAX_RECORD)),
    2 Beside,
});

layout!(StartHead {
    request: Plain,
    uid: Plain,
    pids: Plain,
    stdio: Plain,
    keep_stdin: Plain,
    passed: Plain,
    listens: Plain,
    forks: Plain,
    stop_signal: Plain,
    grace_ms: Plain,
    oom_score_adj: Maybe(Plain),
    record: Plain,
});

/// The head of a [`CellRequest::Start`]; nothing if the packet is another message. What follows the
/// head is not looked at.
///
/// # Errors
/// As [`Packet::decode`], for the head alone.
pub fn start_head(packet: &[u8]) -> Result<Option<StartHead>, CodecError> {
    match packet.split_first() {
        Some((1, rest)) => Plain.get("StartHead", &mut Reader::new(rest)).map(Some),
        _ => Ok(None),
    }
}

/// The bytes that [`CellRequest::Sealed`] brings in a memfd: the packet of a `Start` that may be
/// longer than a packet. It is read by [`start_head`] and [`Packet::decode`] as any other.
///
/// # Errors
/// As [`Packet::encode`], with [`MAX_SEALED`] as the limit.
pub fn encode_sealed(start: &CellRequest, out: &mut Vec<u8>) -> Result<(), CodecError> {
    Plain.put(start, "Sealed", &mut Writer::bounded(out, MAX_SEALED))
}

layout!(WorkloadState {
    uid: Plain,
    pid: Plain,
    stdio: Plain,
    has_stdin: Plain,
    record: Plain,
    started_ns: Plain,
    exit: Maybe(Plain),
    first: Maybe(Plain),
    has_process: Plain,
});

layout!(ExitRecord {
    how: Plain,
    started_ns: Plain,
    finished_ns: Plain,
    user_ns: Plain,
    system_ns: Plain,
    max_rss_bytes: Plain,
    minor_faults: Plain,
    major_faults: Plain,
    voluntary_switches: Plain,
    involuntary_switches: Plain,
    oom_kills: Maybe(Plain),
});

layout!(Orphan {
    pid: Plain,
    exit: Plain
});
layout!(Failure {
    step: Plain,
    errno: Plain,
    detail: Text(SENTENCE)
});
layout!(IdMap {
    inside: Plain,
    outside: Plain,
    count: Plain
});
layout!(MountTarget {
    target: Bytes(PATH),
    directory: Plain
});
layout!(Volume {
    target: Bytes(PATH),
    size_bytes: Plain,
    mode: Plain,
    uid: Plain,
    gid: Plain,
    no_exec: Plain
});
layout!(Sysctl {
    path: Text(SENTENCE),
    value: Text(SENTENCE)
});

choice!(ExitHow { 1 Code(code: Plain), 2 Signal { signal: Plain, core: Plain }, 3 Unknown });
choice!(Root { 1 Node, 2 Bare, 3 Image(image: Plain) });
choice!(Pids { 1 Cell, 2 New, 3 Of(uid: Plain) });
choice!(Principal { 1 Id(id: Plain), 2 Name(name: Text(NAME)) });
choice!(OpenHow {
    1 Plain,
    2 Append,
    3 Truncate,
    4 Terminal,
    5 Same,
    6 TerminalWhenFree,
    7 TerminalByForce
});
choice!(Keyring { 1 Private, 2 Shared, 3 Inherit });
choice!(Stdio { 1 Pipes, 2 Terminal { rows: Plain, columns: Plain } });
choice!(Role { 1 Machine, 2 Container, 3 Service });
choice!(PowerMode { 1 PowerOff, 2 Reboot, 3 Halt, 4 Exit });
choice!(Step {
    1 Protocol, 2 Limit, 3 Template, 4 Clone, 5 IdMap, 6 Identity, 7 Mount, 8 Attach, 9 Hostname,
    10 Network, 11 Cgroup, 12 Stdio, 13 User, 14 Directory, 15 Rlimit, 16 Priority, 17 Affinity,
    18 Capabilities, 19 Seccomp, 20 Exec, 21 Namespace, 22 Root,
    23 Sysctl, 24 Scheduling, 25 Open,
    26 Sandbox, 27 SandboxNetwork, 28 SandboxUsers, 29 SandboxFilter, 30 SandboxLabel,
    31 SandboxMemory, 32 Label, 33 Listener, 34 Before,
});

impl Field<Namespaces> for Plain {
    fn put(
        &self,
        value: &Namespaces,
        name: &'static str,
        to: &mut Writer<'_>,
    ) -> Result<(), CodecError> {
        Plain.put(&value.0, name, to)
    }
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<Namespaces, CodecError> {
        let bits: u8 = Plain.get(name, from)?;
        match bits & !Namespaces::ALL.0 {
            0 => Ok(Namespaces(bits)),
            unknown => Err(CodecError::Unknown {
                field: name,
                value: unknown.into(),
            }),
        }
    }
}
