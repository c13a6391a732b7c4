// SPDX-License-Identifier: Apache-2.0
//! `--property NAME=VALUE` in systemd's words (systemd.exec(5), systemd.resource-control(5),
//! systemd.kill(5)): those that have a meaning for a single executable.

use api::runtime::v0::{
    Capabilities, Cpu, ExecutableSpec, Io, Memory, Resources, Seccomp, seccomp,
};

use super::executable::parse_rlimit;
use super::mount::parse_mode;
use super::{parse_pair, wire_duration};
use crate::quantity::{Limit, parse_cpus, parse_duration, parse_limit, parse_numbers};

/// A property whose name and value were checked.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    name: String,
    value: String,
}

/// Parses and checks a property.
pub(crate) fn parse_property(text: &str) -> Result<Property, String> {
    let (name, value) = parse_pair(text).map_err(|_| "write NAME=VALUE, as in MemoryMax=64M")?;
    let property = Property { name, value };
    property.set(&mut ExecutableSpec::default())?;
    Ok(property)
}

impl Property {
    /// Sets the property in the specification.
    pub(crate) fn apply(&self, spec: &mut ExecutableSpec) {
        // It was checked when it was parsed, by the same function.
        let _ = self.set(spec);
    }

    fn set(&self, spec: &mut ExecutableSpec) -> Result<(), String> {
        let known = self.set_process(spec)? || self.set_resources(spec)?;
        if known {
            return Ok(());
        }
        Err(format!(
            "{} isn't known; known are those of systemd that fit one process, such as MemoryMax, \
             CPUQuota, TasksMax, Nice, User, WorkingDirectory, Environment, LimitNOFILE, \
             SystemCallFilter",
            self.name
        ))
    }

    fn set_process(&self, spec: &mut ExecutableSpec) -> Result<bool, String> {
        let value = self.value.as_str();
        let words = || value.split_whitespace().map(str::to_owned);
        match self.name.as_str() {
            "User" => spec.user = value.to_owned(),
            "Group" => spec.group = value.to_owned(),
            "SupplementaryGroups" => spec.groups.extend(words()),
            "WorkingDirectory" => spec.cwd = value.to_owned(),
            "UMask" => spec.umask = Some(parse_mode(value)?),
            "Nice" => spec.nice = Some(integer(value)?),
            "OOMScoreAdjust" => spec.oom_score_adj = Some(integer(value)?),
            "CPUAffinity" => spec.cpu_affinity = parse_numbers(&value.replace(' ', ","))?,
            "NoNewPrivileges" => spec.no_new_privileges = Some(boolean(value)?),
            "KillSignal" => spec.stop_signal = value.to_owned(),
            "TimeoutStopSec" => spec.stop_grace = Some(wire_duration(parse_duration(value)?)),
            "Environment" => {
                let (key, value) = parse_pair(value)?;
                spec.env.insert(key, value);
            }
            "CapabilityBoundingSet" => capabilities(spec).bounding = words().collect(),
            "AmbientCapabilities" => capabilities(spec).ambient = words().collect(),
            "SystemCallFilter" => filter(spec.seccomp.get_or_insert_default(), value),
            "SystemCallErrorNumber" => {
                spec.seccomp.get_or_insert_default().errno = value.to_owned();
            }
            name => match name.strip_prefix("Limit") {
                Some(limit) if !limit.is_empty() => {
                    spec.rlimits
                        .push(parse_rlimit(&format!("{limit}={value}"))?);
                }
                _ => return Ok(false),
            },
        }
        Ok(true)
    }

    fn set_resources(&self, spec: &mut ExecutableSpec) -> Result<bool, String> {
        let value = self.value.as_str();
        let limit = || parse_limit(value).map(|Limit(limit)| limit);
        match self.name.as_str() {
            "MemoryMax" => memory(spec).max = limit()?,
            "MemoryHigh" => memory(spec).high = limit()?,
            "MemoryLow" => memory(spec).low = limit()?,
            "MemoryMin" => memory(spec).min = limit()?,
            "MemorySwapMax" => memory(spec).swap_max = limit()?,
            "TasksMax" => resources(spec).pids_max = limit()?,
            "CPUQuota" => {
                let Limit(milli) = parse_cpus(value)?;
                // Thousandths of a CPU are tenths of a millisecond in the default period of 100 ms.
                let tenths = std::time::Duration::from_micros(100);
                let times = |milli: u64| u32::try_from(milli).unwrap_or(u32::MAX);
                cpu(spec).quota = milli.map(|milli| wire_duration(tenths * times(milli)));
            }
            "CPUWeight" => cpu(spec).weight = Some(integer(value)?),
            "AllowedCPUs" => cpu(spec).cpus = value.replace(' ', ","),
            "AllowedMemoryNodes" => cpu(spec).mems = value.replace(' ', ","),
            "IOWeight" => io(spec).weight = Some(integer(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn resources(spec: &mut ExecutableSpec) -> &mut Resources {
    spec.resources.get_or_insert_default()
}

fn memory(spec: &mut ExecutableSpec) -> &mut Memory {
    resources(spec).memory.get_or_insert_default()
}

fn cpu(spec: &mut ExecutableSpec) -> &mut Cpu {
    resources(spec).cpu.get_or_insert_default()
}

fn io(spec: &mut ExecutableSpec) -> &mut Io {
    resources(spec).io.get_or_insert_default()
}

fn capabilities(spec: &mut ExecutableSpec) -> &mut Capabilities {
    spec.capabilities.get_or_insert_default()
}

/// systemd's list of system calls: only these, or with `~` all but these.
fn filter(seccomp: &mut Seccomp, value: &str) {
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    match value.strip_prefix('~') {
        Some(denied) => seccomp.deny.extend(words(denied)),
        None => {
            seccomp.profile = seccomp::Profile::Strict.into();
            seccomp.allow.extend(words(value));
        }
    }
}

fn integer<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no such number"))
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" | "on" | "1" => Ok(true),
        "no" | "false" | "off" | "0" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(properties: &[&str]) -> ExecutableSpec {
        let mut spec = ExecutableSpec::default();
        for property in properties {
            parse_property(property).unwrap().apply(&mut spec);
        }
        spec
    }

    #[test]
    fn systemds_words_for_one_process() {
        let spec = spec(&[
            "MemoryMax=64M",
            "CPUQuota=50%",
            "TasksMax=infinity",
            "Nice=-5",
            "NoNewPrivileges=no",
            "LimitNOFILE=1024:2048",
            "Environment=A=b c",
            "SystemCallFilter=~@mount bpf",
        ]);
        let resources = spec.resources.unwrap();
        assert_eq!(resources.memory.unwrap().max, Some(64 << 20));
        assert_eq!(resources.cpu.unwrap().quota.unwrap().nanos, 50_000_000);
        assert_eq!((spec.nice, spec.no_new_privileges), (Some(-5), Some(false)));
        assert_eq!(
            spec.rlimits.first().map(|l| l.name.as_str()),
            Some("NOFILE")
        );
        assert_eq!(spec.env.get("A").map(String::as_str), Some("b c"));
        assert_eq!(spec.seccomp.unwrap().deny, ["@mount", "bpf"]);
    }

    #[test]
    fn unknown_and_malformed_ones_are_refused_by_name() {
        assert!(
            parse_property("PrivateTmp=yes")
                .unwrap_err()
                .contains("PrivateTmp")
        );
        assert!(
            parse_property("MemoryMax=lots")
                .unwrap_err()
                .contains("as in 64M")
        );
        assert!(parse_property("Nice").unwrap_err().contains("NAME=VALUE"));
        assert!(parse_property("Limit=1").is_err());
    }
}
