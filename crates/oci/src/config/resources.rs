// SPDX-License-Identifier: Apache-2.0
//! `linux.resources`: limits of the container's cgroup, in the terms of cgroup v1 that the
//! specification has. Types alone; `cgroup::limits` makes files of v2 of them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::or_default;

/// All limits; `None` leaves one as it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Resources {
    #[serde(deserialize_with = "or_default")]
    pub(crate) devices: Vec<DeviceRule>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) memory: Memory,
    #[serde(deserialize_with = "or_default")]
    pub(crate) cpu: Cpu,
    #[serde(deserialize_with = "or_default")]
    pub(crate) pids: Pids,
    #[serde(rename = "blockIO", deserialize_with = "or_default")]
    pub(crate) block_io: BlockIo,
    #[serde(deserialize_with = "or_default")]
    pub(crate) hugepage_limits: Vec<HugepageLimit>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) unified: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) network: Option<serde_json::Value>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) rdma: BTreeMap<String, Rdma>,
}

/// Which devices may be used; a number that is missing or -1 means all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DeviceRule {
    pub(crate) allow: bool,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: String,
    pub(crate) major: Option<i64>,
    pub(crate) minor: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) access: String,
}

/// Bytes; -1 lifts a limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Memory {
    pub(crate) limit: Option<i64>,
    pub(crate) reservation: Option<i64>,
    pub(crate) swap: Option<i64>,
    #[serde(rename = "disableOOMKiller")]
    pub(crate) disable_oom_killer: Option<bool>,
    pub(crate) check_before_update: Option<bool>,
}

/// CPU time, in microseconds, and CPUs as lists.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Cpu {
    pub(crate) shares: Option<u64>,
    pub(crate) quota: Option<i64>,
    pub(crate) burst: Option<u64>,
    pub(crate) period: Option<u64>,
    pub(crate) realtime_runtime: Option<i64>,
    pub(crate) realtime_period: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) cpus: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) mems: String,
    pub(crate) idle: Option<i64>,
}

/// Processes and threads; -1 lifts the limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pids {
    pub(crate) limit: Option<i64>,
}

/// Limits of disks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BlockIo {
    pub(crate) weight: Option<u16>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) weight_device: Vec<WeightDevice>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) throttle_read_bps_device: Vec<Throttle>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) throttle_write_bps_device: Vec<Throttle>,
    #[serde(rename = "throttleReadIOPSDevice", deserialize_with = "or_default")]
    pub(crate) throttle_read_iops_device: Vec<Throttle>,
    #[serde(rename = "throttleWriteIOPSDevice", deserialize_with = "or_default")]
    pub(crate) throttle_write_iops_device: Vec<Throttle>,
}

/// The weight of one disk, 10 to 1,000.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WeightDevice {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) weight: Option<u16>,
}

/// A rate of one disk, per second.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Throttle {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) rate: u64,
}

/// Bytes in huge pages of one size (`2MB`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HugepageLimit {
    /// Go's decoder, and so runc, takes the small letter.
    #[serde(rename = "pageSize", alias = "pagesize")]
    pub(crate) page_size: String,
    pub(crate) limit: u64,
}

/// Handles and objects of one RDMA device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rdma {
    pub(crate) hca_handles: Option<u32>,
    pub(crate) hca_objects: Option<u32>,
}
