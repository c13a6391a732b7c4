// SPDX-License-Identifier: Apache-2.0
//! Limits and shares. Only their form is made here; the specs that hold them check their sense.

use model::error::{Result, Within};
use model::resources::{Cpu, Hugetlb, Io, IoMax, Memory, Resources};

use super::scalar::{maybe_duration, to_duration};
use crate::runtime::v0 as wire;

/// Checks the message of limits and shares; an absent message is empty.
pub(super) fn resources(message: Option<wire::Resources>) -> Result<Resources> {
    let Some(message) = message else {
        return Ok(Resources::default());
    };
    let memory = message.memory.unwrap_or_default();
    let io = message.io.unwrap_or_default();
    Ok(Resources {
        cpu: cpu(message.cpu.unwrap_or_default()).within("cpu")?,
        memory: Memory {
            min: memory.min,
            low: memory.low,
            high: memory.high,
            max: memory.max,
            swap_max: memory.swap_max,
        },
        pids_max: message.pids_max,
        io: Io {
            weight: io.weight,
            max: io.max.into_iter().map(io_max).collect(),
        },
        hugetlb: message.hugetlb.into_iter().map(hugetlb).collect(),
        unified: message.unified,
    })
}

fn cpu(message: wire::Cpu) -> Result<Cpu> {
    Ok(Cpu {
        quota: maybe_duration("quota", message.quota.as_ref())?,
        period: maybe_duration("period", message.period.as_ref())?,
        weight: message.weight,
        cpus: message.cpus,
        mems: message.mems,
    })
}

fn io_max(message: wire::IoMax) -> IoMax {
    IoMax {
        device: message.device,
        read_bytes_per_second: message.read_bytes_per_second,
        write_bytes_per_second: message.write_bytes_per_second,
        reads_per_second: message.reads_per_second,
        writes_per_second: message.writes_per_second,
    }
}

fn hugetlb(message: wire::Hugetlb) -> Hugetlb {
    Hugetlb {
        page_size: message.page_size,
        max_bytes: message.max_bytes,
    }
}

/// The message of limits and shares; empty ones are absent.
pub(super) fn to_resources(resources: &Resources) -> Option<wire::Resources> {
    if resources.is_empty() {
        return None;
    }
    let memory = resources.memory;
    Some(wire::Resources {
        cpu: (resources.cpu != Cpu::default()).then(|| to_cpu(&resources.cpu)),
        memory: (memory != Memory::default()).then_some(wire::Memory {
            min: memory.min,
            low: memory.low,
            high: memory.high,
            max: memory.max,
            swap_max: memory.swap_max,
        }),
        pids_max: resources.pids_max,
        io: (resources.io != Io::default()).then(|| wire::Io {
            weight: resources.io.weight,
            max: resources.io.max.iter().map(to_io_max).collect(),
        }),
        hugetlb: resources.hugetlb.iter().map(to_hugetlb).collect(),
        unified: resources.unified.clone(),
    })
}

fn to_cpu(cpu: &Cpu) -> wire::Cpu {
    wire::Cpu {
        quota: cpu.quota.map(to_duration),
        period: cpu.period.map(to_duration),
        weight: cpu.weight,
        cpus: cpu.cpus.clone(),
        mems: cpu.mems.clone(),
    }
}

fn to_io_max(max: &IoMax) -> wire::IoMax {
    wire::IoMax {
        device: max.device.clone(),
        read_bytes_per_second: max.read_bytes_per_second,
        write_bytes_per_second: max.write_bytes_per_second,
        reads_per_second: max.reads_per_second,
        writes_per_second: max.writes_per_second,
    }
}

fn to_hugetlb(hugetlb: &Hugetlb) -> wire::Hugetlb {
    wire::Hugetlb {
        page_size: hugetlb.page_size.clone(),
        max_bytes: hugetlb.max_bytes,
    }
}
