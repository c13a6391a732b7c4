// SPDX-License-Identifier: Apache-2.0
//! What a tenant may do with the node's disks in a second (`io.max`), and what it does: the same
//! bounds for every disk. When it is looked at is [`super::rates`]' matter.

use std::time::Duration;

use kernel::cgroup::disks::disks;
use kernel::cgroup::{Bound, Cgroup, IoMax, IoStat};
use model::name::Tenant;
use model::quota::{Limits, Quota};

/// The quotas, in the order of `io.max`.
const QUOTAS: [Quota; 4] = [
    Quota::IoReadBytes,
    Quota::IoWriteBytes,
    Quota::IoReads,
    Quota::IoWrites,
];

/// Whether `io.max` carries it out.
pub(super) fn is_of_max(quota: Quota) -> bool {
    QUOTAS.contains(&quota)
}

/// A line for each disk of the node; none where the tenant has no bound.
pub(super) fn max(limits: &Limits, tenant: &Tenant) -> Result<Vec<IoMax>, kernel::Error> {
    let bounds = QUOTAS.map(|quota| match limits.limit(tenant, quota) {
        u64::MAX => Bound::Max,
        value => Bound::At(value),
    });
    match bounds.iter().all(|bound| *bound == Bound::Max) {
        true => Ok(Vec::new()),
        false => Ok(disks()?.into_iter().map(|disk| of(disk, bounds)).collect()),
    }
}

fn of(device: (u32, u32), bounds: [Bound; 4]) -> IoMax {
    let [read_bytes, write_bytes, read_ops, write_ops] = bounds.map(Some);
    IoMax {
        device,
        read_bytes,
        write_bytes,
        read_ops,
        write_ops,
    }
}

/// Lines that lift the bounds that the group has on other disks than `wanted` names.
pub(super) fn lifted(group: &Cgroup, wanted: &[IoMax]) -> Result<Vec<IoMax>, kernel::Error> {
    let bounded = group.bounded_disks()?.into_iter();
    let others = bounded.filter(|disk| wanted.iter().all(|line| line.device != *disk));
    Ok(others.map(|disk| of(disk, [Bound::Max; 4])).collect())
}

/// What was done a second between two looks, on the busiest disk, by quota.
pub(super) fn rates(
    before: &[IoStat],
    now: &[IoStat],
    span: Duration,
) -> impl Iterator<Item = (Quota, u64)> {
    QUOTAS.into_iter().zip(between(before, now, span))
}

fn between(before: &[IoStat], now: &[IoStat], span: Duration) -> [u64; 4] {
    let of = |disk: &IoStat| [disk.read_bytes, disk.written_bytes, disk.reads, disk.writes];
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1);
    let mut most = [0; 4];
    for disk in now {
        let had = before.iter().find(|had| had.device == disk.device);
        let had = had.map_or([0; 4], of);
        for ((most, now), had) in most.iter_mut().zip(of(disk)).zip(had) {
            // A group that was made anew counts from 0.
            let rate = now.saturating_sub(had).saturating_mul(1000) / millis;
            *most = rate.max(*most);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::quota::{Amount, Capacity, Quotas};

    use super::*;

    fn disk(minor: u32, read_bytes: u64, writes: u64) -> IoStat {
        IoStat {
            device: (254, minor),
            read_bytes,
            writes,
            ..IoStat::default()
        }
    }

    #[test]
    fn a_rate_is_that_of_the_busiest_disk() {
        let before = [disk(0, 1000, 10), disk(16, 50, 10)];
        let now = [disk(0, 5000, 10), disk(16, 50, 30), disk(32, 100, 0)];
        let rates = between(&before, &now, Duration::from_secs(2));
        assert_eq!(rates, [2000, 0, 0, 10]);
        let anew = between(&now, &[disk(0, 10, 0)], Duration::from_secs(2));
        assert_eq!(anew, [0; 4]);
    }

    #[test]
    fn a_tenant_without_a_bound_is_bounded_on_no_disk() {
        let capacity = Capacity {
            whole: BTreeMap::new(),
            reserve: 100,
        };
        let (free, bound): (Tenant, Tenant) = ("free".parse().unwrap(), "bound".parse().unwrap());
        let quotas = Quotas(BTreeMap::from([(Quota::IoReads, Amount::Absolute(20))]));
        let set = BTreeMap::from([(bound.clone(), quotas)]);
        let limits = Limits { capacity, set };
        assert_eq!(max(&limits, &free).unwrap(), []);
        for line in max(&limits, &bound).unwrap() {
            let free = Some(Bound::Max);
            assert_eq!(
                (line.read_ops, line.read_bytes),
                (Some(Bound::At(20)), free)
            );
        }
    }
}
