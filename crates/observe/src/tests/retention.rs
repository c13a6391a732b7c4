// SPDX-License-Identifier: Apache-2.0
//! What retention decides, told as data: which segments go, and in which order.

use super::*;
use crate::config::RetentionLimits;
use crate::folder::SegmentFiles;
use crate::plan::{Bounds, Found, Going, plan};

const SEGMENT: u64 = 100;
const NOW_S: u64 = 1_000_000;

/// A log of a tenant, and how many seconds ago each of its segments was written.
fn found(tenant: &str, number: u8, ages_s: &[u64]) -> Found {
    let segments = (0..).zip(ages_s).map(|(place, age_s)| SegmentFiles {
        base: place * SEGMENT,
        data_bytes: SEGMENT,
        disk_bytes: SEGMENT,
        modified_s: NOW_S - age_s,
    });
    Found {
        key: LogKey {
            tenant: tenant.parse().unwrap(),
            uid: Uid([number; 16]),
        },
        limits: RetentionLimits {
            max_bytes: u64::MAX,
            max_age: Duration::from_secs(10_000),
        },
        segments: segments.collect(),
        live: false,
    }
}

/// Whose segments go, by the number of the log and the place of the segment.
fn going(logs: &[Found], segments_kept: u64) -> Vec<(u8, u64)> {
    let bounds = Bounds {
        total_bytes: segments_kept * SEGMENT,
        ..Bounds::of_each_log(NOW_S)
    };
    numbers(&plan(logs, &bounds).going)
}

fn numbers(going: &[Going]) -> Vec<(u8, u64)> {
    let gone = going.iter();
    gone.map(|it| (it.key.uid.0[0], it.base / SEGMENT))
        .collect()
}

#[test]
fn over_the_bound_the_oldest_goes_whosever_it_is() {
    let logs = [
        found("acme", 1, &[500, 300, 100]),
        found("acme", 2, &[400, 200, 50]),
    ];
    assert_eq!(going(&logs, 6), []);
    assert_eq!(going(&logs, 3), [(1, 0), (2, 0), (1, 1)]);
}

#[test]
fn no_tenant_pushes_out_another_tenants_logs() {
    let logs = [
        found("quiet", 1, &[9_000, 8_000]),
        found("noisy", 2, &[50, 40, 30, 20, 10]),
    ];
    assert_eq!(going(&logs, 4), [(2, 0), (2, 1), (2, 2)]);
    // Where both have as much, both give.
    let both = going(&logs, 2);
    assert_eq!(both.len(), 5);
    assert!(
        both.contains(&(1, 0)) && !both.contains(&(1, 1)),
        "{both:?}"
    );
}

#[test]
fn what_is_written_stays_and_what_is_too_old_goes_without_a_bound() {
    let mut old = found("acme", 1, &[90_000, 80_000, 70_000]);
    old.live = true;
    assert_eq!(going(&[old.clone()], 1_000), [(1, 0), (1, 1)]);
    old.live = false;
    let last = plan(&[old], &Bounds::of_each_log(NOW_S));
    let marked: Vec<bool> = last.going.iter().map(|it| it.is_last).collect();
    assert_eq!(marked, [false, false, true], "its length must outlive it");
}

/// What goes, and which logs rotate, where each of these tenants may keep so many segments.
fn held(logs: &[Found], limits: &[(&str, u64)]) -> (Vec<(u8, u64)>, Vec<u8>) {
    let tenants = limits.iter();
    let bounds = Bounds {
        tenants: tenants
            .map(|(tenant, segments)| (tenant.parse().unwrap(), segments * SEGMENT))
            .collect(),
        ..Bounds::of_each_log(NOW_S)
    };
    let plan = plan(logs, &bounds);
    let rotating = plan.rotating.iter().map(|key| key.uid.0[0]).collect();
    (numbers(&plan.going), rotating)
}

#[test]
fn a_tenant_beyond_its_quota_loses_its_own_oldest_and_no_other_tenants() {
    let logs = [
        found("quiet", 1, &[9_000, 8_000]),
        found("noisy", 2, &[500, 300]),
        found("noisy", 3, &[400, 200]),
    ];
    assert_eq!(held(&logs, &[("quiet", 2), ("noisy", 4)]), (vec![], vec![]));
    // Below its quota by a sixteenth, so that the next line isn't too much again.
    let (going, rotating) = held(&logs, &[("quiet", 2), ("noisy", 3)]);
    assert_eq!(going, [(2, 0), (3, 0)]);
    assert!(rotating.is_empty());
}

#[test]
fn where_a_tenant_has_only_segments_that_are_written_they_are_begun_anew() {
    let live = |number, age_s| {
        let mut log = found("noisy", number, &[age_s]);
        log.live = true;
        log.segments[0].disk_bytes = 64 << 10;
        log
    };
    let logs = [live(1, 30), live(2, 50), live(3, 10)];
    let (going, rotating) = held(&logs, &[("noisy", (150 << 10) / SEGMENT)]);
    assert_eq!((going, rotating), (vec![], vec![2]));
    // A segment without output is the least there is.
    let mut empty = live(4, 90);
    (empty.segments[0].data_bytes, empty.segments[0].disk_bytes) = (0, 4096);
    assert_eq!(held(&[empty], &[("noisy", 1)]), (vec![], vec![]));
}

#[test]
fn what_the_administrators_keep_within_the_reserve_pushes_out_nothing() {
    let logs = [
        found("system", 1, &[9_000, 8_000, 7_000]),
        found("acme", 2, &[50, 40]),
    ];
    let bounds = |reserve: u64| Bounds {
        total_bytes: 4 * SEGMENT,
        reserve: reserve * SEGMENT,
        ..Bounds::of_each_log(NOW_S)
    };
    assert_eq!(numbers(&plan(&logs, &bounds(0)).going), [(1, 0)]);
    assert_eq!(numbers(&plan(&logs, &bounds(3)).going), [(2, 0)]);
}
