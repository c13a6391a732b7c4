// SPDX-License-Identifier: Apache-2.0
//! `systemctl show`: properties as `NAME=VALUE`, of units or of the manager itself.

use api::node::v0::GetRequest;

use super::args::Options;
use super::environment;
use super::list::preset_word;
use super::properties;
use super::state;
use crate::failure::Failure;
use crate::output::{print_line, printable};
use crate::systemd::node::Node;
use crate::systemd::time;
use crate::systemd::unitfiles::Files;

pub(super) async fn run(node: &Node, options: &Options, words: &[String]) -> Result<u8, Failure> {
    if words.is_empty() {
        return manager(node, options).await;
    }
    let style = options.style()?;
    for (at, name) in node.named(words, options.among()).await?.iter().enumerate() {
        if at > 0 {
            print_line("")?;
        }
        let detail = node.get(name).await?.unwrap_or_else(|| missing(name));
        let mut all = properties::of(&detail, &style);
        let group = detail.control_group.clone();
        let status = detail.status.unwrap_or_default();
        if options.shown().contains(&"UnitFilePreset") || options.shown().is_empty() {
            let files = Files::read(std::path::Path::new("/"), false).ok();
            let word = preset_word(files.as_ref(), &status).unwrap_or("");
            all.insert("UnitFilePreset".to_owned(), word.to_owned());
        }
        all.insert("ControlGroup".to_owned(), group);
        let pairs: Vec<(String, String)> = all.into_iter().collect();
        shown(options, &pairs)?;
    }
    Ok(0)
}

/// What systemctl says of a unit that there is none of.
fn missing(name: &str) -> api::schedule::v0::UnitDetail {
    api::schedule::v0::UnitDetail {
        status: Some(api::schedule::v0::UnitStatus {
            name: name.to_owned(),
            load: "not-found".to_owned(),
            load_error: format!("org.freedesktop.systemd1.NoSuchUnit \"Unit {name} not found.\""),
            active: "inactive".to_owned(),
            sub: "dead".to_owned(),
            result: "success".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The cgroup of a process, where it is on this machine and can be seen.
pub(super) fn group_of(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(line.to_owned())
}

/// Prints those that are asked for, in the order in which they are; without any, all. An unknown
/// one isn't printed, as by systemctl.
fn shown(options: &Options, all: &[(String, String)]) -> Result<(), Failure> {
    let wanted = options.shown();
    let print = |name: &str, value: &str| {
        for value in value.split('\n') {
            let line = match options.only_values() {
                true => value.to_owned(),
                false => format!("{name}={value}"),
            };
            print_line(&printable(&line))?;
        }
        Ok::<(), Failure>(())
    };
    if wanted.is_empty() {
        // Empty ones are left out, but with `-a`.
        let shown = all
            .iter()
            .filter(|(_, value)| options.all || !value.is_empty());
        for (name, value) in shown {
            print(name, value)?;
        }
        return Ok(());
    }
    for name in wanted {
        if let Some((name, value)) = all.iter().find(|(known, _)| known == name) {
            print(name, value)?;
        }
    }
    Ok(())
}

/// Properties of the manager.
async fn manager(node: &Node, options: &Options) -> Result<u8, Failure> {
    let request = node.session.node.unary(GetRequest {});
    let status = node.session.node.node().get(request).await?.into_inner();
    let units = node.list(false).await?;
    let given = environment::get(node).await?;
    let style = options.style()?;
    let failed = units.iter().filter(|it| it.active == "failed").count();
    let jobs = units.iter().filter(|it| it.job_id != 0).count();
    let at = |at: &Option<prost_types::Timestamp>| {
        let at = at.as_ref().map(time::micros);
        at.map_or_else(String::new, |at| style.show(at))
    };
    let all = [
        ("Version", format!("252 (aurae {})", status.version)),
        ("Architecture", std::env::consts::ARCH.replace('_', "-")),
        ("KernelTimestamp", at(&status.booted)),
        ("UserspaceTimestamp", at(&status.started)),
        ("NNames", units.len().to_string()),
        ("NFailedUnits", failed.to_string()),
        ("NJobs", jobs.to_string()),
        ("DefaultTimeoutStartUSec", "1min 30s".to_owned()),
        ("DefaultTimeoutStopUSec", "1min 30s".to_owned()),
        ("Environment", given.environment.join(" ")),
        (
            "ServiceWatchdogs",
            if given.service_watchdogs { "yes" } else { "no" }.to_owned(),
        ),
        ("UnitPath", units::load::SYSTEM.join(" ")),
        ("SystemState", state::of_machine(node).await?.to_owned()),
    ];
    let pairs: Vec<(String, String)> = all
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    shown(options, &pairs)?;
    Ok(0)
}
