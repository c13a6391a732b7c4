// SPDX-License-Identifier: Apache-2.0
//! The table of limits says what the conversions do: each end is taken, and what lies beyond it is
//! refused under the field's name.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "helpers of tests fail by panicking; numbers are put as the wire has them"
)]

use std::time::Duration;

use api::convert::{observe, request};
use api::limits::{ALL, Limits};
use api::observe::v0 as observing;
use api::runtime::v0 as wire;
use model::error::Error;

/// A value on the way into a field.
#[derive(Clone, Copy, Debug)]
enum Put {
    Number(i128),
    Time(Duration),
}

impl Put {
    fn number(self) -> i128 {
        match self {
            Self::Number(number) => number,
            Self::Time(_) => panic!("a number's field"),
        }
    }

    fn u64(self) -> Option<u64> {
        Some(self.number() as u64)
    }

    fn u32(self) -> Option<u32> {
        Some(self.number() as u32)
    }

    fn i32(self) -> Option<i32> {
        Some(self.number() as i32)
    }

    fn time(self) -> Option<prost_types::Duration> {
        match self {
            Self::Time(time) => Some(time.try_into().unwrap()),
            Self::Number(_) => panic!("a duration's field"),
        }
    }
}

fn reference(path: &str) -> Option<wire::ObjectRef> {
    Some(wire::ObjectRef {
        path: path.into(),
        ..Default::default()
    })
}

fn executable(change: impl FnOnce(&mut wire::ExecutableSpec)) -> Result<(), Error> {
    let mut spec = wire::ExecutableSpec {
        argv: vec!["true".into()],
        ..Default::default()
    };
    change(&mut spec);
    let executable = wire::Executable {
        r#ref: reference("web/x"),
        spec: Some(spec),
        ..Default::default()
    };
    let message = wire::RunExecutableRequest {
        executable: Some(executable),
        ..Default::default()
    };
    let own = "acme".parse().unwrap();
    request::run_executable(&own, message).map(|_| ())
}

fn cell(change: impl FnOnce(&mut wire::CellSpec)) -> Result<(), Error> {
    let mut spec = wire::CellSpec::default();
    change(&mut spec);
    let message = wire::RunCellRequest {
        cell: Some(wire::Cell {
            r#ref: reference("web"),
            spec: Some(spec),
            ..Default::default()
        }),
        ..Default::default()
    };
    request::run_cell(&"acme".parse().unwrap(), message).map(|_| ())
}

fn resources(change: impl FnOnce(&mut wire::Resources)) -> Result<(), Error> {
    cell(|spec| change(spec.resources.get_or_insert_default()))
}

fn cpu(change: impl FnOnce(&mut wire::Cpu)) -> Result<(), Error> {
    resources(|all| change(all.cpu.get_or_insert_default()))
}

fn memory(change: impl FnOnce(&mut wire::Memory)) -> Result<(), Error> {
    resources(|all| change(all.memory.get_or_insert_default()))
}

fn io_max(change: impl FnOnce(&mut wire::IoMax)) -> Result<(), Error> {
    let mut max = wire::IoMax {
        device: "/dev/vda".into(),
        ..Default::default()
    };
    change(&mut max);
    resources(|all| all.io.get_or_insert_default().max.push(max))
}

fn volume(change: impl FnOnce(&mut wire::Volume)) -> Result<(), Error> {
    let mut volume = wire::Volume {
        path: "/data".into(),
        ..Default::default()
    };
    change(&mut volume);
    cell(|spec| spec.volumes.push(volume))
}

fn terminal(change: impl FnOnce(&mut wire::Terminal)) -> Result<(), Error> {
    executable(|spec| change(spec.terminal.get_or_insert_default()))
}

/// Puts a value into a field of an otherwise right request.
fn put(message: &str, field: &str, put: Put) -> Result<(), Error> {
    let own = "acme".parse().unwrap();
    let name = message.rsplit('.').next().unwrap();
    match (name, field) {
        ("ExecutableSpec", "umask") => executable(|it| it.umask = put.u32()),
        ("ExecutableSpec", "nice") => executable(|it| it.nice = put.i32()),
        ("ExecutableSpec", "oom_score_adj") => executable(|it| it.oom_score_adj = put.i32()),
        ("ExecutableSpec", "cpu_affinity") => executable(|it| it.cpu_affinity.extend(put.u32())),
        ("ExecutableSpec", "stop_grace") => executable(|it| it.stop_grace = put.time()),
        ("Terminal", "rows") => terminal(|it| it.rows = put.u32().unwrap()),
        ("Terminal", "columns") => terminal(|it| it.columns = put.u32().unwrap()),
        ("LogPolicy", "max_bytes") => {
            executable(|it| it.logs.get_or_insert_default().max_bytes = put.u64())
        }
        ("CellSpec", "id_range") => cell(|it| it.id_range = put.u32()),
        ("Volume", "size_bytes") => volume(|it| it.size_bytes = put.u64()),
        ("Volume", "mode") => volume(|it| it.mode = put.u32()),
        ("Volume", "uid") => volume(|it| it.uid = put.u32()),
        ("Volume", "gid") => volume(|it| it.gid = put.u32()),
        ("Resources", "pids_max") => resources(|it| it.pids_max = put.u64()),
        ("Cpu", "quota") => cpu(|it| it.quota = put.time()),
        ("Cpu", "period") => cpu(|it| {
            it.quota = Put::Time(Duration::from_secs(1)).time();
            it.period = put.time();
        }),
        ("Cpu", "weight") => cpu(|it| it.weight = put.u64()),
        ("Memory", "min") => memory(|it| it.min = put.u64()),
        ("Memory", "low") => memory(|it| it.low = put.u64()),
        ("Memory", "high") => memory(|it| it.high = put.u64()),
        ("Memory", "max") => memory(|it| it.max = put.u64()),
        ("Memory", "swap_max") => memory(|it| it.swap_max = put.u64()),
        ("Io", "weight") => resources(|it| it.io.get_or_insert_default().weight = put.u64()),
        ("IoMax", "read_bytes_per_second") => io_max(|it| it.read_bytes_per_second = put.u64()),
        ("IoMax", "write_bytes_per_second") => io_max(|it| it.write_bytes_per_second = put.u64()),
        ("IoMax", "reads_per_second") => io_max(|it| it.reads_per_second = put.u64()),
        ("IoMax", "writes_per_second") => io_max(|it| it.writes_per_second = put.u64()),
        ("ListRequest", "page_size") => {
            let message = wire::ListRequest {
                page_size: put.u32().unwrap(),
                ..Default::default()
            };
            request::list(&own, message).map(|_| ())
        }
        ("StopRequest", "grace") => {
            let message = wire::StopRequest {
                r#ref: reference("web"),
                grace: put.time(),
            };
            request::stop(&own, message).map(|_| ())
        }
        ("WatchUsageRequest", "interval") => {
            let message = observing::WatchUsageRequest {
                interval: put.time(),
                ..Default::default()
            };
            observe::watch_usage(&own, message).map(|_| ())
        }
        other => panic!("no request is known that has {other:?}"),
    }
}

#[test]
fn each_end_of_a_limit_is_taken_and_what_lies_beyond_is_refused() {
    let instant = Duration::from_nanos(1);
    for (message, field, limits) in ALL {
        let (ends, beyond) = match *limits {
            Limits::Number { least, most } => {
                let (least, most) = (least.map(i128::from), most.map(i128::from));
                let below = least.filter(|it| *it != 0).map(|it| it - 1);
                let above = most.map(|it| it + 1);
                let numbers = |list: [Option<i128>; 2]| list.map(|it| it.map(Put::Number));
                (numbers([least, most]), numbers([below, above]))
            }
            Limits::Time { least, most } => {
                let times = |list: [Option<Duration>; 2]| list.map(|it| it.map(Put::Time));
                let below = least.map(|it| it - instant);
                let above = most.map(|it| it + instant);
                (times([least, most]), times([below, above]))
            }
        };
        for end in ends.into_iter().flatten() {
            let taken = put(message, field, end);
            assert!(
                taken.is_ok(),
                "{message}.{field} refuses {end:?}: {taken:?}"
            );
        }
        for far in beyond.into_iter().flatten() {
            let refused = put(message, field, far);
            let Err(error) = refused else {
                panic!("{message}.{field} takes {far:?}");
            };
            let named = error.field.clone().unwrap_or_default();
            assert!(named.contains(field), "{message}.{field}: {named}");
        }
    }
}
