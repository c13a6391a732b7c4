// SPDX-License-Identifier: Apache-2.0
//! The layout of a [`Sandbox`] in a packet. A table, as [`super::messages`] is.

use super::CodecError;
use super::field::{Bytes, Field, List, Maybe, Plain, Reader, Text, Writer};
use super::messages::{FILTER, NAME, PATH, PROCESSORS, SENTENCE, choice, layout};
use crate::protocol::sandbox::{
    Entry, Kind, Label, MemoryPolicy, MountOption, Mounts, Sandbox, Spread,
};

/// The most places of one namespace.
const ENTRIES: usize = 1024;
/// The most filters of one program.
const FILTERS: usize = 32;
/// The most options of a file system.
const OPTIONS: usize = 32;

layout!(Sandbox {
    mounts: Maybe(Plain),
    network: Maybe(Bytes(PATH)),
    ipc: Maybe(Bytes(PATH)),
    hostname: Plain,
    users: Plain,
    secure_bits: Plain,
    memory: Maybe(Plain),
    label: Maybe(Plain),
    filters: List(FILTERS, Bytes(FILTER)),
});

layout!(Mounts {
    root: Maybe(Bytes(PATH)),
    propagation: Plain,
    no_suid: Plain,
    entries: List(ENTRIES, Plain),
});

layout!(Entry {
    target: Bytes(PATH),
    in_root: Plain,
    optional: Plain,
    kind: Plain,
    why: Text(SENTENCE),
});

layout!(MemoryPolicy {
    mode: Plain,
    nodes: Bytes(PROCESSORS),
});

layout!(MountOption {
    name: Text(NAME),
    value: Text(SENTENCE),
});

layout!(Label {
    file: Text(NAME),
    text: Text(SENTENCE),
    optional: Plain,
});

choice!(Spread { 1 Shared, 2 Slave, 3 Private });
choice!(Kind {
    1 Inaccessible,
    2 Bind { source: Bytes(PATH), recursive: Plain, read_only: Plain },
    3 Temporary { options: List(OPTIONS, Plain), attributes: Plain },
    4 Devices,
    5 Processes { hide: Text(NAME), only: Plain },
    6 Kernel,
    7 Queues,
    8 ReadOnly,
    9 ReadWrite,
    10 NoExec,
    11 Exec,
});
