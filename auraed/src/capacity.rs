// SPDX-License-Identifier: Apache-2.0
//! The size of each pool that tenants share: from the machine (memory, CPUs, processes) and from
//! the configuration (everything that the daemon counts). `serve` and a reload hand it to
//! `tenants`, which makes limits of it.
//!
//! What has more than the node can hold is cut: memory, CPUs and processes by the cgroups around
//! the node's, cells by node-init's table, and cells, executables and readers by the descriptors
//! that the daemon may have.

use std::collections::BTreeMap;
use std::path::Path;

use init::protocol::MAX_CELLS;
use kernel::cgroup::find;
use kernel::fsutil;
use kernel::rlimit::{self, Resource};
use model::quota::{Capacity, Quota};

use crate::config::Config;
use crate::{host, reserve};

/// The most cells of all tenants that node-init creates at the same time.
const CREATIONS: u64 = 64;
/// Logs that are read at the same time.
const LOG_READERS: u64 = 2048;
/// Request ids that are remembered; each costs about 200 bytes.
const REQUEST_IDS: u64 = 65_536;
/// Records of what has ended, in bytes.
const FINISHED_BYTES: u64 = 256 << 20;
/// The audit, in bytes.
const AUDIT_BYTES: u64 = 256 << 20;
/// Transfers of images at the same time; each takes a thread for the disk now and then.
const IMAGE_TRANSFERS: u64 = 32;
/// Schedules; each is a task, and has its history in memory: about 10 KiB.
const SCHEDULES: u64 = 8192;
/// Ports of the node that lead to cells; each costs four elements of the kernel's rules.
const PORTS: u64 = 8192;
/// The part of the memory that specs may take together, where nothing else is configured, and the
/// least, in bytes.
const SPECS: u64 = 100;
const LEAST_SPECS: u64 = 16 << 20;
/// How often the memory is promised to tmpfs, where nothing else is configured and the kernel
/// bounds what a tenant fills: most of what may be written to a container's root never is.
const TMPFS_PROMISES: u64 = 4;

/// The descriptors that the daemon has of a cell: its init's socket and process, its group.
const OF_CELL: u64 = 3;
/// Of an executable: its group, two pipes, and one to its input.
const OF_EXECUTABLE: u64 = 4;
/// Of a reader of a log, at most.
const OF_READER: u64 = 3;
/// What the daemon has open beside these and its connections: handshakes, files, sockets, and three
/// more of each executable in the administrators' cells that outlive their inits.
const OWN_DESCRIPTORS: u64 = 1024;

/// The parts that cells, executables and readers have of descriptors that are too few for all:
/// about those that they need where nothing is configured.
const PARTS: [u64; 3] = [2, 5, 1];

/// What each gets of `room` that needs so many: what it needs, or its part of what others leave.
fn shared_out(needed: [u64; 3], room: u64) -> [u64; 3] {
    let mut given = [None; 3];
    // Each round settles one at least, or the rest.
    for _ in 0..=PARTS.len() {
        let open = given.iter().zip(PARTS).filter(|(given, _)| given.is_none());
        let parts: u64 = open.map(|(_, part)| part).sum();
        let left = room.saturating_sub(given.iter().flatten().sum());
        let share = |part: u64| (left / parts.max(1)).saturating_mul(part);
        let mut settled = false;
        for ((given, need), part) in given.iter_mut().zip(needed).zip(PARTS) {
            if given.is_none() && need <= share(part) {
                *given = Some(need);
                settled = true;
            }
        }
        if !settled {
            for (given, part) in given.iter_mut().zip(PARTS) {
                given.get_or_insert(share(part));
            }
        }
    }
    given.map(Option::unwrap_or_default)
}

/// What the machine lets the node have.
struct Machine {
    memory: u64,
    processes: u64,
    /// In thousandths of a CPU.
    cpus: u64,
    /// The most that the daemon may have open.
    descriptors: u64,
    /// The kernel charges pages to the groups of tenants.
    bounds_memory: bool,
    /// The size of the file system that the state directory is on, in bytes.
    disk: u64,
}

impl Machine {
    fn look(config: &Config) -> Self {
        let around = |file| {
            let (base, mount) = (reserve::base().ok()?, find::mount_point().ok()?);
            host::least_around(base.path(), &mount, file)
        };
        let least = |machine: u64, file| around(file).map_or(machine, |it| it.min(machine));
        let memory = host::memory().map_or(u64::MAX, |(total, _)| total);
        Self {
            memory: least(memory, "memory.max"),
            processes: least(host::most_processes(), "pids.max"),
            cpus: least(u64::from(host::cpus()) * 1000, "cpu.max"),
            descriptors: rlimit::get(Resource::NOFILE).map_or(u64::MAX, |limit| limit.soft),
            bounds_memory: reserve::base().is_ok_and(|base| reserve::has_memory(&base)),
            disk: size_of_disk(&config.paths.state),
        }
    }

    /// The size of all disks of workloads together.
    fn disks(&self, config: &Config) -> u64 {
        match config.limits.disk.0 {
            0 => self.disk / 2,
            bytes => bytes,
        }
    }

    /// The bytes of all specs together. The daemon has each about seven times: as asked for and
    /// with all defaults, in what it knows of the object and in what it last told of it, and in
    /// the record.
    fn specs(&self, config: &Config) -> u64 {
        match config.limits.spec_bytes.0 {
            0 => (self.memory / SPECS).max(LEAST_SPECS),
            bytes => bytes,
        }
    }

    /// The size of all tmpfs together. More than the memory is a promise that not all of them are
    /// filled at once: a tenant that fills its own meets its `memory_max`.
    fn tmpfs(&self, config: &Config) -> u64 {
        match (config.limits.tmpfs.0, self.bounds_memory) {
            (0, true) => self.memory.saturating_mul(TMPFS_PROMISES),
            (0, false) => self.memory,
            (bytes, _) => bytes,
        }
    }
}

/// The size of the file system that this folder is on, or will be on once it is made.
fn size_of_disk(folder: &Path) -> u64 {
    let mut above = folder.ancestors();
    let space = above.find_map(|folder| fsutil::space(folder).ok());
    space.map_or(0, |space| space.total_bytes)
}

/// The pools whose objects the daemon holds open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Open {
    cells: u64,
    executables: u64,
    readers: u64,
}

impl Open {
    /// As configured, and no more cells than node-init has room for.
    fn wished(config: &Config) -> Self {
        let most = u64::try_from(MAX_CELLS).unwrap_or(u64::MAX);
        Self {
            cells: u64::from(config.limits.cells).min(most),
            executables: config.limits.executables.into(),
            readers: LOG_READERS,
        }
    }

    /// As many of each as fit in so many descriptors together. A pool that needs less than its part
    /// is as it is, and leaves the others the rest.
    fn within(self, room: u64) -> Self {
        let needed = [
            self.cells * OF_CELL,
            self.executables * OF_EXECUTABLE,
            self.readers * OF_READER,
        ];
        let [cells, executables, readers] = shared_out(needed, room);
        Self {
            cells: (cells / OF_CELL).max(1),
            executables: (executables / OF_EXECUTABLE).max(1),
            readers: (readers / OF_READER).max(1),
        }
    }

    fn of(config: &Config, machine: &Machine) -> Self {
        let others = OWN_DESCRIPTORS + u64::from(config.limits.connections);
        // Something is left for cells, however few there are.
        let others = others.min(machine.descriptors / 2);
        Self::wished(config).within(machine.descriptors - others)
    }
}

/// The node's, as configured and as far as the machine has it.
pub(crate) fn of(config: &Config) -> Capacity {
    of_machine(config, &Machine::look(config))
}

/// Says at start which pools are smaller than configured, and why.
pub(crate) fn say_what_is_cut(config: &Config) {
    let (machine, limits) = (Machine::look(config), &config.limits);
    let wished = Open::wished(config);
    if wished.cells < limits.cells.into() {
        tracing::warn!(
            limits.cells = limits.cells,
            most = wished.cells,
            "node-init has no room for so many cells"
        );
    }
    let has = Open::of(config, &machine);
    if has != wished {
        tracing::warn!(
            open_files = machine.descriptors,
            cells = has.cells,
            executables = has.executables,
            readers_of_logs = has.readers,
            "the daemon may open too few files for the pools that are configured, and they are \
             smaller: raise its limit (LimitNOFILE=)"
        );
    }
}

fn of_machine(config: &Config, machine: &Machine) -> Capacity {
    let limits = &config.limits;
    let (memory, open) = (machine.memory, Open::of(config, machine));
    let whole = BTreeMap::from([
        (Quota::MemoryMax, memory),
        (Quota::MemoryHigh, memory),
        (Quota::MemoryMin, memory),
        (Quota::CpuMax, machine.cpus),
        (Quota::Pids, machine.processes),
        (Quota::Tmpfs, machine.tmpfs(config)),
        (Quota::Disk, machine.disks(config)),
        (Quota::Cells, open.cells),
        (Quota::Executables, open.executables),
        (Quota::SpecBytes, machine.specs(config)),
        (Quota::Creations, CREATIONS),
        (Quota::Ids, config.runtime.id_count.into()),
        (Quota::Connections, limits.connections.into()),
        (Quota::RequestBytes, limits.request_bytes.0),
        (Quota::Streams, limits.streams.into()),
        (Quota::LogReaders, open.readers),
        (Quota::RequestIds, REQUEST_IDS),
        (Quota::LogBytes, config.logs.node_max_size.0),
        (Quota::FinishedBytes, FINISHED_BYTES),
        (Quota::AuditBytes, AUDIT_BYTES),
        (Quota::ImageBytes, config.images.node_max_size.0),
        (Quota::ImageTransfers, IMAGE_TRANSFERS),
        (Quota::Schedules, SCHEDULES),
        (Quota::Addresses, ::net::MAX_PORTS.into()),
        (Quota::Ports, PORTS),
    ]);
    Capacity {
        whole,
        reserve: limits.reserve.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        memory: 8 << 30,
        processes: 30_000,
        cpus: 2000,
        descriptors: 1 << 20,
        bounds_memory: true,
        disk: 100 << 30,
    };

    fn with_cells(cells: u32) -> Config {
        let mut config = Config::default();
        config.limits.cells = cells;
        config
    }

    #[test]
    fn cells_executables_and_readers_fit_in_the_daemons_descriptors() {
        let config = Config::default();
        let of = |descriptors| {
            let machine = Machine {
                descriptors,
                ..MACHINE
            };
            let capacity = of_machine(&config, &machine);
            let pools = [Quota::Cells, Quota::Executables, Quota::LogReaders];
            pools.map(|quota| capacity.of(quota))
        };
        assert_eq!(of(1 << 20), [4096, 8192, 2048]);
        assert_eq!(of(u64::MAX), [4096, 8192, 2048]);
        // What a root without CAP_SYS_RESOURCE had where it was met.
        for descriptors in [1024, 4096, 20_000, 52_000] {
            let [cells, executables, readers] = of(descriptors);
            let open = cells * OF_CELL + executables * OF_EXECUTABLE + readers * OF_READER;
            let others =
                (OWN_DESCRIPTORS + u64::from(config.limits.connections)).min(descriptors / 2);
            assert!(open + others <= descriptors, "{open} of {descriptors}");
            assert!(0 < cells && cells < executables && 0 < readers);
        }
        let [cells, ..] = of(20_000);
        assert!((1_500..1_700).contains(&cells), "{cells}");
    }

    #[test]
    fn a_pool_that_needs_little_is_not_cut_for_those_that_need_much() {
        assert_eq!(shared_out([10, 20, 30], 60), [10, 20, 30]);
        assert_eq!(shared_out([10, 2000, 30], 800), [10, 760, 30]);
        assert_eq!(shared_out([9000, 9000, 9000], 800), [200, 500, 100]);
        assert_eq!(shared_out([60, 9000, 9000], 660), [60, 500, 100]);
        let machine = Machine {
            descriptors: 20_000,
            ..MACHINE
        };
        assert_eq!(of_machine(&with_cells(20), &machine).of(Quota::Cells), 20);
    }

    #[test]
    fn no_more_cells_than_node_init_has_room_for() {
        let cells = |config: &Config| of_machine(config, &MACHINE).of(Quota::Cells);
        let most = u64::try_from(MAX_CELLS).unwrap();
        assert_eq!(cells(&with_cells(100)), 100);
        assert_eq!(cells(&with_cells(7_680)), most);
        assert_eq!(cells(&with_cells(1_000_000)), most);
    }

    #[test]
    fn pools_of_the_machine_are_those_that_the_node_may_have() {
        let machine = Machine {
            memory: 1 << 30,
            processes: 500,
            cpus: 1500,
            ..MACHINE
        };
        let capacity = of_machine(&Config::default(), &machine);
        for quota in [Quota::MemoryMax, Quota::MemoryHigh, Quota::MemoryMin] {
            assert_eq!(capacity.of(quota), 1 << 30, "{quota}");
        }
        assert_eq!(capacity.of(Quota::Pids), 500);
        assert_eq!(capacity.of(Quota::CpuMax), 1500);
    }

    #[test]
    fn memory_is_promised_more_than_once_only_where_the_kernel_bounds_who_fills_it() {
        let of = |bounds_memory, tmpfs| {
            let machine = Machine {
                bounds_memory,
                ..MACHINE
            };
            let mut config = Config::default();
            config.limits.tmpfs.0 = tmpfs;
            of_machine(&config, &machine).of(Quota::Tmpfs)
        };
        assert_eq!([of(true, 0), of(false, 0)], [32 << 30, 8 << 30]);
        // Who says a number means it.
        assert_eq!(
            [of(true, 1 << 30), of(false, 99 << 30)],
            [1 << 30, 99 << 30]
        );
    }
}
