// SPDX-License-Identifier: Apache-2.0
//! Groups where systemd has a say: a container is a scope that systemd makes
//! (`StartTransientUnit`), delegated, with the container's limits as the scope's own, so that a
//! reload of systemd writes none of them over. What systemd has no word for is written to the
//! group's files as everywhere.
//!
//! A scope is made around a process that is there; the container's process isn't yet. So one that
//! does nothing is put into it first, and ends when the container's has been cloned into the
//! scope's group.

use std::path::PathBuf;

use kernel::cgroup::{Cgroup, find};
use kernel::clone::{self, Cloned};
use kernel::signal::Signal;
use kernel::wait::{Reap, Target};
use kernel::{pidfd, process, wait};

use super::bus::{Bus, Value};
use super::path::Unit;
use crate::config::Spec;
use crate::config::resources::Resources;
use crate::error::{Doing, Error, Result, refuse};
use crate::log;

const MANAGER: (&str, &str) = (
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
);
/// What systemd answers of a unit that isn't there.
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// A scope, and the process that holds it until the container's own is in it.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) group: Cgroup,
    _holder: Holder,
}

/// A child that waits to be killed.
#[derive(Debug)]
struct Holder(i32, std::os::fd::OwnedFd);

impl Holder {
    fn start() -> Result<Holder> {
        match clone::clone(clone::Options::default()).doing("clone a process for the scope")? {
            Cloned::Parent(pid, pidfd) => Ok(Holder(pid, pidfd)),
            Cloned::Child => {
                let _ = process::set_parent_death_signal(Some(Signal::KILL));
                loop {
                    std::thread::park();
                }
            }
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = pidfd::send_signal(&self.1, Signal::KILL);
        let _ = wait::wait(Target::Pid(self.0), Reap::Yes);
    }
}

/// Whether systemd manages the cgroups of the calling user.
pub(crate) fn is_there() -> bool {
    socket().exists()
}

/// systemd's own socket: root's, or of the user's own systemd. No bus stands in between.
fn socket() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !super::is_root_of_node());
    let folder = own.map_or_else(|| PathBuf::from("/run"), PathBuf::from);
    folder.join("systemd/private")
}

fn connect() -> Result<Bus> {
    let path = socket();
    Bus::connect(&path).doing_on("--systemd-cgroup: ask systemd at", &path)
}

/// Makes the scope.
pub(crate) fn start(unit: &Unit, spec: &Spec, id: &str) -> Result<Scope> {
    let mut bus = connect()?;
    let holder = Holder::start()?;
    let mut properties = vec![
        property("Description", Value::text(format!("aurae-oci {id}"))),
        property("PIDs", Value::Words(vec![holder.0.unsigned_abs()])),
        property("Delegate", Value::Bool(true)),
        property("DefaultDependencies", Value::Bool(false)),
        // Gone when it is empty, however its processes have ended.
        property("CollectMode", Value::text("inactive-or-failed")),
        property("TasksAccounting", Value::Bool(true)),
        property("MemoryAccounting", Value::Bool(true)),
        property("CPUAccounting", Value::Bool(true)),
        property("IOAccounting", Value::Bool(true)),
    ];
    if !unit.slice.is_empty() {
        properties.push(property("Slice", Value::text(&unit.slice)));
    }
    properties.extend(limits(&spec.linux.resources)?);
    let wrong = |error: Error| error.while_doing(format_args!("systemd: start {}", unit.name));
    begin(&mut bus, &unit.name, properties).map_err(wrong)?;
    let group = group_of(&mut bus, &unit.name).map_err(wrong)?;
    Ok(Scope {
        group,
        _holder: holder,
    })
}

fn begin(bus: &mut Bus, name: &str, properties: Vec<(String, Value)>) -> Result<()> {
    let arguments = [
        Value::text(name),
        // Never in the place of another one.
        Value::text("fail"),
        Value::Properties(properties),
        Value::NoUnits,
    ];
    let answer = bus.call(MANAGER, "StartTransientUnit", &arguments)?;
    let job = answer.text()?;
    match bus.job_result(&job)?.as_str() {
        "done" => Ok(()),
        other => refuse(format!("its job ended with {other:?}")),
    }
}

/// Where systemd has put it.
fn group_of(bus: &mut Bus, name: &str) -> Result<Cgroup> {
    let path = format!("/org/freedesktop/systemd1/unit/{}", escaped(name));
    let properties = (path.as_str(), "org.freedesktop.DBus.Properties");
    let arguments = [
        Value::text("org.freedesktop.systemd1.Scope"),
        Value::text("ControlGroup"),
    ];
    let group = bus.call(properties, "Get", &arguments)?.variant_text()?;
    let mount = find::mount_point().doing("cgroup v2 is needed (version 1 isn't supported)")?;
    Ok(Cgroup::open(&mount.join(group.trim_start_matches('/')))?)
}

/// Changes what the scope may take.
pub(crate) fn update(name: &str, resources: &Resources) -> Result<()> {
    let properties = limits(resources)?;
    if properties.is_empty() {
        return Ok(());
    }
    let arguments = [
        Value::text(name),
        Value::Bool(true),
        Value::Properties(properties),
    ];
    let set = connect()?.call(MANAGER, "SetUnitProperties", &arguments);
    set.map(|_| ())
        .doing(format_args!("systemd: change {name}"))
}

/// Has systemd forget the scope, whose processes have ended.
pub(crate) fn stop(name: &str) -> Result<()> {
    let mut bus = connect()?;
    let arguments = [Value::text(name), Value::text("replace")];
    match bus.call(MANAGER, "StopUnit", &arguments) {
        Ok(answer) => drop(bus.job_result(&answer.text()?)?),
        Err(error) if error.to_string().contains(NO_SUCH_UNIT) => return Ok(()),
        Err(error) => return Err(error.while_doing(format_args!("systemd: stop {name}"))),
    }
    // It is there as failed where a process of it was killed. Without that there is no such unit.
    match bus.call(MANAGER, "ResetFailedUnit", &[Value::text(name)]) {
        Ok(_) => {}
        Err(error) => log::debug(format!("systemd: forget {name}: {error}")),
    }
    Ok(())
}

fn property(name: &str, value: Value) -> (String, Value) {
    (name.to_owned(), value)
}

/// Limits in systemd's words. What has none there, or has a file of its own in `unified`, is
/// written to the group alone, which is delegated.
fn limits(resources: &Resources) -> Result<Vec<(String, Value)>> {
    let mut out = Vec::new();
    let files = super::limits::files(resources)?;
    for (file, value) in &files {
        let name = match file.as_str() {
            "memory.max" => "MemoryMax",
            "memory.high" => "MemoryHigh",
            "memory.low" => "MemoryLow",
            "memory.min" => "MemoryMin",
            "memory.swap.max" => "MemorySwapMax",
            "pids.max" => "TasksMax",
            "cpu.weight" => "CPUWeight",
            "io.weight" => "IOWeight",
            "cpuset.cpus" => "AllowedCPUs",
            "cpuset.mems" => "AllowedMemoryNodes",
            "cpu.max" => {
                out.extend(quota(value));
                continue;
            }
            _ => continue,
        };
        let value = match file.as_str() {
            "cpuset.cpus" | "cpuset.mems" => Value::Bytes(mask(file, value)?),
            _ => Value::Long(number(value).ok_or_else(|| {
                Error::new(format!("linux.resources: {value:?} is nothing for {file}"))
            })?),
        };
        out.push(property(name, value));
    }
    Ok(out)
}

/// systemd's word for no limit is the highest number.
fn number(value: &str) -> Option<u64> {
    match value.trim() {
        "max" => Some(u64::MAX),
        // The default group's weight, as `io.weight` writes it.
        value => value.trim_start_matches("default ").parse().ok(),
    }
}

/// `QUOTA PERIOD` of `cpu.max`: systemd has the quota per second of time, and steps of 10 ms.
fn quota(value: &str) -> Vec<(String, Value)> {
    let mut words = value.split_whitespace();
    let (quota, period) = (words.next().and_then(number), words.next().and_then(number));
    let period = period.unwrap_or(100_000).max(1);
    let each_second = match quota {
        None | Some(u64::MAX) => u64::MAX,
        Some(quota) => {
            let exact = quota.saturating_mul(1_000_000) / period;
            exact.div_ceil(10_000).saturating_mul(10_000)
        }
    };
    vec![
        property("CPUQuotaPeriodUSec", Value::Long(period)),
        property("CPUQuotaPerSecUSec", Value::Long(each_second)),
    ]
}

/// A list like `0-2,7` as bytes, the lowest first.
fn mask(file: &str, list: &str) -> Result<Vec<u8>> {
    let wrong = || refuse(format!("linux.resources: {list:?} is no list for {file}"));
    let mut bytes: Vec<u8> = Vec::new();
    for part in list.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse::<usize>()) else {
            return wrong();
        };
        // The most processors that Linux is built for.
        if from > to || to >= 8192 {
            return wrong();
        }
        bytes.resize(bytes.len().max(to / 8 + 1), 0);
        for bit in from..=to {
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte |= 1 << (bit % 8);
            }
        }
    }
    Ok(bytes)
}

/// A unit's name as an element of a path of D-Bus: what is no letter or digit in hexadecimal, and
/// so a digit at the beginning.
fn escaped(name: &str) -> String {
    let mut out = String::new();
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => out.push(byte.into()),
            b'0'..=b'9' if at > 0 => out.push(byte.into()),
            _ => out.push_str(&format!("_{byte:02x}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, Value)> {
        limits(&serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn limits_have_systemds_names() {
        assert_eq!(
            of(r#"{"memory":{"limit":1000,"swap":1500,"reservation":500},"pids":{"limit":-1}}"#),
            [
                property("MemorySwapMax", Value::Long(500)),
                property("MemoryMax", Value::Long(1000)),
                property("MemoryLow", Value::Long(500)),
                property("TasksMax", Value::Long(u64::MAX)),
            ]
        );
        let cpu = of(r#"{"cpu":{"quota":5000,"period":20000,"cpus":"0-2,9","shares":1024}}"#);
        assert_eq!(
            cpu,
            [
                property("CPUWeight", Value::Long(100)),
                property("CPUQuotaPeriodUSec", Value::Long(20_000)),
                property("CPUQuotaPerSecUSec", Value::Long(250_000)),
                property("AllowedCPUs", Value::Bytes(vec![7, 2])),
            ]
        );
        assert_eq!(
            of(r#"{"cpu":{"quota":-1}}"#)[1],
            property("CPUQuotaPerSecUSec", Value::Long(u64::MAX))
        );
        // Without a word of systemd's.
        assert_eq!(of(r#"{"unified":{"memory.oom.group":"1"}}"#), []);
        for wrong in ["3-1", "x", "0-99999"] {
            let text = format!(r#"{{"cpu":{{"cpus":"{wrong}"}}}}"#);
            assert!(limits(&serde_json::from_str(&text).unwrap()).is_err());
        }
    }

    #[test]
    fn a_units_name_is_an_element_of_a_path() {
        assert_eq!(escaped("libpod-1a.scope"), "libpod_2d1a_2escope");
        assert_eq!(escaped("1.scope"), "_31_2escope");
    }
}
