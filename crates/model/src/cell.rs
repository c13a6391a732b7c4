// SPDX-License-Identifier: Apache-2.0
//! The spec of a cell: the namespaces that it shares with the enclosing cell, its limits, mounts
//! and volumes. A [`Draft`] is data; a [`CellSpec`] is a draft that was checked here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::container::Container;
use crate::error::{Error, Result, Within};
use crate::name::{Label, ObjectPath};
use crate::network::Network;
use crate::quota::Storage;
use crate::resources::Resources;
use crate::text::{check_absolute_path, check_count, check_length, is_path_within, weight};

/// The most mounts, and the most volumes, of one cell.
pub const MAX_MOUNTS: usize = 256;
/// The most that a cell's spec may take in its record, in bytes.
pub const MAX_CELL_WEIGHT: usize = 48 * 1024;
/// The most parameters of the kernel that a cell sets.
pub const MAX_SYSCTLS: usize = 64;
/// The fewest ids of a cell: its root's and its init's.
pub const MIN_ID_RANGE: u32 = 2;
/// The number of user and group ids of a cell whose spec has none.
pub const DEFAULT_ID_RANGE: u32 = 65_536;
/// The most ids a cell may have.
pub const MAX_ID_RANGE: u32 = 1 << 26;
/// The size of a volume whose spec has none, in bytes.
pub const DEFAULT_VOLUME_BYTES: u64 = 64 << 20;
/// The mode of a volume whose spec has none.
pub const DEFAULT_VOLUME_MODE: u32 = 0o1777;

/// Places that the cell's own file systems own, where nothing may be put.
const RESERVED: [&str; 3] = ["/proc", "/sys", "/dev"];
/// The one place in them that a file may be mounted at: where Kubernetes' programs leave a message
/// when they end. Only the root of an image has room for it.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// The one folder in them that may have another over it: memory that programs share, of another
/// size, or between containers.
const SHARED_MEMORY: &str = "/dev/shm";

/// A namespace of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespace {
    /// User and group ids, capabilities.
    User,
    /// The table of mounts.
    Mount,
    /// Process ids.
    Pid,
    /// Devices, addresses, ports, abstract Unix sockets.
    Net,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// Host and domain name.
    Uts,
    /// The view of the cgroup tree.
    Cgroup,
}

impl Namespace {
    /// All seven.
    pub const ALL: [Namespace; 7] = [
        Namespace::User,
        Namespace::Mount,
        Namespace::Pid,
        Namespace::Net,
        Namespace::Ipc,
        Namespace::Uts,
        Namespace::Cgroup,
    ];

    /// The name in documents and command lines: `user`, `mount`, …
    pub fn as_str(self) -> &'static str {
        match self {
            Namespace::User => "user",
            Namespace::Mount => "mount",
            Namespace::Pid => "pid",
            Namespace::Net => "net",
            Namespace::Ipc => "ipc",
            Namespace::Uts => "uts",
            Namespace::Cgroup => "cgroup",
        }
    }
}

/// The spec as a client sent it; no field is checked yet.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Draft {
    /// Shared with the parent.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub share: BTreeSet<Namespace>,
    /// Of another cell of the tenant, whose path is told: network, IPC or UTS.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub join: BTreeMap<Namespace, ObjectPath>,
    /// Limits of the cell.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub resources: Resources,
    /// Parts of the node's file system.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub mounts: Vec<Mount>,
    /// Private in-memory folders (tmpfs), at most [`MAX_MOUNTS`].
    #[serde(skip_serializing_if = "crate::is_default")]
    pub volumes: Vec<Volume>,
    /// Empty: the last label of its path.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub hostname: String,
    /// How many user and group ids it has.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub id_range: Option<u32>,
    /// A root of its own. `None`: the allowed folders of the node.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub container: Option<Container>,
    /// Parameters of the kernel (`/proc/sys`) that belong to the cell's own namespaces.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub sysctls: BTreeMap<String, String>,
    /// What it is attached to, and which ports of the node lead to it.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub network: Option<Network>,
    /// It shares every namespace of the cell around it, whose init is its, too: it is a group with
    /// limits and a record. See [`Draft::share`], which it leaves empty.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub light: bool,
}

/// A part of the node's file system, let into a cell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mount {
    /// An absolute path on the node.
    pub source: String,
    /// An absolute path in the cell; empty: the same as `source`.
    #[serde(default)]
    pub target: String,
    /// Read, or also write.
    pub access: Access,
    /// Write: the on-disk user id that the cell's root acts as.
    #[serde(default)]
    pub owner_uid: Option<u32>,
    /// Write: the on-disk group id; `None`: the same number as `owner_uid`.
    #[serde(default)]
    pub owner_gid: Option<u32>,
    /// Allow `owner_uid` 0, the node's root.
    #[serde(default)]
    pub allow_root_owner: bool,
    /// Whether the cell has what is mounted below the source, too.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub propagation: Propagation,
}

/// What becomes of what is mounted below the source of a mount (mount_namespaces(7)). None of it
/// goes the other way: a cell's mounts are never the node's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Propagation {
    /// It isn't in the cell.
    #[default]
    None,
    /// It is in the cell as it is when the mount is made.
    Rprivate,
    /// The same, and what is mounted and unmounted later.
    Rslave,
}

/// The access that a mount gives a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The workload may read.
    Read,
    /// Read and write, as one on-disk owner.
    Write,
    /// Read and write a folder that the node has made for the cell: its files belong to the cell's
    /// own ids on the disk, too. Not for clients: no message says so.
    Own,
    /// The same, without writing.
    OwnRead,
}

/// A tmpfs in a cell.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Volume {
    /// An absolute path in the cell.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub path: String,
    /// The most that it holds, in bytes. `None`: [`DEFAULT_VOLUME_BYTES`].
    #[serde(skip_serializing_if = "crate::is_default")]
    pub size_bytes: Option<u64>,
    /// The mode of its root folder. `None`: [`DEFAULT_VOLUME_MODE`].
    #[serde(skip_serializing_if = "crate::is_default")]
    pub mode: Option<u32>,
    /// The user of the cell that its root folder belongs to. `None`: 0.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub uid: Option<u32>,
    /// The group of the cell that its root folder belongs to. `None`: 0.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub gid: Option<u32>,
    /// No program in it can be executed.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub no_exec: bool,
}

impl Mount {
    /// Where it appears in the cell.
    pub fn effective_target(&self) -> &str {
        if self.target.is_empty() {
            &self.source
        } else {
            &self.target
        }
    }

    /// The on-disk owner and group that a writable mount acts as; `None` for a read-only mount.
    pub fn owner(&self) -> Option<(u32, u32)> {
        let uid = self.owner_uid?;
        Some((uid, self.owner_gid.unwrap_or(uid)))
    }

    /// Whether a file of the node may be written by it, now or later: what is mounted on the node
    /// later comes as the node has mounted it.
    pub fn writes(&self) -> bool {
        self.access == Access::Write || self.propagation == Propagation::Rslave
    }

    fn check(&self) -> Result<()> {
        check_absolute_path("source", &self.source)?;
        if self.effective_target() != TERMINATION_LOG {
            check_target("target", self.effective_target())?;
        }
        match self.access {
            Access::Read | Access::Own | Access::OwnRead => self.check_read(),
            Access::Write => self.check_write(),
        }
    }

    fn check_read(&self) -> Result<()> {
        let only_write = "has a meaning only for a writable mount";
        match (self.owner_uid, self.owner_gid, self.allow_root_owner) {
            (Some(_), _, _) => Err(Error::invalid("owner_uid", only_write)),
            (_, Some(_), _) => Err(Error::invalid("owner_gid", only_write)),
            (_, _, true) => Err(Error::invalid("allow_root_owner", only_write)),
            _ => Ok(()),
        }
    }

    fn check_write(&self) -> Result<()> {
        let Some((uid, gid)) = self.owner() else {
            return Err(
                Error::invalid("owner_uid", "is required for a writable mount")
                    .hint("name the user id on the node's disk that the cell's root is to act as"),
            );
        };
        for (field, id) in [("owner_uid", uid), ("owner_gid", gid)] {
            if id == u32::MAX {
                return Err(Error::invalid(field, "must be below 4294967295"));
            }
        }
        if uid == 0 && !self.allow_root_owner {
            let problem = "is 0: the cell would write files that belong to the node's root";
            return Err(Error::invalid("owner_uid", problem)
                .hint("name another owner, or set allow_root_owner as well"));
        }
        if self.source == "/" {
            return Err(Error::invalid(
                "source",
                "of a writable mount must not be '/'",
            ));
        }
        Ok(())
    }
}

impl Volume {
    /// Its size in bytes, with the default.
    pub fn effective_size(&self) -> u64 {
        self.size_bytes.unwrap_or(DEFAULT_VOLUME_BYTES)
    }

    /// Its mode, with the default.
    pub fn effective_mode(&self) -> u32 {
        self.mode.unwrap_or(DEFAULT_VOLUME_MODE)
    }

    fn check(&self) -> Result<()> {
        check_target("path", &self.path)?;
        let size = self.effective_size();
        if size < 4096 || i64::try_from(size).is_err() {
            let problem = "must be at least 4096 and below 2^63";
            return Err(Error::invalid("size_bytes", problem));
        }
        if self.effective_mode() > 0o7777 {
            return Err(Error::invalid("mode", "must be at most 0o7777"));
        }
        for (field, id) in [("uid", self.uid), ("gid", self.gid)] {
            if id == Some(u32::MAX) {
                return Err(Error::invalid(field, "must be below 4294967295"));
            }
        }
        Ok(())
    }
}

pub(crate) fn check_target(field: &str, path: &str) -> Result<()> {
    check_absolute_path(field, path)?;
    if path == "/" {
        return Err(Error::invalid(
            field,
            "must not be '/', the cell's own root",
        ));
    }
    match RESERVED.iter().find(|r| is_path_within(path, r)) {
        _ if path == SHARED_MEMORY => Ok(()),
        Some(reserved) => {
            let problem = format!("must not be in {reserved}, which the cell makes itself");
            Err(Error::invalid(field, problem))
        }
        None => Ok(()),
    }
}

/// A checked draft, as sent. It reads like one; to change it, take the draft, change that, check
/// again.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Draft", try_from = "Draft")]
pub struct CellSpec(Draft);

impl Deref for CellSpec {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.0
    }
}

impl From<CellSpec> for Draft {
    fn from(spec: CellSpec) -> Draft {
        spec.0
    }
}

impl TryFrom<Draft> for CellSpec {
    type Error = Error;

    fn try_from(draft: Draft) -> Result<Self> {
        draft.resources.check().within("resources")?;
        check_mounts(&draft)?;
        check_joined(&draft)?;
        check_sharing(&draft)?;
        check_light(&draft)?;
        check_sysctls(&draft.sysctls)?;
        if let Some(container) = &draft.container {
            container.check().within("container")?;
        }
        if let Some(network) = &draft.network {
            network.check().within("network")?;
        }
        if !draft.hostname.is_empty() {
            check_hostname(&draft.hostname)?;
        }
        if draft
            .id_range
            .is_some_and(|n| !(MIN_ID_RANGE..=MAX_ID_RANGE).contains(&n))
        {
            let problem = format!("must be from {MIN_ID_RANGE} to {MAX_ID_RANGE}");
            return Err(Error::invalid("id_range", problem));
        }
        check_weight(&draft)?;
        Ok(Self(draft))
    }
}

impl CellSpec {
    /// Whether the cell has no namespace of that kind of its own: it shares the enclosing cell's,
    /// or joins another one's.
    pub fn shares(&self, namespace: Namespace) -> bool {
        self.shares_around(namespace) || self.0.join.contains_key(&namespace)
    }

    /// Whether it is the enclosing cell's.
    pub fn shares_around(&self, namespace: Namespace) -> bool {
        self.0.light || self.0.share.contains(&namespace)
    }

    /// What its volumes, its root and its /dev/shm may hold together.
    pub fn storage(&self) -> Storage {
        let sizes = self.0.volumes.iter().map(Volume::effective_size);
        let root = self.0.container.as_ref().map(Container::storage);
        let volumes = sizes.map(Storage::in_memory);
        volumes.fold(root.unwrap_or_default(), Storage::and)
    }

    /// The spec with every default filled in, for a cell at `path`.
    pub fn effective(&self, path: &ObjectPath) -> Draft {
        let mut draft = self.0.clone();
        if draft.light {
            draft.share = Namespace::ALL.into();
            return draft;
        }
        if draft.hostname.is_empty() && !self.shares(Namespace::Uts) {
            draft.hostname = path.name().to_owned();
        }
        if !self.shares(Namespace::User) {
            draft.id_range = draft.id_range.or(Some(DEFAULT_ID_RANGE));
        }
        for mount in &mut draft.mounts {
            mount.target = mount.effective_target().to_owned();
            mount.owner_gid = mount.owner().map(|(_, gid)| gid);
        }
        for volume in &mut draft.volumes {
            volume.size_bytes = Some(volume.effective_size());
            volume.mode = Some(volume.effective_mode());
        }
        if let Some(container) = draft.container.as_mut().filter(|c| c.has_image()) {
            container.root_bytes = Some(container.effective_root_bytes());
            container.shared_memory_bytes = Some(container.effective_shared_memory_bytes());
            let by_path = container.devices.iter_mut().filter(|it| !it.is_named());
            for device in by_path {
                device.target = device.effective_target().to_owned();
                device.access = device.effective_access().to_owned();
            }
        }
        draft
    }
}

/// A DNS name of at most 64 characters (the kernel's bound): labels joined by dots.
pub(crate) fn check_hostname(hostname: &str) -> Result<()> {
    let labels = hostname.split('.').all(|l| l.parse::<Label>().is_ok());
    if hostname.len() > 64 || !labels {
        let problem = "must be DNS labels joined by '.', at most 64 characters";
        return Err(Error::invalid("hostname", problem));
    }
    Ok(())
}

fn check_mounts(draft: &Draft) -> Result<()> {
    check_count("mounts", draft.mounts.len(), MAX_MOUNTS)?;
    check_count("volumes", draft.volumes.len(), MAX_MOUNTS)?;
    let mut targets = BTreeSet::new();
    for (i, mount) in draft.mounts.iter().enumerate() {
        let at = format!("mounts[{i}]");
        mount.check().within(&at)?;
        if !targets.insert(mount.effective_target()) {
            return Err(Error::invalid(format!("{at}.target"), "is given twice"));
        }
    }
    for (i, volume) in draft.volumes.iter().enumerate() {
        let at = format!("volumes[{i}]");
        volume.check().within(&at)?;
        if !targets.insert(&volume.path) {
            return Err(Error::invalid(format!("{at}.path"), "is given twice"));
        }
    }
    Ok(())
}

/// Which namespaces may be another cell's: those that say nothing of files, users and processes.
fn check_joined(draft: &Draft) -> Result<()> {
    for namespace in draft.join.keys() {
        let at = format!("join[{}]", namespace.as_str());
        if draft.share.contains(namespace) {
            return Err(Error::invalid(at, "is among share as well"));
        }
        if ![Namespace::Net, Namespace::Ipc, Namespace::Uts].contains(namespace) {
            let problem = "can't be another cell's; net, ipc and uts can";
            return Err(Error::invalid(at, problem));
        }
    }
    Ok(())
}

/// Refuses fields that have no effect, or another one, in a namespace that is not the cell's own.
fn check_sharing(draft: &Draft) -> Result<()> {
    let shares = |ns| draft.share.contains(&ns) || draft.join.contains_key(&ns);
    let fail = |field: &str, problem: &str| Err(Error::invalid(field, problem));
    if shares(Namespace::Mount) && !draft.mounts.is_empty() {
        return fail(
            "mounts",
            "need a mount namespace of the cell's own; share.mount has none",
        );
    }
    if shares(Namespace::Mount) && !draft.volumes.is_empty() {
        return fail(
            "volumes",
            "need a mount namespace of the cell's own; share.mount has none",
        );
    }
    if shares(Namespace::Mount) && draft.container.is_some() {
        return fail(
            "container",
            "needs a mount namespace of the cell's own; share.mount has none",
        );
    }
    let delegates = draft
        .container
        .as_ref()
        .is_some_and(|it| it.delegate_cgroup);
    if shares(Namespace::Cgroup) && delegates {
        return fail(
            "container.delegate_cgroup",
            "needs a cgroup namespace of the cell's own; share.cgroup has none",
        );
    }
    let network = draft.network.as_ref();
    let attached = network.is_some_and(Network::attaches);
    if shares(Namespace::Net) && attached {
        return fail(
            "network",
            "has no meaning where the network namespace is the parent's or another cell's",
        );
    }
    if shares(Namespace::Uts) && !draft.hostname.is_empty() {
        return fail(
            "hostname",
            "would rename the cell whose uts namespace it is",
        );
    }
    if shares(Namespace::User) && draft.id_range.is_some() {
        return fail(
            "id_range",
            "has no meaning where the parent's user namespace is shared",
        );
    }
    Ok(())
}

/// A light cell is a group and a record: what would need a namespace of its own it can't have.
fn check_light(draft: &Draft) -> Result<()> {
    let wants = [
        ("mounts", !draft.mounts.is_empty()),
        ("volumes", !draft.volumes.is_empty()),
        ("hostname", !draft.hostname.is_empty()),
        ("id_range", draft.id_range.is_some()),
        ("container", draft.container.is_some()),
        ("sysctls", !draft.sysctls.is_empty()),
        ("network", draft.network.is_some()),
        ("join", !draft.join.is_empty()),
    ];
    let all = draft.share.is_empty() || draft.share.len() == Namespace::ALL.len();
    let share = ("share", !all);
    let wanted = wants.into_iter().chain([share]).find(|(_, wants)| *wants);
    match wanted.filter(|_| draft.light) {
        None => Ok(()),
        Some((field, _)) => Err(Error::invalid(
            field,
            "has no meaning in a light cell, which shares every namespace of the cell around it",
        )
        .hint("leave it out, or leave out light")),
    }
}

/// The form of names and values; which parameters a cell may set is the node's to say.
pub(crate) fn check_sysctls(sysctls: &BTreeMap<String, String>) -> Result<()> {
    check_count("sysctls", sysctls.len(), MAX_SYSCTLS)?;
    for (name, value) in sysctls {
        let shown: String = name.chars().take(80).collect();
        let at = format!("sysctls[{shown:?}]");
        let good = |b: u8| b.is_ascii_alphanumeric() || b"_-/".contains(&b);
        let parts = name.split('.').all(|part| {
            let known = !part.is_empty() && part.bytes().all(good);
            known && !part.starts_with('/') && !part.ends_with('/')
        });
        if !parts || name.len() > 255 {
            let problem = "is no parameter such as net.ipv4.ip_unprivileged_port_start";
            return Err(Error::invalid(at, problem));
        }
        check_length(&at, value, 1024)?;
        let control = value.chars().any(|c| c.is_control() && c != '\t');
        if value.is_empty() || control {
            return Err(Error::invalid(at, "must have a value on one line"));
        }
    }
    Ok(())
}

fn check_weight(draft: &Draft) -> Result<()> {
    let mounts = draft.mounts.iter();
    let mounts = mounts.map(|g| weight(&g.source) + weight(&g.target) + 120);
    let volumes = draft.volumes.iter().map(|v| weight(&v.path) + 110);
    let devices = draft.resources.io.max.iter();
    let devices = devices.map(|m| weight(&m.device) + 200);
    let sysctls = draft.sysctls.iter();
    let sysctls = sysctls.map(|(name, value)| weight(name) + weight(value) + 2);
    let joined = draft
        .join
        .values()
        .map(|path| weight(&path.to_string()) + 20);
    let lists = mounts.chain(volumes).chain(devices).chain(sysctls);
    let lists = lists.chain(joined);
    let container = draft.container.as_ref().map_or(0, Container::weight);
    let network = draft.network.as_ref().map_or(0, Network::weight);
    let size = lists.sum::<usize>() + draft.resources.unified_weight() + container + network;
    if size > MAX_CELL_WEIGHT {
        let problem = format!(
            "takes {size} bytes with its mounts, volumes, devices and lists; at most \
             {MAX_CELL_WEIGHT} are allowed"
        );
        return Err(Error::invalid("", problem).hint("mount a common folder instead of many files"));
    }
    Ok(())
}
