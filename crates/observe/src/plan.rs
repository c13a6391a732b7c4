// SPDX-License-Identifier: Apache-2.0
//! What retention decides, from what it found on the disk: which segments go, in which order, and
//! which logs begin another segment, so that the one that is written can go. Pure; `retention`
//! carries it out.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::name::Tenant;
use model::quota::ADMINISTRATORS;

use super::config::RetentionLimits;
use super::folder::{LogKey, SegmentFiles};

/// What an empty segment takes: a block of its index. Nothing is won where there is no more.
const EMPTY_BYTES: u64 = 4096;

/// One log as the thread found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) key: LogKey,
    pub(super) limits: RetentionLimits,
    /// The segments, oldest first.
    pub(super) segments: Vec<SegmentFiles>,
    /// The last segment is being written.
    pub(super) live: bool,
}

impl Found {
    /// The segments that may go: not the one that is written, and not what tells that something was
    /// there.
    fn droppable(&self) -> &[SegmentFiles] {
        match self.segments.split_last() {
            Some((last, rest)) if self.live || last.data_bytes == 0 => rest,
            _ => &self.segments,
        }
    }

    fn going(&self, segment: &SegmentFiles) -> Going {
        Going {
            key: self.key.clone(),
            base: segment.base,
            is_last: self.segments.last() == Some(segment),
        }
    }
}

/// A segment to drop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Going {
    pub(super) key: LogKey,
    pub(super) base: u64,
    /// Nothing of the log is left then; a marker takes its place.
    pub(super) is_last: bool,
}

/// How much may be kept, beside what each log's own policy says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// Of all tenants together.
    pub(super) total_bytes: u64,
    /// What of that is the administrators' own.
    pub(super) reserve: u64,
    /// Of each tenant; one that is absent has no bound.
    pub(super) tenants: BTreeMap<Tenant, u64>,
    pub(super) now_s: u64,
}

impl Bounds {
    /// Each log's own policy alone.
    pub(super) fn of_each_log(now_s: u64) -> Self {
        Self {
            total_bytes: u64::MAX,
            reserve: 0,
            tenants: BTreeMap::new(),
            now_s,
        }
    }
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Plan {
    /// In the order in which they should go; a log's always oldest first.
    pub(super) going: Vec<Going>,
    /// Logs whose segment that is written is too much, too.
    pub(super) rotating: Vec<LogKey>,
    /// Bytes on disk that each tenant has then.
    pub(super) used: BTreeMap<Tenant, u64>,
}

/// A segment that may go.
type Expendable<'a> = (u64, &'a Found, SegmentFiles);

/// What a tenant has left while it is planned.
#[derive(Default)]
struct Left<'a> {
    used: u64,
    /// Newest first, so that the oldest is popped.
    queue: Vec<Expendable<'a>>,
    /// Segments that are written: oldest last write last.
    written: Vec<Expendable<'a>>,
}

/// Which segments go, and which logs begin another.
pub(super) fn plan(logs: &[Found], bounds: &Bounds) -> Plan {
    let mut plan = Plan::default();
    let mut tenants: BTreeMap<&Tenant, Left<'_>> = BTreeMap::new();
    for log in logs {
        let left = tenants.entry(&log.key.tenant).or_default();
        sort_out(log, bounds.now_s, left, &mut plan);
    }
    for left in tenants.values_mut() {
        // Within one log by offset.
        let order = |(modified, log, s): &Expendable<'_>| Reverse((*modified, log.key.uid, s.base));
        left.queue.sort_by_key(order);
        left.written.sort_by_key(order);
    }
    for (tenant, left) in &mut tenants {
        let limit = bounds.tenants.get(*tenant).copied().unwrap_or(u64::MAX);
        if left.used > limit {
            // A little more, so that the next look isn't at the next line.
            left.shrink_to(limit - limit / 16, &mut plan);
        }
    }
    hold_total(&mut tenants, bounds, &mut plan);
    let used = tenants.into_iter().map(|(t, left)| (t.clone(), left.used));
    plan.used = used.collect();
    plan
}

/// What of a log goes by its own policy; the rest may go for others.
fn sort_out<'a>(log: &'a Found, now_s: u64, left: &mut Left<'a>, plan: &mut Plan) {
    let mut bytes: u64 = log.segments.iter().map(|s| s.disk_bytes).sum();
    let oldest = now_s.saturating_sub(log.limits.max_age.as_secs());
    let mut expendable = true;
    for segment in log.droppable() {
        expendable &= bytes > log.limits.max_bytes || segment.modified_s < oldest;
        if expendable {
            bytes = bytes.saturating_sub(segment.disk_bytes);
            plan.going.push(log.going(segment));
        } else {
            left.queue.push((segment.modified_s, log, *segment));
        }
    }
    if let Some(last) = log.segments.last()
        && log.live
        && last.data_bytes > 0
        && last.disk_bytes > EMPTY_BYTES
    {
        left.written.push((last.modified_s, log, *last));
    }
    left.used += bytes;
}

impl Left<'_> {
    /// What counts against the bound of all.
    fn counted(&self, tenant: &Tenant, reserve: u64) -> u64 {
        match tenant.as_str() == ADMINISTRATORS {
            true => self.used.saturating_sub(reserve),
            false => self.used,
        }
    }

    /// Lets the oldest go; `false`: there is none.
    fn pop(&mut self, plan: &mut Plan) -> bool {
        let Some((_, log, segment)) = self.queue.pop() else {
            return false;
        };
        self.used = self.used.saturating_sub(segment.disk_bytes);
        plan.going.push(log.going(&segment));
        true
    }

    fn shrink_to(&mut self, bytes: u64, plan: &mut Plan) {
        while self.used > bytes && self.pop(plan) {}
        self.rotate(self.used.saturating_sub(bytes), plan);
    }

    /// Asks for other segments, so that the next look can let so many bytes go.
    fn rotate(&mut self, mut bytes: u64, plan: &mut Plan) {
        while bytes > 0
            && let Some((_, log, segment)) = self.written.pop()
        {
            bytes = bytes.saturating_sub(segment.disk_bytes);
            plan.rotating.push(log.key.clone());
        }
    }
}

/// All together: who has most gives first.
fn hold_total(tenants: &mut BTreeMap<&Tenant, Left<'_>>, bounds: &Bounds, plan: &mut Plan) {
    loop {
        let total: u64 = tenants.values().map(|left| left.used).sum();
        if total <= bounds.total_bytes {
            return;
        }
        let counted =
            |(tenant, left): &(&&Tenant, &mut Left<'_>)| left.counted(tenant, bounds.reserve);
        let with_some = tenants
            .iter_mut()
            .filter(|(_, left)| !left.queue.is_empty());
        if let Some((_, left)) = with_some.max_by_key(counted) {
            left.pop(plan);
            continue;
        }
        if let Some((_, left)) = tenants.iter_mut().max_by_key(counted) {
            left.rotate(total - bounds.total_bytes, plan);
        }
        return;
    }
}
