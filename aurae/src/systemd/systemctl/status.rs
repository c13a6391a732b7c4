// SPDX-License-Identifier: Apache-2.0
//! `systemctl status`: a unit for people, with its processes and the last lines of its log.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use api::schedule::v0::{UnitDetail, UnitStatus};

use super::args::Options;
use super::list::preset_word;
use super::properties::directives;
use super::show::group_of;
use super::state;
use crate::failure::Failure;
use crate::output::{note, print, print_line, printable};
use crate::quantity::show_bytes;
use crate::systemd::journalctl;
use crate::systemd::node::{Among, Node};
use crate::systemd::time;
use crate::systemd::unitfiles::Files;
use crate::systemd::words::dot;

/// LSB's statuses: the program doesn't run; it isn't known.
const NOT_RUNNING: u8 = 3;
const UNKNOWN: u8 = 4;
/// Where cgroups are on a machine of ours, and on one that has both kinds.
const CGROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Processes that are shown.
const MOST: usize = 200;

pub(super) async fn run(node: &Node, options: &Options, words: &[String]) -> Result<u8, Failure> {
    if words.is_empty() {
        return of_all(node, options).await;
    }
    let presets = Files::read(Path::new("/"), false).ok();
    let mut worst = 0;
    let names = names(node, words, options.among()).await?;
    for (at, name) in names.iter().enumerate() {
        if at > 0 {
            print_line("")?;
        }
        let Some(detail) = node.get(name).await? else {
            note(&format!("Unit {name} could not be found."));
            worst = worst.max(UNKNOWN);
            continue;
        };
        let status = detail.status.clone().unwrap_or_default();
        if !matches!(status.active.as_str(), "active" | "reloading") {
            worst = worst.max(NOT_RUNNING);
        }
        print(&unit(&detail, presets.as_ref()))?;
        if options.lines > 0 {
            journalctl::last_lines(node, &status, options.lines, options.output.as_deref()).await?;
        }
    }
    Ok(worst)
}

/// A number is a process: its unit is meant.
async fn names(node: &Node, words: &[String], among: Among) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for word in words {
        let Ok(pid) = word.parse::<u32>() else {
            names.extend(node.named(std::slice::from_ref(word), among).await?);
            continue;
        };
        let units = node.list(false).await?;
        let group = group_of(pid);
        let is_of = |it: &&UnitStatus| {
            it.main_pid == Some(pid) || group.is_some() && it.main_pid.and_then(group_of) == group
        };
        match units.iter().find(is_of) {
            Some(unit) => names.push(unit.name.clone()),
            None => {
                let words = format!("Failed to get unit for PID {pid}: it belongs to no unit.");
                return Err(Failure::new(words).with_status(UNKNOWN));
            }
        }
    }
    Ok(names)
}

/// The machine, without a unit's name.
async fn of_all(node: &Node, options: &Options) -> Result<u8, Failure> {
    let units = node.list(false).await?;
    let state = state::of_machine(node).await?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let failed = units.iter().filter(|it| it.active == "failed").count();
    let jobs = units.iter().filter(|it| it.job_id != 0).count();
    let mark = match state {
        "running" => "●",
        _ => "×",
    };
    let mut text = format!("{mark} {}\n", host.trim());
    let _ = writeln!(text, "    State: {state}");
    let _ = writeln!(text, "    Units: {} loaded", units.len());
    let _ = writeln!(text, "     Jobs: {jobs} queued");
    let _ = writeln!(text, "   Failed: {failed} units");
    print(&text)?;
    if options.all {
        for unit in units.iter().filter(|it| it.active == "failed") {
            print_line(&format!("× {}", printable(&unit.name)))?;
        }
    }
    Ok(0)
}

/// A line with a heading; without one it goes on below the line before.
fn line(text: &mut String, name: &str, words: &str) {
    let colon = if name.is_empty() { ' ' } else { ':' };
    let _ = writeln!(text, "{name:>11}{colon} {}", printable(words));
}

/// A unit, as systemctl lays it out.
fn unit(detail: &UnitDetail, presets: Option<&Files>) -> String {
    let status = detail.status.clone().unwrap_or_default();
    let mut text = format!(
        "{} {}",
        dot(&status.active, &status.load),
        printable(&status.name)
    );
    if !status.description.is_empty() && status.description != status.name {
        let _ = write!(text, " - {}", printable(&status.description));
    }
    text.push('\n');
    line(&mut text, "Loaded", &loaded(&status, presets));
    for (at, words) in dropins(&status).iter().enumerate() {
        line(&mut text, if at == 0 { "Drop-In" } else { "" }, words);
    }
    line(&mut text, "Active", &active(&status));
    if let Some(next) = &status.next {
        let next = time::micros(next);
        let when = time::full(next, &time::zone());
        let left = time::relative(next, time::now());
        line(&mut text, "Trigger", &format!("{when}; {left}"));
    }
    let by = detail.dependencies.iter();
    let by = by
        .filter(|it| it.kind == "TriggeredBy")
        .flat_map(|it| &it.units);
    for (at, unit) in by.enumerate() {
        let name = if at == 0 { "TriggeredBy" } else { "" };
        line(&mut text, name, &format!("● {}", printable(unit)));
    }
    if !status.triggers.is_empty() {
        line(&mut text, "Triggers", &format!("● {}", status.triggers));
    }
    let all = directives(&detail.files);
    let docs = all.iter().filter(|(_, name, _)| name == "Documentation");
    for (at, (_, _, words)) in docs.enumerate() {
        line(&mut text, if at == 0 { "Docs" } else { "" }, words);
    }
    if !status.condition.is_empty() {
        let words = format!("start condition failed: {}", status.condition);
        line(&mut text, "Condition", &words);
    }
    process(&mut text, &status);
    if !status.message.is_empty() {
        line(&mut text, "Status", &format!("\"{}\"", status.message));
    }
    for finding in &status.findings {
        line(&mut text, "Notice", finding);
    }
    text.push_str(&group(&detail.control_group));
    text
}

fn loaded(status: &UnitStatus, presets: Option<&Files>) -> String {
    let mut parts: Vec<String> = Vec::new();
    match status.load.as_str() {
        "loaded" => parts.push(status.fragment.clone()),
        _ if !status.load_error.is_empty() => parts.push(format!("Reason: {}", status.load_error)),
        _ => parts.push(status.fragment.clone()),
    }
    parts.push(status.file_state.clone());
    if let Some(preset) = preset_word(presets, status) {
        parts.push(format!("preset: {preset}"));
    }
    parts.retain(|it| !it.is_empty());
    match parts.is_empty() {
        true => status.load.clone(),
        false => format!("{} ({})", status.load, parts.join("; ")),
    }
}

/// Folders of drop-ins, and the files below each.
fn dropins(status: &UnitStatus) -> Vec<String> {
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in &status.dropins {
        if let Some((folder, name)) = path.rsplit_once('/') {
            folders.entry(folder).or_default().push(name);
        }
    }
    let mut lines = Vec::new();
    for (folder, names) in folders {
        lines.push(folder.to_owned());
        lines.push(format!("└─{}", names.join(", ")));
    }
    lines
}

fn active(status: &UnitStatus) -> String {
    let at = match status.active.as_str() {
        "active" | "reloading" => status.active_since.as_ref(),
        _ => status.inactive_since.as_ref(),
    };
    let result = match (status.active.as_str(), status.result.as_str()) {
        ("failed", result) if !result.is_empty() => format!(" (Result: {result})"),
        _ => String::new(),
    };
    let since = at.map(time::micros).map_or_else(String::new, |at| {
        let ago = time::relative(at, time::now());
        format!(" since {}; {ago}", time::full(at, &time::zone()))
    });
    format!("{} ({}){result}{since}", status.active, status.sub)
}

/// The main process: which it is, or how it ended.
fn process(text: &mut String, status: &UnitStatus) {
    match status.main_pid {
        Some(pid) => {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            let name = name.map_or_else(|_| String::new(), |it| format!(" ({})", it.trim_end()));
            line(text, "Main PID", &format!("{pid}{name}"));
        }
        None if !status.exit_code.is_empty() => {
            let word = match (status.exit_code.as_str(), status.exit_status.as_str()) {
                ("exited", "0") => "status=0/SUCCESS".to_owned(),
                ("exited", number) => format!("status={number}"),
                (_, signal) => format!("signal={signal}"),
            };
            line(
                text,
                "Main PID",
                &format!("(code={}, {word})", status.exit_code),
            );
        }
        None => {}
    }
}

/// The processes in a group and in those below it.
fn processes(folder: &Path) -> Vec<String> {
    let pids = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let mut all: Vec<String> = pids.lines().map(str::to_owned).collect();
    let below = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut below: Vec<_> = below
        .filter(|it| it.file_type().is_ok_and(|it| it.is_dir()))
        .map(|it| it.path())
        .collect();
    below.sort();
    for folder in below {
        if all.len() < MOST {
            all.extend(processes(&folder));
        }
    }
    all.truncate(MOST);
    all
}

/// What a unit's group uses, and the processes in it.
fn group(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let folder = |root: &&str| -> Option<PathBuf> {
        let folder = Path::new(root).join(path.trim_start_matches('/'));
        folder.join("cgroup.procs").exists().then_some(folder)
    };
    let Some(folder) = CGROUPS.iter().find_map(folder) else {
        return String::new();
    };
    let number = |file: &str| -> Option<u64> {
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        text.trim().parse().ok()
    };
    let mut text = String::new();
    if let Some(tasks) = number("pids.current") {
        let limit = number("pids.max").map_or_else(String::new, |it| format!(" (limit: {it})"));
        let _ = writeln!(text, "{:>11}: {tasks}{limit}", "Tasks");
    }
    if let Some(bytes) = number("memory.current") {
        let _ = writeln!(text, "{:>11}: {}", "Memory", show_bytes(bytes));
    }
    let used = std::fs::read_to_string(folder.join("cpu.stat")).unwrap_or_default();
    let used = used.lines().find_map(|it| it.strip_prefix("usage_usec "));
    if let Some(used) = used.and_then(|it| it.parse().ok()) {
        let _ = writeln!(text, "{:>11}: {}", "CPU", time::about(used));
    }
    let _ = writeln!(text, "{:>11}: {}", "CGroup", printable(path));
    let pids = processes(&folder);
    for (at, pid) in pids.iter().enumerate() {
        let branch = match at + 1 == pids.len() {
            true => "└─",
            false => "├─",
        };
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let _ = writeln!(
            text,
            "             {branch}{pid} {}",
            printable(words.trim_end())
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_laid_out_as_by_systemctl() {
        let status = UnitStatus {
            name: "web.service".to_owned(),
            description: "The site".to_owned(),
            load: "loaded".to_owned(),
            fragment: "/lib/systemd/system/web.service".to_owned(),
            file_state: "static".to_owned(),
            dropins: vec![
                "/etc/systemd/system/web.service.d/a.conf".to_owned(),
                "/etc/systemd/system/web.service.d/b.conf".to_owned(),
            ],
            active: "failed".to_owned(),
            sub: "failed".to_owned(),
            result: "exit-code".to_owned(),
            exit_code: "exited".to_owned(),
            exit_status: "3".to_owned(),
            ..Default::default()
        };
        let detail = UnitDetail {
            status: Some(status),
            ..Default::default()
        };
        let expected = "\
× web.service - The site
     Loaded: loaded (/lib/systemd/system/web.service; static)
    Drop-In: /etc/systemd/system/web.service.d
             └─a.conf, b.conf
     Active: failed (failed) (Result: exit-code)
   Main PID: (code=exited, status=3)
";
        assert_eq!(unit(&detail, None), expected);
    }
}
