// SPDX-License-Identifier: Apache-2.0
//! Limits, where cgroup2 has the controllers: in a machine of the test bed, hardly on a developer's
//! host.

use std::os::fd::AsFd;
use std::time::Duration;

use kernel::cgroup::{Bound, Cgroup, CpuMax, Limits};
use kernel::clone::{Cloned, Options, clone};
use kernel::poll::{self, Deadline, Interest};
use kernel::process;
use kernel::wait::{ExitStatus, Reap, Target, wait};

use crate::{Story, in_clone};

pub(crate) const STORIES: &[Story] = &[
    ("a_memory_limit_kills_and_is_counted", a_memory_limit_kills),
    (
        "a_process_limit_refuses_and_is_counted",
        a_process_limit_refuses,
    ),
    (
        "a_cpu_limit_throttles_and_can_be_lifted",
        a_cpu_limit_throttles,
    ),
    (
        "every_limit_can_be_written_and_read_back",
        every_limit_can_be_written,
    ),
    (
        "nobody_is_cloned_into_a_group_that_hands_controllers_on",
        inner_groups_take_no_process,
    ),
];

const SOON: Duration = Duration::from_secs(20);

/// A group with these controllers, for the story; nothing where the caller's own group hasn't got
/// them.
fn with_controllers(controllers: &[&str], story: impl FnOnce(&Cgroup)) {
    let own = Cgroup::own().unwrap();
    if let Err(e) = own.enable(controllers) {
        println!("  {e}");
        process::exit(crate::IGNORED);
    }
    let name = format!("kernel-test-limits-{}", process::id());
    story(&own.create(&name).unwrap());
    own.remove(&name, SOON).unwrap();
}

fn into(group: &Cgroup) -> Options<'_> {
    Options {
        cgroup: Some(group.as_fd()),
        ..Options::default()
    }
}

fn a_memory_limit_kills() {
    with_controllers(&["memory"], |group| {
        let limits = Limits {
            memory_max: Some(Bound::At(16 << 20)),
            memory_swap_max: Some(Bound::At(0)),
            ..Limits::default()
        };
        // Without swap accounting there is no swap to be had either.
        if group.set_limits(&limits).is_err() {
            let plain = Limits {
                memory_swap_max: None,
                ..limits
            };
            group.set_limits(&plain).unwrap();
        }
        let exit = in_clone(into(group), || {
            let mut hoard: Vec<Vec<u8>> = Vec::new();
            for _ in 0..64 {
                hoard.push(vec![1; 1 << 20]);
            }
            process::exit(i32::from(hoard.len() == 64));
        });
        assert_eq!(
            exit.status,
            ExitStatus::Signal {
                signal: 9,
                core: false
            }
        );
        let events = group.memory_events().unwrap().unwrap();
        assert_eq!((events.oom_kill, events.oom > 0), (1, true), "{events:?}");
        let usage = group.memory_usage().unwrap().unwrap();
        assert!(usage.peak.is_none_or(|peak| peak > 8 << 20), "{usage:?}");
    });
}

fn a_process_limit_refuses() {
    with_controllers(&["pids"], |group| {
        let limits = Limits {
            pids_max: Some(Bound::At(1)),
            ..Limits::default()
        };
        group.set_limits(&limits).unwrap();
        let exit = in_clone(into(group), || {
            let error = clone(Options::default()).unwrap_err();
            assert_eq!(error.errno(), libc::EAGAIN);
        });
        assert_eq!(exit.status, ExitStatus::Code(0));
        let usage = group.pids_usage().unwrap().unwrap();
        assert_eq!((usage.current, usage.refused), (0, 1));
    });
}

fn a_cpu_limit_throttles() {
    with_controllers(&["cpu"], |group| {
        let tenth = CpuMax {
            quota_us: Bound::At(10_000),
            period_us: 100_000,
        };
        group
            .set_limits(&Limits {
                cpu_max: Some(tenth),
                ..Limits::default()
            })
            .unwrap();
        let Cloned::Parent(_, pidfd) = clone(into(group)).unwrap() else {
            loop {
                std::hint::spin_loop();
            }
        };
        let tick = Deadline::after(SOON);
        while group.cpu_stat().unwrap().throttled_periods < 3 {
            assert!(!tick.passed(), "{:?}", group.cpu_stat());
            poll::wait(
                &pidfd,
                Interest::Readable,
                Deadline::after(Duration::from_millis(50)),
            )
            .unwrap();
        }
        let stat = group.cpu_stat().unwrap();
        assert!(stat.throttled_us > 0 && stat.usage_us > 0, "{stat:?}");
        let lifted = CpuMax {
            quota_us: Bound::Max,
            period_us: 100_000,
        };
        group
            .set_limits(&Limits {
                cpu_max: Some(lifted),
                ..Limits::default()
            })
            .unwrap();
        assert_eq!(group.read("cpu.max").unwrap().trim(), "max 100000");
        group.kill_and_wait(SOON).unwrap();
        wait(Target::PidFd(pidfd.as_fd()), Reap::Yes).unwrap();
    });
}

fn every_limit_can_be_written() {
    with_controllers(&["cpu", "cpuset", "memory", "pids"], |group| {
        let limits = Limits {
            cpu_weight: Some(50),
            cpuset_cpus: Some("0".into()),
            cpuset_mems: Some("0".into()),
            memory_min: Some(Bound::At(4096)),
            memory_low: Some(Bound::At(8192)),
            memory_high: Some(Bound::At(1 << 20)),
            memory_max: Some(Bound::At(2 << 20)),
            memory_oom_group: Some(true),
            pids_max: Some(Bound::Max),
            ..Limits::default()
        };
        group.set_limits(&limits).unwrap();
        for (file, value) in limits.settings() {
            assert_eq!(group.read(&file).unwrap().trim(), value, "{file}");
        }
        let wrong = Limits {
            cpu_weight: Some(0),
            ..Limits::default()
        };
        let error = group.set_limits(&wrong).unwrap_err();
        assert!(
            error.detail().contains("\"0\" to") && error.detail().contains("cpu.weight"),
            "{error}"
        );
        assert_eq!(error.errno(), libc::ERANGE);
        assert!(group.io_stat().is_ok());
    });
}

fn inner_groups_take_no_process() {
    with_controllers(&["memory"], |group| {
        group.enable(&["memory"]).unwrap();
        assert_eq!(group.enabled().unwrap(), ["memory"]);
        assert_eq!(clone(into(group)).unwrap_err().errno(), libc::EBUSY);
        let leaf = group.create("leaf").unwrap();
        assert_eq!(in_clone(into(&leaf), || {}).status, ExitStatus::Code(0));
    });
}
