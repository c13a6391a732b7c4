// SPDX-License-Identifier: Apache-2.0
//! What is kept of a container between two commands: a folder below `--root`.
//!
//! ```text
//! ROOT/ID/state.json    who the process is, where the bundle is
//!         config.json   the bundle's document as it was at `create`
//!         exec.fifo     there until the container is started
//! ```
//!
//! The state of the process isn't kept but looked at: whether it lives, whether the fifo is there,
//! whether its group is frozen. There is no daemon, so nothing else could be true.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use kernel::cgroup::Cgroup;
use serde::{Deserialize, Serialize};

use crate::config::Spec;
use crate::error::{Doing, Result, refuse};

/// What is written to `state.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) oci_version: String,
    pub(crate) id: String,
    pub(crate) pid: i32,
    /// When the process started, in clock ticks since boot: with it a pid can't be mistaken.
    pub(crate) start_ticks: u64,
    pub(crate) bundle: PathBuf,
    pub(crate) rootfs: PathBuf,
    /// RFC 3339, in UTC.
    pub(crate) created: String,
    pub(crate) owner: u32,
    /// The container's group; none where it has none of its own.
    pub(crate) cgroup: Option<PathBuf>,
    /// systemd's unit that the group is; none where it isn't one.
    #[serde(default)]
    pub(crate) unit: Option<String>,
    /// It has no pid namespace of its own: its processes may outlive the first.
    #[serde(default)]
    pub(crate) shares_pids: bool,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The states of the specification, and runc's `paused`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Created,
    Running,
    Paused,
    Stopped,
}

impl Status {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Status::Created => "created",
            Status::Running => "running",
            Status::Paused => "paused",
            Status::Stopped => "stopped",
        }
    }
}

/// The document that hooks and `state` get.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    pub(crate) oci_version: String,
    pub(crate) id: String,
    pub(crate) pid: i32,
    pub(crate) status: &'static str,
    pub(crate) bundle: PathBuf,
    pub(crate) rootfs: PathBuf,
    pub(crate) created: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) owner: String,
}

/// The folder of one container.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes it.
    pub(crate) fn create(root: &Path, id: &str) -> Result<Folder> {
        check_id(id)?;
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o711).recursive(true);
        builder.create(root).doing_on("mkdir", root)?;
        let path = root.join(id);
        match fs::DirBuilder::new().mode(0o711).create(&path) {
            Ok(()) => Ok(Folder(path)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                refuse("container with given ID already exists")
            }
            Err(error) => Err(error).doing_on("mkdir", &path),
        }
    }

    /// One that is there.
    pub(crate) fn open(root: &Path, id: &str) -> Result<Folder> {
        check_id(id)?;
        let path = root.join(id);
        match path.join("state.json").try_exists() {
            Ok(true) => Ok(Folder(path)),
            Ok(false) => refuse("container does not exist"),
            Err(error) => Err(error).doing_on("look at", &path),
        }
    }

    /// Where the fifo is that `start` opens.
    pub(crate) fn fifo(&self) -> PathBuf {
        self.0.join("exec.fifo")
    }

    pub(crate) fn load(&self) -> Result<Record> {
        let path = self.0.join("state.json");
        let bytes = fs::read(&path).doing_on("read", &path)?;
        serde_json::from_slice(&bytes).doing_on("read", &path)
    }

    /// Puts the record in place, whole or not at all. It has to outlive this process, not a reboot.
    pub(crate) fn save(&self, record: &Record) -> Result<()> {
        self.put("state.json", &serde_json::to_vec(record)?)
    }

    /// The configuration that the container was created from.
    pub(crate) fn spec(&self) -> Result<Spec> {
        let path = self.0.join("config.json");
        Spec::parse(&fs::read(&path).doing_on("read", &path)?)
    }

    pub(crate) fn save_spec(&self, bytes: &[u8]) -> Result<()> {
        self.put("config.json", bytes)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let (path, beside) = (self.0.join(name), self.0.join(format!("{name}.new")));
        fs::write(&beside, bytes)
            .and_then(|()| fs::rename(&beside, &path))
            .doing_on("write", &path)
    }

    /// Takes the folder away.
    pub(crate) fn remove(&self) -> Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other.doing_on("remove", &self.0),
        }
    }
}

/// A container's name is one name of a folder.
pub(crate) fn check_id(id: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_+-.".contains(c);
    if id.is_empty() || id.len() > 1024 || id == "." || id == ".." || !id.chars().all(plain) {
        return refuse(format!(
            "invalid container id format: {id:?} (letters, digits, `_`, `+`, `-` and `.`)"
        ));
    }
    Ok(())
}

/// When a process started, in clock ticks since boot; `None` where it has ended.
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    let text = kernel::fsutil::read_pseudo(&path).ok()?;
    // Behind the name, which may have anything in it: state is field 3, the time field 22.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

impl Record {
    /// Whether the container's process lives.
    pub(crate) fn is_alive(&self) -> bool {
        self.pid > 0 && start_ticks(self.pid) == Some(self.start_ticks)
    }

    /// The container's group, if it has one and it is there.
    pub(crate) fn group(&self) -> Option<Cgroup> {
        Cgroup::open(self.cgroup.as_deref()?).ok()
    }

    /// What the container is doing now.
    pub(crate) fn status(&self, folder: &Folder) -> Status {
        if !self.is_alive() {
            return Status::Stopped;
        }
        if folder.fifo().exists() {
            return Status::Created;
        }
        let frozen = self.group().and_then(|group| group.events().ok());
        match frozen {
            Some(events) if events.frozen => Status::Paused,
            _ => Status::Running,
        }
    }

    /// The document of `state` and of hooks.
    pub(crate) fn show(&self, status: &'static str) -> Shown {
        Shown {
            oci_version: self.oci_version.clone(),
            id: self.id.clone(),
            pid: if status == "stopped" { 0 } else { self.pid },
            status,
            bundle: self.bundle.clone(),
            rootfs: self.rootfs.clone(),
            created: self.created.clone(),
            annotations: self.annotations.clone(),
            owner: user_name(self.owner),
        }
    }
}

/// The name of a user of the node, as `list` shows it; empty where there is none.
fn user_name(uid: u32) -> String {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let wanted = uid.to_string();
    let mut entries = text.lines().map(|line| line.split(':'));
    let found = entries.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)? == wanted).then(|| name.to_owned())
    });
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_name() {
        for good in ["a", "web-1", "a_b+c.d", "0"] {
            assert!(check_id(good).is_ok(), "{good}");
        }
        for wrong in ["", ".", "..", "a/b", "../x", "a b", "a\0", "é"] {
            assert!(check_id(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_process_is_known_by_when_it_started() {
        let own = std::process::id() as i32;
        assert!(start_ticks(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(start_ticks(own), start_ticks(own));
        assert_eq!(start_ticks(i32::MAX), None);
    }
}
