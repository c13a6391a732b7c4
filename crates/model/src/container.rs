// SPDX-License-Identifier: Apache-2.0
//! Containers: cells with a root of their own, from an image or empty, and what an image says of
//! the program that runs in it. How the two of them come together is Docker's and Kubernetes' rule
//! ([`Defaults`]). Where the root comes from is `image`'s, how it is made `init`'s.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::capability::Capabilities;
use crate::device::{Device, MAX_DEVICES};
use crate::error::{Error, Result, Within};
use crate::hook::{Hook, MAX_HOOKS};
use crate::quota::{Storage, check_disk};
use crate::seccomp::Seccomp;
use crate::selinux;
use crate::text::{
    check_absolute_path, check_count, check_length, check_printable, is_path_within, weight,
};

/// The longest reference of an image, in bytes: 255 of its name, 128 of its tag, a digest.
pub const MAX_REFERENCE: usize = 512;
/// What a container may write to its root where its spec says nothing, in bytes.
pub const DEFAULT_ROOT_BYTES: u64 = 256 << 20;
/// The size of /dev/shm where the spec says nothing, in bytes: Docker's.
pub const DEFAULT_SHARED_MEMORY_BYTES: u64 = 64 << 20;
const NOT_WRITTEN: &str = "has no meaning with a root that is read-only";
/// The most paths that a container's spec masks, and the most that it makes read-only.
pub const MAX_PATHS: usize = 64;
/// The most that an image may say of its program, in bytes of the record.
pub const MAX_DEFAULTS_WEIGHT: usize = 24 * 1024;

/// The root of a container, as a client sent it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    /// What it is made of: an image's name or digest. Empty: of nothing, for what is mounted.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub image: String,
    /// When the image is asked for at its registry.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub pull: Pull,
    /// Nothing of the root can be written.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub read_only: bool,
    /// What may be written to the root, in bytes. `None`: [`DEFAULT_ROOT_BYTES`].
    #[serde(skip_serializing_if = "crate::is_default")]
    pub root_bytes: Option<u64>,
    /// What is written to the root is on the node's disk, where all of its bytes are allocated, and
    /// not in memory.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub root_on_disk: bool,
    /// The size of /dev/shm. `None`: [`DEFAULT_SHARED_MEMORY_BYTES`].
    #[serde(skip_serializing_if = "crate::is_default")]
    pub shared_memory_bytes: Option<u64>,
    /// Devices of the node. All others can't be used, whatever nodes the image brings. Without an
    /// image they are for the containers in it, which can have no others.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub devices: Vec<Device>,
    /// Every device of the node, as they are when the container is made.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub all_devices: bool,
    /// Programs that run at moments of its life.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub hooks: Vec<Hook>,
    /// Absolute paths that show nothing, beside the usual ones of `/proc` and `/sys`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub masked_paths: Vec<String>,
    /// Absolute paths that can't be written, beside the usual ones of `/proc`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub read_only_paths: Vec<String>,
    /// Without the usual masked and read-only paths of `/proc` and `/sys`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub unmasked: bool,
    /// Its main process may make groups below its own, as systemd does.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub delegate_cgroup: bool,
    /// The label of SELinux's that all files of its root, of `/dev` and of terminals have; empty:
    /// what the policy says.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub selinux_file_label: String,
}

/// When an image is asked for at its registry, as in Kubernetes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pull {
    /// Where the tenant hasn't got it.
    #[default]
    IfNotPresent,
    /// Each time: a name may mean another image by now.
    Always,
    /// Never: the tenant has pulled or imported it.
    Never,
}

impl Container {
    /// Whether it is made of an image.
    pub fn has_image(&self) -> bool {
        !self.image.is_empty()
    }

    /// What may be written to its root, in bytes; 0 where nothing may.
    pub fn effective_root_bytes(&self) -> u64 {
        match self.has_image() && !self.read_only {
            true => self.root_bytes.unwrap_or(DEFAULT_ROOT_BYTES),
            false => 0,
        }
    }

    /// The size of /dev/shm, in bytes.
    pub fn effective_shared_memory_bytes(&self) -> u64 {
        match self.has_image() {
            true => self
                .shared_memory_bytes
                .unwrap_or(DEFAULT_SHARED_MEMORY_BYTES),
            false => 0,
        }
    }

    /// What its root and its /dev/shm may hold.
    pub fn storage(&self) -> Storage {
        let root = self.effective_root_bytes();
        let root = match self.root_on_disk {
            true => Storage::on_disk(root),
            false => Storage::in_memory(root),
        };
        root.and(Storage::in_memory(self.effective_shared_memory_bytes()))
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_length("image", &self.image, MAX_REFERENCE)?;
        check_printable("image", &self.image)?;
        self.check_parts()?;
        self.check_devices()?;
        self.check_hooks()?;
        check_paths("masked_paths", &self.masked_paths)?;
        check_paths("read_only_paths", &self.read_only_paths)?;
        selinux::check("selinux_file_label", &self.selinux_file_label)?;
        let sizes = [
            ("root_bytes", self.root_bytes),
            ("shared_memory_bytes", self.shared_memory_bytes),
        ];
        for (field, size) in sizes {
            if size.is_some_and(|size| size < 4096 || i64::try_from(size).is_err()) {
                let problem = "must be at least 4096 and below 2^63";
                return Err(Error::invalid(field, problem));
            }
        }
        match self.root_on_disk {
            true => check_disk("root_bytes", self.root_bytes),
            false => Ok(()),
        }
    }

    /// What has no meaning without an image, or without a root that can be written.
    fn check_parts(&self) -> Result<()> {
        let without = [
            ("pull", self.pull != Pull::default()),
            ("read_only", self.read_only),
            ("root_bytes", self.root_bytes.is_some()),
            ("root_on_disk", self.root_on_disk),
            ("shared_memory_bytes", self.shared_memory_bytes.is_some()),
            ("hooks", !self.hooks.is_empty()),
            ("masked_paths", !self.masked_paths.is_empty()),
            ("read_only_paths", !self.read_only_paths.is_empty()),
            ("unmasked", self.unmasked),
            ("delegate_cgroup", self.delegate_cgroup),
            ("selinux_file_label", !self.selinux_file_label.is_empty()),
        ];
        let given = without.iter().find(|(_, given)| *given);
        match given {
            Some((field, _)) if !self.has_image() => {
                Err(Error::invalid(*field, "has a meaning only with an image"))
            }
            _ if self.read_only && self.root_bytes.is_some() => {
                Err(Error::invalid("root_bytes", NOT_WRITTEN))
            }
            _ if self.read_only && self.root_on_disk => {
                Err(Error::invalid("root_on_disk", NOT_WRITTEN))
            }
            _ => Ok(()),
        }
    }
}

impl Container {
    fn check_devices(&self) -> Result<()> {
        check_count("devices", self.devices.len(), MAX_DEVICES)?;
        let mut targets = std::collections::BTreeSet::new();
        for (i, device) in self.devices.iter().enumerate() {
            let at = format!("devices[{i}]");
            device.check().within(&at)?;
            if !targets.insert(device.effective_target()) {
                return Err(Error::invalid(format!("{at}.target"), "is given twice"));
            }
        }
        Ok(())
    }

    fn check_hooks(&self) -> Result<()> {
        check_count("hooks", self.hooks.len(), MAX_HOOKS)?;
        let mut hooks = self.hooks.iter().enumerate();
        hooks.try_for_each(|(i, hook)| hook.check().within(&format!("hooks[{i}]")))
    }

    /// What its lists take in the record, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let devices = self.devices.iter();
        let devices = devices.map(|d| weight(&d.path) + weight(&d.target) + weight(&d.access) + 40);
        let paths = self.masked_paths.iter().chain(&self.read_only_paths);
        let texts = paths.map(|path| weight(path) + 1);
        let hooks = self.hooks.iter().map(Hook::weight);
        devices.chain(texts).chain(hooks).sum::<usize>() + weight(&self.selinux_file_label)
    }
}

/// Paths of the image, or of `/proc` and `/sys`; `/dev` has nothing of the node to hide.
fn check_paths(field: &str, paths: &[String]) -> Result<()> {
    check_count(field, paths.len(), MAX_PATHS)?;
    for (i, path) in paths.iter().enumerate() {
        let at = format!("{field}[{i}]");
        check_absolute_path(&at, path)?;
        check_length(&at, path, 1024)?;
        let whole = ["/", "/proc", "/sys"].contains(&path.as_str());
        if whole || is_path_within(path, "/dev") {
            let problem = format!("{path:?} is what every program needs");
            return Err(Error::invalid(at, problem).hint("name a path below it"));
        }
    }
    Ok(())
}

/// What an image says of the program of its containers; and of a main process, for what is executed
/// beside it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Defaults {
    /// Before the arguments.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub entrypoint: Vec<String>,
    /// The arguments, or all of it where there is no entrypoint.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub cmd: Vec<String>,
    /// The environment.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub env: BTreeMap<String, String>,
    /// A name or a number; empty: root of the cell.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub user: String,
    /// A name or a number; empty: the user's own.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub group: String,
    /// Supplementary groups.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub groups: Vec<String>,
    /// Absolute; empty: `/`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub cwd: String,
    /// A name or a number; empty: SIGTERM.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub stop_signal: String,
    /// Of a main process alone: the profile of AppArmor's that confines it.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub apparmor_profile: String,
    /// Of a main process alone: the label of SELinux's that it runs with.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub selinux_label: String,
    /// Of a main process alone: the capabilities that it has asked for.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub capabilities: Option<Capabilities>,
    /// Of a main process alone: whether exec may grant it new privileges.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub no_new_privileges: Option<bool>,
    /// Of a main process alone: the filter of system calls that it has asked for.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub seccomp: Seccomp,
}

impl Defaults {
    /// The program and its arguments, as Docker and Kubernetes define them: an entrypoint that is
    /// given takes the image's place *and* that of its arguments; arguments that are given take the
    /// place of the image's.
    pub fn program(&self, entrypoint: &[String], argv: &[String]) -> Vec<String> {
        let (entrypoint, cmd) = match (entrypoint, argv) {
            ([], []) => (&self.entrypoint[..], &self.cmd[..]),
            ([], argv) => (&self.entrypoint[..], argv),
            (entrypoint, argv) => (entrypoint, argv),
        };
        entrypoint.iter().chain(cmd).cloned().collect()
    }

    /// Checks that it fits beside the rest of a record.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`.
    pub fn check_weight(&self) -> Result<()> {
        let texts = |list: &[String]| list.iter().map(|t| weight(t) + 1).sum::<usize>();
        let env = self.env.iter();
        let env = env.map(|(k, v)| weight(k) + weight(v) + 2).sum::<usize>();
        let size = texts(&self.entrypoint) + texts(&self.cmd) + texts(&self.groups) + env;
        if size <= MAX_DEFAULTS_WEIGHT {
            return Ok(());
        }
        let message = format!(
            "the image's program and environment take {size} bytes of the record; at most \
             {MAX_DEFAULTS_WEIGHT} are kept"
        );
        Err(Error::new(crate::error::Reason::LimitExceeded, message)
            .hint("put large values into a file of the image"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    /// The table of Kubernetes' documentation ("Define a command and arguments for a container").
    #[test]
    fn the_program_is_what_kubernetes_says() {
        let image = Defaults {
            entrypoint: texts(&["/ep-1"]),
            cmd: texts(&["foo", "bar"]),
            ..Defaults::default()
        };
        let table: [(&[&str], &[&str], &[&str]); 4] = [
            (&[], &[], &["/ep-1", "foo", "bar"]),
            (&["/ep-2"], &[], &["/ep-2"]),
            (&[], &["zoo", "boo"], &["/ep-1", "zoo", "boo"]),
            (&["/ep-2"], &["zoo", "boo"], &["/ep-2", "zoo", "boo"]),
        ];
        for (command, args, program) in table {
            let made = image.program(&texts(command), &texts(args));
            assert_eq!(made, texts(program), "{command:?} {args:?}");
        }
    }

    #[test]
    fn what_needs_an_image_is_refused_without_one() {
        let container = Container {
            read_only: true,
            ..Container::default()
        };
        let error = container.check().unwrap_err();
        assert_eq!(error.field.as_deref(), Some("read_only"));
        let container = Container {
            image: "web".to_owned(),
            read_only: true,
            root_bytes: Some(1 << 20),
            ..Container::default()
        };
        let error = container.check().unwrap_err();
        assert_eq!(error.field.as_deref(), Some("root_bytes"));
    }
}
