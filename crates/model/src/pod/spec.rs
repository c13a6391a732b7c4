// SPDX-License-Identifier: Apache-2.0
//! The spec of a pod and of its containers. A [`Draft`] is data; a [`PodSpec`] is a draft that was
//! checked (`check`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::env::EnvVar;
use super::probe::{Hook, Probe};
use super::volume::{Source, Volume, VolumeMount};
use crate::cell::TERMINATION_LOG;
use crate::container;
use crate::device::Device;
use crate::error::Error;
use crate::name::Label;
use crate::network::Network;
use crate::quota::Storage;

/// The most containers of a pod, init containers among them.
pub const MAX_CONTAINERS: usize = 32;
/// How long a stop may take where the spec says nothing.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// The most that a pod's spec may take in its cell's record, in bytes: 1.5 MiB, which is what etcd
/// takes of an object of Kubernetes'.
pub const MAX_WEIGHT: usize = 1536 * 1024;

/// The spec as a client sent it; no field is checked yet.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Draft {
    /// Those that the pod is for.
    pub containers: Vec<Container>,
    /// Those that run before them, in order.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub init_containers: Vec<Container>,
    /// Folders that containers share.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub volumes: Vec<Volume>,
    /// What becomes of containers that end.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub restart: Restart,
    /// How long a stop may take in all. `None`: [`DEFAULT_GRACE`].
    #[serde(skip_serializing_if = "crate::is_default")]
    pub stop_grace: Option<Duration>,
    /// How long it may be there; then it has failed.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub active_deadline: Option<Duration>,
    /// Empty: the last label of the pod's path.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub hostname: String,
    /// Lines of `/etc/hosts`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub host_aliases: Vec<HostAlias>,
    /// Of containers that name none.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub user: String,
    /// Of containers that name none.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub group: String,
    /// Supplementary groups of all containers.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub groups: Vec<String>,
    /// A group of all containers that may write the pod's volumes; a number of the pod's own ids.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub fs_group: Option<u32>,
    /// What all containers are attached to together.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub network: Network,
    /// The node's own network instead.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub host_network: bool,
    /// Its containers see the node's processes, and none is PID 1.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub host_pid: bool,
    /// The node's own System V objects and message queues.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub host_ipc: bool,
    /// Its containers see each other's processes, and none is PID 1.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub share_processes: bool,
    /// Parameters of the kernel, of its network and IPC.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub sysctls: BTreeMap<String, String>,
    /// What keeps it apart. `None`: the node's default.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub sandbox_class: Option<Label>,
    /// The label of SELinux's that the files of containers of an image and of the pod's own volumes
    /// have; empty: what the policy says.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub selinux_file_label: String,
}

/// What becomes of a container that ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// It is started again.
    #[default]
    Always,
    /// It is started again where it has failed.
    OnFailure,
    /// It isn't.
    Never,
}

impl Restart {
    /// What holds for an init container of such a pod: it has to succeed once, whatever the policy
    /// says of app containers, but Never.
    pub fn of_init(self) -> Self {
        match self {
            Self::Always | Self::OnFailure => Self::OnFailure,
            Self::Never => Self::Never,
        }
    }
}

/// One container.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    /// A DNS label, unique in the pod.
    pub name: String,
    /// Empty: programs of the node.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub image: String,
    /// When the image is fetched.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub pull: Pull,
    /// In place of the image's.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub entrypoint: Vec<String>,
    /// In place of the image's.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub args: Vec<String>,
    /// In order: a variable may be made of those before it.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub env: Vec<EnvVar>,
    /// Empty: the image's, or `/`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub cwd: String,
    /// Empty: the pod's, or the image's.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub user: String,
    /// Empty: the pod's, or the user's own.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub group: String,
    /// Volumes of the pod.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub mounts: Vec<VolumeMount>,
    /// CPU and memory.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub needs: Needs,
    /// The other probes wait for it.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub startup: Option<Probe>,
    /// Where it fails the container is stopped.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub liveness: Option<Probe>,
    /// The container is ready while it succeeds.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub readiness: Option<Probe>,
    /// Before it is asked to end.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub pre_stop: Option<Hook>,
    /// After it was started.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub post_start: Option<Hook>,
    /// Of an init container: it goes on running.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub sidecar: bool,
    /// Its root can't be written.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub read_only: bool,
    /// What may be written to its root, in bytes. `None`: a container's default.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub root_bytes: Option<u64>,
    /// That is on the node's disk, and not in memory.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub root_on_disk: bool,
    /// Its user must not be root: where neither it nor the pod names one, the image's.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub non_root: bool,
    /// Added to the default ones.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub add_capabilities: Vec<String>,
    /// Taken away from them, first.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub drop_capabilities: Vec<String>,
    /// Exec never grants new privileges.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub no_new_privileges: Option<bool>,
    /// It may use every system call.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub unconfined: bool,
    /// The file of the node that says its filter of system calls, below the node's folder of them;
    /// empty: the default one.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub seccomp_profile: String,
    /// Devices of the node that it may use.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub devices: Vec<Device>,
    /// Every device of the node.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub all_devices: bool,
    /// Without the usual masked and read-only paths.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub unmasked: bool,
    /// The profile of AppArmor's that confines it; empty: none.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub apparmor_profile: String,
    /// The label of SELinux's that it runs with; empty: what the policy says.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub selinux_label: String,
    /// Keep standard input open.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub stdin: bool,
    /// A terminal instead of pipes.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub terminal: bool,
    /// Empty: the image's, or SIGTERM.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub stop_signal: String,
    /// The file that its program may leave a last word in. Empty: [`TERMINATION_LOG`] with an
    /// image, otherwise none.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub termination_message_path: String,
    /// Where it has failed and left none, the end of its log is the message.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub termination_message_from_log: bool,
}

impl Container {
    /// The user that it names, or its pod; `None`: its image's.
    pub fn named_user<'a>(&'a self, pod: &'a Draft) -> Option<&'a str> {
        let named = [&self.user, &pod.user].into_iter().map(String::as_str);
        named.into_iter().find(|user| !user.is_empty())
    }

    /// Where its program may leave a last word; `None`: nowhere.
    pub fn message_path(&self) -> Option<&str> {
        match (self.termination_message_path.as_str(), self.image.as_str()) {
            ("", "") => None,
            ("", _) => Some(TERMINATION_LOG),
            (path, _) => Some(path),
        }
    }

    /// The root that it has; `None`: the allowed folders of the node.
    pub fn root(&self) -> Option<container::Container> {
        if self.image.is_empty() {
            return None;
        }
        let name = self.image.rsplit('/').next().unwrap_or_default();
        let tag = name.split_once(':').map(|(_, tag)| tag);
        // Without a tag it is `latest`; a digest is the same image for ever.
        let moves = !name.contains('@') && tag.is_none_or(|tag| tag == "latest");
        let pull = match self.pull {
            Pull::Usual if moves => container::Pull::Always,
            Pull::Usual | Pull::IfNotPresent => container::Pull::IfNotPresent,
            Pull::Always => container::Pull::Always,
            Pull::Never => container::Pull::Never,
        };
        Some(container::Container {
            image: self.image.clone(),
            pull,
            read_only: self.read_only,
            root_bytes: self.root_bytes,
            root_on_disk: self.root_on_disk,
            devices: self.devices.clone(),
            all_devices: self.all_devices,
            unmasked: self.unmasked,
            ..container::Container::default()
        })
    }
}

/// When an image is fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pull {
    /// Always for the tag `latest`, otherwise where it isn't there.
    #[default]
    Usual,
    /// Each time.
    Always,
    /// Where it isn't there.
    IfNotPresent,
    /// The image must be on the node already.
    Never,
}

/// What a container asks of the node, in thousandths of a CPU and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Needs {
    /// `None`: the limit.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub cpu_request_millis: Option<u64>,
    /// `None`: no limit.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub cpu_limit_millis: Option<u64>,
    /// `None`: the limit.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub memory_request_bytes: Option<u64>,
    /// `None`: no limit.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub memory_limit_bytes: Option<u64>,
}

impl Needs {
    /// Its share of CPU time, in thousandths.
    pub fn cpu_request(&self) -> Option<u64> {
        self.cpu_request_millis.or(self.cpu_limit_millis)
    }

    /// The memory that it is expected to use, in bytes.
    pub fn memory_request(&self) -> Option<u64> {
        self.memory_request_bytes.or(self.memory_limit_bytes)
    }
}

/// A line of `/etc/hosts`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostAlias {
    /// An address.
    pub ip: IpAddr,
    /// Its names; at least one.
    pub names: Vec<String>,
}

/// A checked draft, as sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "Draft", try_from = "Draft")]
pub struct PodSpec(Draft);

impl Deref for PodSpec {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.0
    }
}

impl From<PodSpec> for Draft {
    fn from(spec: PodSpec) -> Draft {
        spec.0
    }
}

impl TryFrom<Draft> for PodSpec {
    type Error = Error;

    fn try_from(draft: Draft) -> Result<Self, Error> {
        super::check::check(&draft)?;
        Ok(Self(draft))
    }
}

impl PodSpec {
    /// Every container, init containers first, in the order in which they begin.
    pub fn all(&self) -> impl Iterator<Item = &Container> {
        self.0.init_containers.iter().chain(&self.0.containers)
    }

    /// The container of that name.
    pub fn container(&self, name: &str) -> Option<&Container> {
        self.all().find(|container| container.name == name)
    }

    /// What its volumes may hold together.
    pub fn storage(&self) -> Storage {
        let sizes = self.0.volumes.iter().map(|volume| match &volume.source {
            Source::Empty(empty) => empty.storage().unwrap_or_default(),
            Source::Files(_) | Source::Host(_) => Storage::default(),
        });
        sizes.fold(Storage::default(), Storage::and)
    }

    /// How long a stop may take.
    pub fn grace(&self) -> Duration {
        self.0.stop_grace.unwrap_or(DEFAULT_GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_that_moves_is_asked_for_each_time() {
        let pull = |image: &str, pull| {
            let image = image.to_owned();
            let container = Container {
                image,
                pull,
                ..Container::default()
            };
            container.root().map(|root| root.pull)
        };
        let (always, once) = (container::Pull::Always, container::Pull::IfNotPresent);
        for (image, expected) in [
            ("nginx", always),
            ("nginx:latest", always),
            ("nginx:1.25", once),
            ("registry.test:5000/nginx", always),
            ("registry.test:5000/nginx:1.25", once),
            ("nginx@sha256:00", once),
        ] {
            assert_eq!(pull(image, Pull::Usual), Some(expected), "{image}");
        }
        assert_eq!(pull("nginx", Pull::Never), Some(container::Pull::Never));
        assert_eq!(pull("", Pull::Usual), None);
    }
}
