// SPDX-License-Identifier: Apache-2.0
//! `state`, `list`, `ps`, `events`: runc's documents, which engines read.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kernel::cgroup::Cgroup;
use kernel::pidfd;
use kernel::poll::Deadline;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::json;

use super::load;
use crate::args;
use crate::cgroup::stats;
use crate::container::state::{Folder, Record, Status};
use crate::error::{Doing, Result, refuse};
use crate::log;

pub(super) fn state(root: &Path, id: &str) -> Result<()> {
    let (folder, record) = load(root, id)?;
    let shown = record.show(record.status(&folder).word());
    println!("{}", pretty(&shown)?);
    Ok(())
}

fn pretty(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)?)
}

pub(super) fn list(root: &Path, named: bool, asked: &args::List) -> Result<()> {
    let mut shown = Vec::new();
    for id in ids(root, named)? {
        match load(root, &id) {
            Ok((folder, record)) => shown.push(record.show(record.status(&folder).word())),
            // It may have been deleted meanwhile.
            Err(error) => log::debug(format!("{id}: {error}")),
        }
    }
    if asked.quiet {
        for container in &shown {
            println!("{}", container.id);
        }
        return Ok(());
    }
    if asked.format == "json" {
        println!("{}", serde_json::to_string(&shown)?);
        return Ok(());
    }
    let mut rows = vec![["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"].map(str::to_owned)];
    rows.extend(shown.into_iter().map(|container| {
        [
            container.id,
            container.pid.to_string(),
            container.status.to_owned(),
            container.bundle.display().to_string(),
            container.created,
            container.owner,
        ]
    }));
    print!("{}", table(&rows));
    Ok(())
}

/// Names of folders; sorted, for a list is looked through by people. A folder that was named must
/// be there.
fn ids(root: &Path, named: bool) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error).doing_on("--root:", root),
    };
    let mut ids: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Columns of equal width, with three blanks between.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(11).max(*width);
        }
    }
    let mut out = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join(" ");
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// All processes of a group and of those below.
pub(super) fn processes(group: &Cgroup) -> Vec<i32> {
    let mut pids = group.processes().unwrap_or_default();
    for (_, below) in group.groups() {
        pids.extend(processes(&below));
    }
    pids
}

pub(super) fn ps(root: &Path, asked: &args::Ps) -> Result<()> {
    let (_, record) = load(root, &asked.id)?;
    let pids = match record.group() {
        Some(group) => processes(&group),
        None => {
            return refuse(
                "ps: the container has no cgroup of its own, so its processes aren't known",
            );
        }
    };
    if asked.format == "json" {
        println!("{}", serde_json::to_string(&pids)?);
        return Ok(());
    }
    let arguments = match asked.arguments.is_empty() {
        true => vec!["-ef".to_owned()],
        false => asked.arguments.clone(),
    };
    let output = Command::new("ps").args(&arguments).output().doing("ps")?;
    if !output.status.success() {
        return refuse(format!(
            "ps: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let Some(title) = lines.next() else {
        return Ok(());
    };
    let Some(column) = title.split_whitespace().position(|name| name == "PID") else {
        return refuse("ps: its output has no column PID");
    };
    println!("{title}");
    for line in lines {
        let pid = line
            .split_whitespace()
            .nth(column)
            .and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid| pids.contains(&pid)) {
            println!("{line}");
        }
    }
    Ok(())
}

pub(super) fn events(root: &Path, asked: &args::Events) -> Result<()> {
    let interval = match seconds(&asked.interval) {
        Some(interval) if !interval.is_zero() => interval,
        _ => return refuse("--interval: a duration as 5s or 500ms, and not 0"),
    };
    let (folder, record) = load(root, &asked.id)?;
    if record.status(&folder) == Status::Stopped {
        return refuse(format!("container with id {} is not running", asked.id));
    }
    let Some(group) = record.group() else {
        return refuse("events: the container has no cgroup of its own");
    };
    if asked.stats {
        return say("stats", &record.id, &stats::of(&group)?);
    }
    watch(&folder, &record, &group, interval)
}

/// Until the container has ended.
fn watch(folder: &Folder, record: &Record, group: &Cgroup, interval: Duration) -> Result<()> {
    let process = pidfd::open(record.pid).doing("the container's process")?;
    let kills = || {
        group
            .memory_events()
            .ok()
            .flatten()
            .map_or(0, |e| e.oom_kill)
    };
    let mut before = kills();
    let mut next = Deadline::after(interval);
    let memory = group.open_events("memory.events").ok();
    loop {
        let mut fds = vec![PollFd::new(&process, PollFlags::IN)];
        fds.extend(memory.iter().map(|file| PollFd::new(file, PollFlags::PRI)));
        match rustix::event::poll(&mut fds, next.timeout().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).doing("poll"),
        }
        let ended = fds.first().is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        let now = kills();
        if now > before {
            say("oom", &record.id, &json!(null))?;
            before = now;
        }
        if ended || record.status(folder) == Status::Stopped {
            return Ok(());
        }
        if next.passed() {
            say("stats", &record.id, &stats::of(group)?)?;
            next = Deadline::after(interval);
        }
    }
}

fn say(kind: &str, id: &str, data: &serde_json::Value) -> Result<()> {
    /// In this order: engines and tests read it as text.
    #[derive(Serialize)]
    struct Event<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        id: &'a str,
        #[serde(skip_serializing_if = "serde_json::Value::is_null")]
        data: &'a serde_json::Value,
    }
    let event = serde_json::to_string(&Event { kind, id, data })?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{event}")
        .and_then(|()| out.flush())
        .doing("write")
}

/// `5s`, `500ms`, `1m`, or seconds.
fn seconds(text: &str) -> Option<Duration> {
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(at)?;
    let number: f64 = number.parse().ok()?;
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "us" | "µs" => 0.000_001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * factor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_a_unit() {
        assert_eq!(seconds("5s"), Some(Duration::from_secs(5)));
        assert_eq!(seconds("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(seconds("1.5m"), Some(Duration::from_secs(90)));
        for wrong in ["", "s", "5x", "-1s"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_table_has_its_columns_below_each_other() {
        let rows =
            [["ID", "PID"], ["a-long-container-name", "7"]].map(|row| row.map(str::to_owned));
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].find("PID"), lines[1].find('7'));
    }
}
