// SPDX-License-Identifier: Apache-2.0
//! What a program is kept from beyond its capabilities: namespaces of its own with mounts in them,
//! and filters. Plain data of a [`super::Launch`]; the cell-init's child carries it out, between
//! its scheduling and its user. The words are those of systemd.exec(5); what a directive stands for
//! is decided by who sends this, and nothing here knows a directive but for the texts of failures.
//!
//! It is for cells that share the node's mounts and users alone. A container has its root instead.

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sandbox {
    /// A mount namespace of its own, with these in it.
    pub mounts: Option<Mounts>,
    /// A file that is a network namespace, which is joined.
    pub network: Option<Vec<u8>>,
    /// A file that is an IPC namespace, which is joined.
    pub ipc: Option<Vec<u8>>,
    /// A UTS namespace of its own.
    pub hostname: bool,
    /// A user namespace of its own, in which root and its user are themselves and all others are
    /// the overflow user.
    pub users: bool,
    /// `SECBIT_*`; 0: unchanged.
    pub secure_bits: u32,
    /// `MPOL_*`, and a bit per memory node.
    pub memory: Option<MemoryPolicy>,
    /// The profile or label of a security module.
    pub label: Option<Label>,
    /// Compiled filters, `struct sock_filter[]` each; all of them count.
    pub filters: Vec<Vec<u8>>,
}

/// A mount namespace: a copy of the node's, less what is said here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounts {
    /// A folder that becomes the root.
    pub root: Option<Vec<u8>>,
    /// What mounts that are made later in it do.
    pub propagation: Spread,
    /// Set-id bits do nothing anywhere.
    pub no_suid: bool,
    /// In any order: those nearer to the root come first, and of one place the strictest counts.
    pub entries: Vec<Entry>,
}

/// How mounts spread (mount_namespaces(7)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// From the node, and to namespaces made below.
    Shared,
    /// From the node.
    Slave,
    /// Neither from the node nor below.
    Private,
}

/// One place, and what becomes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// An absolute path; symbolic links are followed, none out of `root`.
    pub target: Vec<u8>,
    /// Below [`Mounts::root`], where there is one; else of the node's root.
    pub in_root: bool,
    /// It needn't be there; of a bound one, its source.
    pub optional: bool,
    /// What becomes of it.
    pub kind: Kind,
    /// Who wants it, for people: the directive with its file and line.
    pub why: String,
}

/// What becomes of a place; in the order of strictness.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing can be seen of it.
    Inaccessible,
    /// Another place is shown.
    Bind {
        /// An absolute path on the node.
        source: Vec<u8>,
        /// With the mounts below it.
        recursive: bool,
        /// It can't be written.
        read_only: bool,
    },
    /// An empty file system of its own.
    Temporary {
        /// Options of tmpfs (`size=…`).
        options: Vec<MountOption>,
        /// `MOUNT_ATTR_*`.
        attributes: u32,
    },
    /// A few devices that do no harm, and terminals.
    Devices,
    /// A procfs.
    Processes {
        /// `hidepid=`; empty: the default.
        hide: String,
        /// Nothing but processes.
        only: bool,
    },
    /// The kernel's objects.
    Kernel,
    /// Message queues of the IPC namespace.
    Queues,
    /// It can't be written.
    ReadOnly,
    /// What is above doesn't make it read-only.
    ReadWrite,
    /// No program is executed from it.
    NoExec,
    /// What is above doesn't take programs from it.
    Exec,
}

/// An option of a file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountOption {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Where memory comes from (set_mempolicy(2)).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryPolicy {
    /// `MPOL_*`.
    pub mode: u8,
    /// A bit per node.
    pub nodes: Vec<u8>,
}

/// A profile or label that the next program gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The file below `/proc/self/attr`.
    pub file: String,
    /// What is written to it.
    pub text: String,
    /// Where it can't be had, the program runs without.
    pub optional: bool,
}
