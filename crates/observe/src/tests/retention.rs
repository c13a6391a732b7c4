// SPDX-License-Identifier: Apache-2.0
//! What retention decides, told as data: which segments go, and in which order.

use super::*;
use crate::config::Keep;
use crate::folder::SegmentFiles;
use crate::retention::{Bounds, Found, plan};

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
        keep: Keep {
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
        now_s: NOW_S,
    };
    let gone = plan(logs, bounds).into_iter();
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
fn nobody_pushes_out_another_tenants_logs() {
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
    let last = plan(
        &[old],
        Bounds {
            total_bytes: u64::MAX,
            now_s: NOW_S,
        },
    );
    let marked: Vec<bool> = last.iter().map(|it| it.is_last).collect();
    assert_eq!(marked, [false, false, true], "its length must outlive it");
}
