// SPDX-License-Identifier: Apache-2.0
//! What the runtime is told when it starts. `auraed`'s wiring fills it from the configuration.

use std::path::PathBuf;
use std::time::Duration;

use model::executable::LogPolicy;
use model::network::PortRange;

/// Where things are and how much there may be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the cells' sockets, `RUN_DIR/cells`; only the node's root may enter it.
    pub cells_dir: PathBuf,
    /// The cgroup below which the tenants' cgroups are made (`CGROUP2/aurae`, or the delegated
    /// one).
    pub cgroup_root: PathBuf,
    /// The first id, on the node, that may be given to cells.
    pub first_id: u32,
    /// How many, from there.
    pub id_count: u32,
    /// How much there may be; [`super::Runtime::set_bounds`] changes it later.
    pub bounds: Bounds,
    /// How long a cell-init may take over one request. Then it is lost and its cell killed; a start
    /// that takes longer is given up.
    pub init_timeout: Duration,
    /// How long the run of a cell waits for the cell of its name that is ending. An empty cell's
    /// init and cgroup have 15 s (`cell/ending.rs`).
    pub ending_timeout: Duration,
    /// How often the age of finished records is looked at; their number is at every end.
    pub ageing: Duration,
    /// Where an executable says nothing about its logs.
    pub logs: LogPolicy,
    /// Ports of the node that are its own services', whether these run or not: beside those below
    /// [`model::network::FIRST_FREE_PORT`] administrators alone publish them.
    pub reserved_ports: Vec<PortRange>,
    /// Networks of CNI that members may name; others are administrators'.
    pub open_networks: Vec<String>,
    /// Folders whose files say what a device with a name is; a later one counts more. See `cdi`.
    pub cdi: Vec<PathBuf>,
    /// The folder whose file system has the disks that containers have of their own. Nothing of
    /// them is to be seen there.
    pub disks: PathBuf,
}

/// How much is kept of what has ended, beside the bytes, which are each tenant's quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The most finished records of one tenant; his oldest go first.
    pub finished_per_tenant: usize,
    /// Finished records older than this go.
    pub finished_age: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            finished_per_tenant: 10_000,
            finished_age: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

impl Settings {
    /// The defaults below a run directory and a cgroup.
    pub fn new(cells_dir: PathBuf, cgroup_root: PathBuf) -> Self {
        Self {
            cells_dir,
            cgroup_root,
            first_id: 1_048_576,
            id_count: u32::MAX - 1_048_576,
            bounds: Bounds::default(),
            init_timeout: Duration::from_secs(30),
            ending_timeout: Duration::from_secs(30),
            ageing: Duration::from_secs(60),
            logs: LogPolicy::default(),
            reserved_ports: Vec::new(),
            open_networks: Vec::new(),
            cdi: Vec::new(),
            disks: PathBuf::from("/var/lib/aurae"),
        }
    }
}
