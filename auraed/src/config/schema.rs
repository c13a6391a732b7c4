// SPDX-License-Identifier: Apache-2.0
//! The keys of the configuration, with the built-in defaults. The reference in
//! `docs/guide/configuration.md` is generated from `auraed config`, so a field's documentation
//! belongs there and its default belongs here.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::value::{ByteSize, Share, Span, Switch};
use crate::cell_network::CellNetworkConfig;
use crate::elsewhere::SandboxClass;
use crate::net::config::NetConfig;

/// The whole configuration; each field is a table of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) node: Node,
    pub(crate) paths: Paths,
    pub(crate) api: Api,
    pub(crate) limits: Limits,
    pub(crate) logs: Logs,
    pub(crate) journal: Journal,
    pub(crate) images: Images,
    pub(crate) identity: Identity,
    pub(crate) runtime: Runtime,
    pub(crate) schedule: Schedule,
    pub(crate) shutdown: Shutdown,
    pub(crate) watchdog: Watchdog,
    pub(crate) boot: Boot,
    pub(crate) units: Units,
    pub(crate) network: NetConfig,
    pub(crate) cell_network: CellNetworkConfig,
    /// By the name of the class.
    pub(crate) sandboxes: std::collections::BTreeMap<String, SandboxClass>,
}

/// The node's name and trust domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Node {
    /// A DNS label. Empty: the host name's first label.
    pub(crate) name: String,
    /// Of the SPIFFE IDs. Fixed at the first start.
    pub(crate) trust_domain: String,
    /// `trace`, `debug`, `info`, `warn`, `error`, or tracing's directives.
    pub(crate) log_level: String,
    /// What manifests select nodes by (`nodeSelector`), beside `kubernetes.io/hostname`, `os` and
    /// `arch`.
    pub(crate) labels: std::collections::BTreeMap<String, String>,
}

/// Folders of the node's files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Paths {
    pub(crate) state: PathBuf,
    pub(crate) run: PathBuf,
    /// A cgroup below the mount point of cgroup2. Empty: `aurae` as PID 1, the service's own
    /// otherwise.
    pub(crate) cgroup: String,
}

/// Where the API listens, and its bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Api {
    /// The Unix socket. Empty: `aurae.sock` in the run directory.
    pub(crate) socket: PathBuf,
    /// TCP addresses, e.g. `[::]:7443`. None unless configured.
    pub(crate) listen: Vec<std::net::SocketAddr>,
    /// Of unary calls without a deadline of their own.
    pub(crate) deadline: Span,
    pub(crate) handshake_timeout: Span,
}

/// The sizes of the pools that the daemon counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) cells: u32,
    pub(crate) executables: u32,
    pub(crate) connections: u32,
    /// Open calls of all connections together.
    pub(crate) streams: u32,
    /// The largest request, in bytes.
    pub(crate) message: ByteSize,
    /// Of all requests that are being received.
    pub(crate) request_bytes: ByteSize,
    /// Of all volumes in memory and roots of containers together, by their sizes. 0: four times the
    /// memory, or the memory where the kernel doesn't bound what tenants fill.
    pub(crate) tmpfs: ByteSize,
    /// Of all disks that containers' roots and empty volumes of pods have of their own, together.
    /// 0: half of the disk that the state directory is on.
    pub(crate) disk: ByteSize,
    /// Of the specs of all cells, executables and pods that have not ended, and of schedules and
    /// configs, together. 0: 1 % of the memory, and at least 16 MiB.
    pub(crate) spec_bytes: ByteSize,
    /// The share of each pool that only the node's administrators may take.
    pub(crate) reserve: Share,
}

/// How much output is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Logs {
    /// The bytes of output that are kept of one executable.
    pub(crate) max_size: ByteSize,
    /// The age at which output of one executable is removed.
    pub(crate) max_age: Span,
    /// Of all executables together.
    pub(crate) node_max_size: ByteSize,
}

/// The sockets by which programs log: `/dev/log`, and those of systemd's journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Journal {
    /// Whether they are made. Where the daemon's init is PID 1 they are in any case.
    pub(crate) enabled: bool,
    /// Where. Empty: `/run/systemd/journal`, with the link `/dev/log`, and the kernel's messages
    /// are taken.
    pub(crate) folder: PathBuf,
    /// Bytes of entries that are kept.
    pub(crate) max_size: ByteSize,
    /// Messages of one unit in `rate_interval`; more are dropped, and counted.
    pub(crate) rate_burst: u32,
    pub(crate) rate_interval: Span,
}

/// Where images come from, and how many are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Images {
    /// Bytes of the images of all tenants together, as received and unpacked.
    pub(crate) node_max_size: ByteSize,
    /// Images that are neither pinned nor run by a cell are removed so long after their last use.
    pub(crate) max_age: Span,
    /// Per cent of the file system in use from which images are collected, the one first that was
    /// used longest ago …
    pub(crate) high_threshold: u8,
    /// … until no more than this is. At most `high_threshold`.
    pub(crate) low_threshold: u8,
    /// How registries are reached: mirrors, CAs, plain HTTP. It may be absent.
    pub(crate) registries: PathBuf,
    /// Credentials of registries, as `docker login` writes them. It may be absent.
    pub(crate) credentials: PathBuf,
}

/// How long certificates live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Identity {
    pub(crate) node_lifetime: Span,
    pub(crate) user_lifetime: Span,
    pub(crate) administrator_lifetime: Span,
}

/// How workloads are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Runtime {
    /// What of the node's root file system cells see, read-only.
    pub(crate) root: Vec<PathBuf>,
    /// Where files say what devices with a name are (CDI); a later folder counts more.
    pub(crate) cdi: Vec<PathBuf>,
    /// Filters of system calls that pods of administrators may name, in Docker's JSON form.
    pub(crate) seccomp_profiles: PathBuf,
    /// The first user id that cells get on the node.
    pub(crate) first_id: u32,
    /// How many ids cells share out.
    pub(crate) id_count: u32,
    /// Records of what has ended are removed after this.
    pub(crate) finished_max_age: Span,
    /// Per tenant; the oldest go first.
    pub(crate) finished_max_count: u32,
}

/// What the node runs because files say so, with an administrator's rights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Schedule {
    /// A folder with Kubernetes' manifests, which is watched. Empty: none.
    pub(crate) manifests: PathBuf,
    /// crontabs, and folders of them, which are watched: `/etc/crontab`, `/etc/cron.d`. Never
    /// beside a running cron.
    pub(crate) crontabs: Vec<PathBuf>,
    /// The folder of users' crontabs, each named as its user: `/var/spool/cron/crontabs`. Empty:
    /// none.
    pub(crate) user_crontabs: PathBuf,
    /// What takes the output of crontabs' commands as mail.
    pub(crate) sendmail: PathBuf,
}

/// How the node goes down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Shutdown {
    /// For everything together, from the request to the power going off.
    pub(crate) bound: Span,
}

/// The machine's watchdog, where the daemon's init is its PID 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Watchdog {
    /// The device.
    pub(crate) device: PathBuf,
    /// After which time without a sign of PID 1 it starts the machine anew. `0s`: it is left alone.
    pub(crate) timeout: Span,
    /// The same for the last steps of a power-off or reboot.
    pub(crate) end: Span,
}

/// The program that the node runs by itself once it serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Boot {
    /// A program that runs once the API answers, in a cell `boot` that shares all of the node's
    /// namespaces. Words are split at white space; none: nothing.
    pub(crate) run: String,
    /// What follows the program's end: `nothing`, `power-off` or `reboot`.
    pub(crate) then: Then,
}

/// systemd's unit files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Units {
    /// Whether the node runs them; `auto`: where the daemon's init is PID 1 of a machine whose disk
    /// has systemd's package.
    pub(crate) enabled: Switch,
    /// Folders of unit files, the first one wins. None: systemd's.
    pub(crate) paths: Vec<PathBuf>,
    /// What is started with the node. Empty: `default.target` where the daemon's init is PID 1,
    /// nothing otherwise.
    pub(crate) default: String,
    /// Where enabling links, and masks.
    pub(crate) persistent: PathBuf,
    /// The same until the next reboot.
    pub(crate) runtime: PathBuf,
    /// The socket of the system bus.
    pub(crate) bus: PathBuf,
    /// Whether `org.freedesktop.systemd1` is on the bus and on `private`; `auto`: where the
    /// daemon's init is PID 1 of a machine.
    pub(crate) systemd1: Switch,
    /// The socket by which root's `systemctl` of systemd's package speaks to the node.
    pub(crate) private: PathBuf,
}

/// What happens when [`Boot::run`] has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Then {
    #[default]
    Nothing,
    PowerOff,
    Reboot,
}

const fn seconds(count: u64) -> Span {
    Span(Duration::from_secs(count))
}

const DAY: u64 = 24 * 60 * 60;

impl Default for Node {
    fn default() -> Self {
        Self {
            name: String::new(),
            trust_domain: "aurae.internal".to_owned(),
            log_level: "info".to_owned(),
            labels: Default::default(),
        }
    }
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            state: "/var/lib/aurae".into(),
            run: "/run/aurae".into(),
            cgroup: String::new(),
        }
    }
}

impl Default for Api {
    fn default() -> Self {
        Self {
            socket: PathBuf::new(),
            listen: Vec::new(),
            deadline: seconds(30),
            handshake_timeout: seconds(5),
        }
    }
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            manifests: PathBuf::new(),
            crontabs: Vec::new(),
            user_crontabs: PathBuf::new(),
            sendmail: "/usr/sbin/sendmail".into(),
        }
    }
}

impl Default for Units {
    fn default() -> Self {
        Self {
            enabled: Switch::Auto,
            paths: Vec::new(),
            default: String::new(),
            persistent: "/etc/systemd/system".into(),
            runtime: "/run/systemd/system".into(),
            bus: schedule::unit::SYSTEM_BUS.into(),
            systemd1: Switch::Auto,
            private: "/run/systemd/private".into(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cells: 4096,
            executables: 8192,
            connections: 256,
            streams: 4096,
            message: ByteSize(2 << 20),
            request_bytes: ByteSize(16 << 20),
            tmpfs: ByteSize(0),
            disk: ByteSize(0),
            spec_bytes: ByteSize(0),
            reserve: Share(100),
        }
    }
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            max_size: ByteSize(1 << 30),
            max_age: seconds(30 * DAY),
            node_max_size: ByteSize(16 << 30),
        }
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            enabled: false,
            folder: PathBuf::new(),
            max_size: ByteSize(1 << 30),
            rate_burst: 10_000,
            rate_interval: seconds(30),
        }
    }
}

impl Images {
    /// Why the thresholds can't be kept together.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let (high, low) = (self.high_threshold, self.low_threshold);
        if high > 100 {
            return Some(format!(
                "images.high_threshold is {high} per cent, at most 100"
            ));
        }
        (low > high).then(|| {
            format!("images.low_threshold is {low}, above images.high_threshold, which is {high}")
        })
    }
}

impl Default for Images {
    fn default() -> Self {
        Self {
            node_max_size: ByteSize(64 << 30),
            max_age: seconds(30 * DAY),
            high_threshold: 85,
            low_threshold: 80,
            registries: "/etc/aurae/registries.toml".into(),
            credentials: "/etc/aurae/docker.json".into(),
        }
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            node_lifetime: seconds(DAY),
            user_lifetime: seconds(DAY),
            administrator_lifetime: seconds(365 * DAY),
        }
    }
}

impl Default for Runtime {
    fn default() -> Self {
        Self {
            root: init::DEFAULT_ROOT.map(PathBuf::from).to_vec(),
            cdi: ["/etc/cdi", "/var/run/cdi"].map(PathBuf::from).to_vec(),
            seccomp_profiles: "/etc/aurae/seccomp".into(),
            first_id: 0x0008_0000,
            id_count: 0x6ff8_0000,
            finished_max_age: seconds(7 * DAY),
            finished_max_count: 10_000,
        }
    }
}

impl Default for Watchdog {
    fn default() -> Self {
        let settings = init::WatchdogSettings::default();
        Self {
            device: settings.device,
            timeout: Span(settings.timeout),
            end: Span(settings.end),
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { bound: seconds(90) }
    }
}

/// Whether a key takes effect by `Reload`; the others need the daemon to start again.
pub(crate) fn is_reloadable(key: &str) -> bool {
    // The largest message is the server's for as long as it serves.
    key != "limits.message"
        && (["api.deadline", "node.log_level"].contains(&key)
            || [
                "logs.",
                "identity.",
                "limits.",
                "images.node_",
                "runtime.finished_",
            ]
            .iter()
            .any(|p| key.starts_with(p)))
}
