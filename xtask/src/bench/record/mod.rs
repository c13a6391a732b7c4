// SPDX-License-Identifier: Apache-2.0
//! docs/guide/figures.json, what was measured last of each row, and figures.md, which is written
//! from it and from bench/notes.md, never by hand.
//!
//! Rows are measured by the group: `./x bench density` takes all that begin with that name. So of a
//! group in a place only what the last measurement of it found stands: what an earlier one found
//! under other names (another number of cells), and what failed then, is gone.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::exec;

use super::ROWS;
use super::table::{Row, Shown};
use crate::build;

/// The page's beginning.
const HEAD: &str = "<!-- Written by `./x bench --write` from figures.json: don't edit. -->
# Figures

What a node costs and how fast it is, beside the bare kernel and beside what others take for the same, measured in one
run on one machine: ours and the reference in turns. Only the ratios mean anything on another machine; `./x bench`
takes them on yours. *native*: a daemon as a service of the host. *vm*: a node in QEMU without hardware virtualization,
2 processors and 3 GB (1 GB for the rows `machine`), where a system call costs many times what it costs a host.
";

/// Puts these in the place of earlier ones of the same names, and writes the page.
pub(super) fn keep(rows: &[Row]) -> Result<()> {
    let mut all = load()?;
    let when = circumstances()?;
    for row in rows {
        let mut entry = row.to_json();
        if let (Some(entry), Some(when)) = (entry.as_object_mut(), when.as_object()) {
            entry.extend(when.clone());
        }
        match all.iter_mut().find(|had| is_same(had, row)) {
            Some(had) => *had = entry,
            None => all.push(entry),
        }
    }
    let text = serde_json::to_string_pretty(&Value::from(latest(&all)))?;
    fs::write(json_file()?, text + "\n")?;
    render()
}

/// Writes the page from what is kept.
pub(super) fn render() -> Result<()> {
    let page = page(&load()?, &notes()?);
    fs::write(page_file()?, page)?;
    Ok(())
}

/// Those without what a later measurement of their group has taken the place of.
fn latest(all: &[Value]) -> Vec<Value> {
    let overtaken = |old: &Value| all.iter().any(|new| overtakes(new, old));
    let rest = all.iter().filter(|one| !overtaken(one));
    rest.cloned().collect()
}

/// Whether `new` was measured later, in the same place, and is of a group of `old`'s. A failure
/// takes nothing's place.
fn overtakes(new: &Value, old: &Value) -> bool {
    let groups = groups(old);
    text(new, "where") == text(old, "where")
        && text(new, "date") > text(old, "date")
        && !failed(new)
        && (groups.is_empty() || group(text(new, "row")).is_some_and(|one| groups.contains(&one)))
}

/// The groups that a row stands for: its own, or all those whose measurement failed at once, as in
/// `memory, growth, density`. None: every one.
fn groups(entry: &Value) -> Vec<&str> {
    let row = text(entry, "row");
    // Attacks have such names, too: `neighbour, memory, beside two slices`.
    if !failed(entry) || row.starts_with("neighbour") {
        return group(row).into_iter().collect();
    }
    let words = row.split(", ").map_while(|word| match group(word) {
        Some(one) if one == word => Some(one),
        _ => None,
    });
    let listed: Vec<&str> = words.collect();
    match listed.is_empty() {
        true => group(row).into_iter().collect(),
        false => listed,
    }
}

/// The row's first word, where `./x bench` knows it.
fn group(row: &str) -> Option<&str> {
    let first = row.split([',', ' ']).next()?;
    ROWS.iter().any(|(name, _)| *name == first).then_some(first)
}

fn failed(entry: &Value) -> bool {
    entry.get("error").is_some_and(Value::is_string)
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The same row: the count of samples in its name aside.
fn is_same(had: &Value, row: &Row) -> bool {
    bare(text(had, "row")) == bare(&row.row) && text(had, "where") == row.place
}

fn bare(row: &str) -> &str {
    row.split(" (n=").next().unwrap_or(row)
}

fn load() -> Result<Vec<Value>> {
    let file = json_file()?;
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&file)?;
    let value: Value = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    let list = value.as_array().cloned();
    list.with_context(|| format!("{} is not a list", file.display()))
}

/// What is said to a missed goal: the row's beginning and the paragraphs.
fn notes() -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(build::root()?.join("bench/notes.md"))?;
    let sections = text.split("\n## ").skip(1);
    let pairs = sections.filter_map(|section| {
        let (row, note) = section.split_once('\n')?;
        Some((row.trim().to_owned(), note.trim().to_owned()))
    });
    Ok(pairs.collect())
}

fn page(all: &[Value], notes: &[(String, String)]) -> String {
    let all = latest(all);
    let mut page = HEAD.to_owned();
    let mut missed = String::new();
    for place in ["native", "vm"] {
        let at = |entry: &&Value| entry.get("where").and_then(Value::as_str) == Some(place);
        let entries: Vec<&Value> = all.iter().filter(at).collect();
        if entries.is_empty() {
            continue;
        }
        let _ = writeln!(
            page,
            "\n## {}\n\n| row | ours | reference | ratio (spread) | goal | met |\n|---|---|---|---|---|---|",
            if place == "vm" { "In a VM" } else { "Natively" }
        );
        let rows = entries.iter().filter_map(|one| Row::from_json(one, place));
        for row in rows {
            page.push_str(&line(&row));
            if !row.is_good() {
                missed.push_str(&remark(&row, notes));
            }
        }
        page.push_str(&taken(&entries));
    }
    if !missed.is_empty() {
        let _ = write!(page, "\n## What is missed, and why\n\n{missed}");
    }
    page
}

fn line(row: &Row) -> String {
    if row.error.is_some() {
        return format!("| {} | not measured | | | | |\n", row.row);
    }
    let shown = Shown::of(row);
    let reference = match row.against.as_str() {
        "" => shown.reference,
        against => format!("{}: {against}", shown.reference),
    };
    let spread = match shown.spread.as_str() {
        "" => String::new(),
        spread => format!(" ({spread})"),
    };
    let met = if shown.met == "MISSED" {
        "**no**"
    } else {
        shown.met
    };
    format!(
        "| {} | {} | {reference} | {}{spread} | {} | {met} |\n",
        row.row,
        shown.ours,
        shown.ratio,
        row.goal.replace("<=", "≤").replace(">=", "≥")
    )
}

fn remark(row: &Row, notes: &[(String, String)]) -> String {
    let place = &row.place;
    let mut text = format!("* **{}** ({place})", row.row);
    if let Some(error) = &row.error {
        let _ = write!(text, " could not be measured: {}", reason(error));
    }
    if let Some(note) = note(row, notes) {
        let _ = write!(text, ": {note}");
    }
    text + "\n"
}

/// The first line that says something; of a script that failed, how it ended, which comes after it.
fn reason(error: &str) -> &str {
    let lines = || error.lines().map(str::trim);
    let ended = lines().find(|line| line.starts_with("ended with "));
    let first = || lines().find(|line| !line.is_empty());
    ended.or_else(first).unwrap_or("no reason")
}

/// What the notes say of the row. A section that says more of it is about it, and not about others
/// as well.
fn note<'a>(row: &Row, notes: &'a [(String, String)]) -> Option<&'a str> {
    let there = format!("{}: {}", row.place, row.row);
    let fits = |name: &str| row.row.starts_with(name) || there.starts_with(name);
    let fitting = notes.iter().filter(|(name, _)| fits(name));
    let (_, note) = fitting.max_by_key(|(name, _)| name.len())?;
    Some(note.as_str())
}

/// When and on what: each of these once.
fn taken(entries: &[&Value]) -> String {
    let mut text = String::new();
    let mut seen: Vec<String> = Vec::new();
    for entry in entries {
        let of = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or("?");
        let one = format!("{} at {}, {}", of("date"), of("commit"), of("machine"));
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    let _ = writeln!(text, "\nMeasured {}.", seen.join("; "));
    text
}

fn circumstances() -> Result<Value> {
    let root = build::root()?;
    let git = |words: &[&str]| exec::read(Command::new("git").current_dir(&root).args(words));
    // A folder of binaries made elsewhere says what they were made from.
    let made =
        std::env::var_os("AURAE_BINARIES").map(|folder| PathBuf::from(folder).join("commit"));
    let commit = match made.filter(|file| file.is_file()) {
        Some(file) => fs::read_to_string(file)?,
        None => git(&["rev-parse", "--short=12", "HEAD"])?,
    };
    let date = exec::read(Command::new("date").args(["-u", "+%F %H:%M"]))?;
    let cpus = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("?", |model| model.trim_start_matches([' ', '\t', ':']));
    let count = cpus
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    // Of the last minutes: what measures loads the machine by one to two itself.
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').nth(1).unwrap_or("?");
    let machine = format!("{count} × {model}, Linux {}, load {load}", kernel.trim());
    Ok(json!({ "commit": commit.trim(), "date": date.trim(), "machine": machine }))
}

fn json_file() -> Result<PathBuf> {
    Ok(build::root()?.join("docs/guide/figures.json"))
}

fn page_file() -> Result<PathBuf> {
    Ok(build::root()?.join("docs/guide/figures.md"))
}

#[cfg(test)]
mod tests;
