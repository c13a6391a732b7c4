// SPDX-License-Identifier: Apache-2.0
//! The options of node-init, given by the program that starts it: it reads no configuration itself.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::node::WatchdogSettings;
use crate::protocol::Role;

/// [`Options::root`] where nothing else is said: programs and what configures them.
pub const DEFAULT_ROOT: [&str; 9] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt",
];

/// How to be the init of this node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The daemon's arguments, `argv[0]` first; `--init-fd N` is appended.
    pub daemon: Vec<OsString>,
    /// The binary of the daemon and the spawner: this one's own, also after it was replaced on
    /// disk.
    pub program: PathBuf,
    /// The folder of the node's state; created (0700) where it isn't there. Hidden from cells.
    pub state_dir: PathBuf,
    /// The folder of sockets; created (0755), with `cells` (0700) in it.
    pub run_dir: PathBuf,
    /// What of the node's root file system cells see, read-only: absolute paths of folders, files
    /// and links. What the node doesn't have is left out.
    pub root: Vec<PathBuf>,
    /// The cgroup to work in. Not given: `aurae` below the root of cgroup2, or as a service in a
    /// group of its own, that group.
    pub cgroup: Option<PathBuf>,
    /// The longest pause before a daemon that keeps dying is started again.
    pub back_off: Duration,
    /// The longest that a shutdown takes.
    pub shutdown_bound: Duration,
    /// The machine's watchdog. Not of a container or a service.
    pub watchdog: WatchdogSettings,
    /// The kind of init to be. Not given: PID 1 of the initial pid namespace is a machine's, of
    /// another a container's, and everything else is a service.
    pub role: Option<Role>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            daemon: vec!["auraed".into(), "serve".into()],
            program: "/proc/self/exe".into(),
            state_dir: "/var/lib/aurae".into(),
            run_dir: "/run/aurae".into(),
            root: DEFAULT_ROOT.map(PathBuf::from).to_vec(),
            cgroup: None,
            back_off: Duration::from_secs(5),
            shutdown_bound: Duration::from_secs(30),
            watchdog: WatchdogSettings::default(),
            role: None,
        }
    }
}
