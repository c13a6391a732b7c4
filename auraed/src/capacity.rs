// SPDX-License-Identifier: Apache-2.0
//! The size of each pool that tenants share: from the machine (memory, CPUs, processes) and from
//! the configuration (everything that the daemon counts). `serve` and a reload hand it to
//! `tenants`, which makes limits of it.

use std::collections::BTreeMap;

use model::quota::{Capacity, Quota};

use crate::config::Config;
use crate::host;

/// The most cells of all tenants that node-init creates at the same time.
const CREATIONS: u64 = 64;
/// Logs that are read at the same time; each costs three descriptors at most.
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

/// The node's, as configured.
pub(crate) fn of(config: &Config) -> Capacity {
    let limits = &config.limits;
    let memory = host::memory().map_or(u64::MAX, |(total, _)| total);
    let whole = BTreeMap::from([
        (Quota::MemoryMax, memory),
        (Quota::MemoryHigh, memory),
        (Quota::MemoryMin, memory),
        (Quota::CpuMax, u64::from(host::cpus()) * 1000),
        (Quota::Pids, host::most_processes()),
        (Quota::Tmpfs, memory),
        (Quota::Cells, limits.cells.into()),
        (Quota::Executables, limits.executables.into()),
        (Quota::Creations, CREATIONS),
        (Quota::Ids, config.runtime.id_count.into()),
        (Quota::Connections, limits.connections.into()),
        (Quota::RequestBytes, limits.request_bytes.0),
        (Quota::Streams, limits.streams.into()),
        (Quota::LogReaders, LOG_READERS),
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
