// SPDX-License-Identifier: Apache-2.0
//! `journalctl`: entries of the node's journal and lines of its units' logs, in one order, as
//! systemd's program shows them. What is stored, and for how long, is the node's.

mod args;
mod entry;
mod filter;
mod merged;
mod output;
mod source;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::Write;
use std::time::Duration;

use api::schedule::v0::UnitStatus;
use futures_util::StreamExt;

use super::node::Node;
use super::{parse, time};
use crate::failure::{FAILED, Failure};
use crate::output::{print_line, print_piece};
use crate::quantity::show_bytes;
use args::Options;
use entry::Entry;
use filter::Filter;
use merged::Merged;
use output::Printing;
use source::{Cursors, Log, Machine};

/// Entries that are held where the newest come first.
const MOST_HELD: usize = 1_000_000;
/// Between two looks for units that have begun, while their logs are followed.
const LOOK: Duration = Duration::from_secs(1);

/// Prints the lines that the options select, or lists boots or fields; the exit status.
pub(super) async fn run(words: &[OsString]) -> Result<u8, Failure> {
    let options: Options = parse(&args::with_boot(words))?;
    options.check()?;
    if options.flush {
        return Ok(0);
    }
    let mut filter = Filter::of(&options)?;
    let node = Node::connect().await?;
    if options.sync {
        return source::sync(&node).await.map(|()| 0);
    }
    let machine = Machine::of(&node).await?;
    if options.disk_usage {
        return disk_usage(&node).await;
    }
    if options.list_boots {
        return list_boots(&node, &machine).await;
    }
    if options.boot.is_some() || options.dmesg {
        let word = options.boot.as_deref().unwrap_or("0");
        filter.boot = Some(boot(&node, &machine, word).await?);
    }
    let mut reading = Reading {
        node: &node,
        printing: Printing::new(&options, machine.booted)?,
        machine,
        filter,
        cursors: Cursors::default(),
        seen: BTreeSet::new(),
    };
    if options.fields || options.field.is_some() {
        return reading.values(options.field.as_deref()).await;
    }
    let count = options.count()?;
    let shown = reading.stored(count, options.reverse).await?;
    if options.follow {
        reading.follow().await?;
        return Ok(0);
    }
    if shown == 0 {
        if !options.quiet {
            print_line("-- No entries --")?;
        }
        return Ok(match options.grep {
            Some(_) => FAILED,
            None => 0,
        });
    }
    Ok(0)
}

/// The last lines of a unit's log, for `systemctl status`.
pub(super) async fn last_lines(
    node: &Node,
    status: &UnitStatus,
    count: u64,
    output: Option<&str>,
) -> Result<(), Failure> {
    let machine = Machine::of(node).await?;
    let words = ["journalctl", "-o", output.unwrap_or("short")].map(OsString::from);
    let options: Options = parse(&words)?;
    let mut reading = Reading {
        node,
        printing: Printing::new(&options, machine.booted)?,
        filter: Filter::of_unit(&status.name),
        machine,
        cursors: Cursors::default(),
        seen: BTreeSet::new(),
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let entries = reading.newest(count.min(MOST_HELD)).await?;
    if !entries.is_empty() {
        print_line("")?;
    }
    entries.iter().try_for_each(|it| reading.print(it))
}

/// Prints what the commands of a unit's last activation print, to the byte and by stream, one after
/// the other, until the unit is down.
pub(super) async fn follow_unit(node: &Node, name: &str) -> Result<(), Failure> {
    let machine = Machine::of(node).await?;
    let filter = Filter::of_unit(name);
    let (mut printed, mut activation, mut over) = (BTreeSet::new(), 0, false);
    loop {
        let status = node.get(name).await?.and_then(|it| it.status);
        activation = status.as_ref().map_or(activation, |it| it.activation);
        let mut logs = source::logs(node, &filter, &machine).await?;
        logs.retain(|it| it.activation == Some(activation));
        let next = logs
            .into_iter()
            .find(|it| printed.insert(it.reference.uid.clone()));
        if let Some(log) = next {
            source::pieces(node, &log, &mut Own).await?;
            continue;
        }
        if over {
            return Ok(());
        }
        // It never began; or it did and ended after we looked: its logs are looked for again.
        over = status
            .is_none_or(|it| matches!(it.active.as_str(), "failed" | "inactive") && it.job_id == 0);
        if !over {
            tokio::time::sleep(LOOK / 10).await;
        }
    }
}

/// This program's own streams.
struct Own;

impl source::Output for Own {
    fn put(&mut self, is_error: bool, piece: &[u8]) -> std::io::Result<()> {
        let (mut out, mut error) = (std::io::stdout(), std::io::stderr());
        let to: &mut dyn Write = if is_error { &mut error } else { &mut out };
        to.write_all(piece)?;
        to.flush()
    }
}

/// What is read, how far, and how it is printed.
struct Reading<'a> {
    node: &'a Node,
    machine: Machine,
    filter: Filter,
    printing: Printing,
    cursors: Cursors,
    /// Logs that are followed, by uid.
    seen: BTreeSet<String>,
}

impl<'a> Reading<'a> {
    fn print(&mut self, entry: &Entry) -> Result<(), Failure> {
        let text = self.printing.show(entry);
        Ok(print_piece(&text)?)
    }

    async fn merged(&self, tail: Option<usize>) -> Result<Merged<'a>, Failure> {
        let journal = source::journal(self.node, &self.filter, tail, None).await?;
        let logs = source::logs(self.node, &self.filter, &self.machine).await?;
        // After the logs are listed: what goes to the past meanwhile is told twice, and shown once.
        let known = logs.iter().map(|it| it.reference.uid.clone()).collect();
        let past = source::past(self.node, &self.filter, tail, known).await?;
        Merged::new(self.node, &self.filter, tail, vec![past, journal], logs).await
    }

    /// The next entry that the filter takes; how far each log was read is kept.
    async fn next(&mut self, merged: &mut Merged<'_>) -> Result<Option<Entry>, Failure> {
        while let Some(entry) = merged.next().await? {
            match entry.cursor.split_once(':') {
                Some((uid, cursor)) => {
                    self.cursors.logs.insert(uid.to_owned(), cursor.to_owned());
                }
                None => self.cursors.journal.clone_from(&entry.cursor),
            }
            if self.filter.matches(&entry) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    async fn newest(&mut self, count: usize) -> Result<VecDeque<Entry>, Failure> {
        let mut merged = self.merged(Some(count)).await?;
        let mut held = VecDeque::new();
        while let Some(entry) = self.next(&mut merged).await? {
            held.push_back(entry);
            if held.len() > count {
                held.pop_front();
            }
        }
        Ok(held)
    }

    /// Prints what is stored; gives how many entries that were.
    async fn stored(&mut self, count: Option<usize>, reverse: bool) -> Result<usize, Failure> {
        if count.is_none() && !reverse {
            let mut merged = self.merged(None).await?;
            let mut shown = 0_usize;
            while let Some(entry) = self.next(&mut merged).await? {
                self.print(&entry)?;
                shown = shown.saturating_add(1);
            }
            return Ok(shown);
        }
        let held = self
            .newest(count.unwrap_or(MOST_HELD).min(MOST_HELD))
            .await?;
        match reverse {
            true => held.iter().rev().try_for_each(|it| self.print(it))?,
            false => held.iter().try_for_each(|it| self.print(it))?,
        }
        Ok(held.len())
    }

    /// Logs that have begun since they were looked at last.
    async fn new_logs(&mut self) -> Result<Vec<source::Entries>, Failure> {
        let mut sources = Vec::new();
        for log in source::logs(self.node, &self.filter, &self.machine).await? {
            let Log { reference, .. } = &log;
            let known = self.cursors.logs.get(&reference.uid).cloned();
            let is_read = log.is_over && known.is_some();
            if !self.seen.insert(reference.uid.clone()) || is_read {
                continue;
            }
            let from = known.unwrap_or_default();
            sources.push(source::lines(self.node, &log, &self.filter, None, Some(&from)).await?);
        }
        Ok(sources)
    }

    /// Goes on for as long as the node and the reader of our output are there.
    async fn follow(&mut self) -> Result<(), Failure> {
        let journal = self.cursors.journal.clone();
        let journal = source::journal(self.node, &self.filter, Some(0), Some(&journal)).await?;
        let mut sources = vec![journal];
        // What ended before this isn't begun again from its start.
        for log in source::logs(self.node, &self.filter, &self.machine).await? {
            let uid = log.reference.uid.clone();
            if log.is_over && !self.cursors.logs.contains_key(&uid) {
                self.seen.insert(uid);
            }
        }
        sources.extend(self.new_logs().await?);
        let mut all = source::together(sources);
        let mut ticks = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                entry = all.next() => {
                    let Some(entry) = entry else { return Ok(()) };
                    let entry = entry?;
                    if self.filter.matches(&entry) {
                        self.print(&entry)?;
                        std::io::stdout().flush()?;
                    }
                }
                _ = ticks.tick() => {
                    let new = self.new_logs().await?;
                    if !new.is_empty() {
                        all = source::together(std::iter::once(all).chain(new).collect());
                    }
                }
            }
        }
    }

    /// The names of all fields, or the values of one.
    async fn values(&mut self, field: Option<&str>) -> Result<u8, Failure> {
        let mut found = BTreeSet::new();
        let mut merged = self.merged(None).await?;
        while let Some(entry) = self.next(&mut merged).await? {
            match field {
                Some(name) => {
                    found.extend(
                        entry
                            .all(name)
                            .map(|it| String::from_utf8_lossy(it).into_owned()),
                    );
                }
                None => found.extend(entry.fields.into_iter().map(|(name, _)| name)),
            }
            if found.len() > MOST_HELD {
                return Err(Failure::new("Too many different values."));
            }
        }
        for text in found {
            print_line(&crate::output::printable(&text))?;
        }
        Ok(0)
    }
}

/// The first and the last time of each boot, oldest first.
async fn boots(node: &Node, machine: &Machine) -> Result<Vec<(String, i64, i64)>, Failure> {
    let mut entries = source::journal(node, &Filter::default(), None, None).await?;
    let mut boots: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    while let Some(entry) = entries.next().await {
        let entry = entry?;
        let Some(id) = entry.text("_BOOT_ID") else {
            continue;
        };
        let times = boots.entry(id).or_insert((entry.time, entry.time));
        *times = (times.0.min(entry.time), times.1.max(entry.time));
    }
    // Without an entry, too, this boot is there.
    let now = (machine.booted, time::now());
    boots.entry(machine.boot_id.clone()).or_insert(now);
    let mut all: Vec<_> = boots
        .into_iter()
        .map(|(id, (from, to))| (id, from, to))
        .collect();
    all.sort_by_key(|(_, from, _)| *from);
    Ok(all)
}

/// The id of a boot: by itself, or as an offset from this one or from the first.
async fn boot(node: &Node, machine: &Machine, word: &str) -> Result<String, Failure> {
    let none = || {
        Failure::new(format!(
            "Data from the specified boot ({word}) is not available."
        ))
    };
    let id = word.replace('-', "");
    if id.len() == 32 && id.chars().all(|c| c.is_ascii_hexdigit()) {
        return Ok(id.to_ascii_lowercase());
    }
    let offset: i64 = word.parse().map_err(|_| none())?;
    if offset == 0 {
        return Ok(machine.boot_id.clone());
    }
    let boots = boots(node, machine).await?;
    let at = match usize::try_from(offset) {
        Ok(from_first) => from_first.checked_sub(1),
        Err(_) => usize::try_from(offset.unsigned_abs())
            .ok()
            .and_then(|back| boots.len().checked_sub(back.saturating_add(1))),
    };
    let found = at.and_then(|at| boots.get(at));
    found.map(|(id, ..)| id.clone()).ok_or_else(none)
}

async fn list_boots(node: &Node, machine: &Machine) -> Result<u8, Failure> {
    let boots = boots(node, machine).await?;
    let zone = time::zone();
    let last = i64::try_from(boots.len()).unwrap_or(i64::MAX);
    let mut list = super::words::Columns::new(&["IDX", "BOOT ID", "FIRST ENTRY", "LAST ENTRY"]);
    for (at, (id, from, to)) in (1..).zip(boots) {
        let index = format!("{:>3}", at - last);
        list.push(
            None,
            vec![index, id, time::full(from, &zone), time::full(to, &zone)],
        );
    }
    crate::output::print(&list.render(true, false))?;
    Ok(0)
}

/// What is stored for the tenant of all units.
async fn disk_usage(node: &Node) -> Result<u8, Failure> {
    let request = api::observe::v0::UsageRequest {
        tenant: node.session.tenant(),
        ..Default::default()
    };
    let request = node.session.node.unary(request);
    let usage = node
        .session
        .node
        .observe()
        .usage(request)
        .await?
        .into_inner()
        .usage;
    let bytes: u64 = usage.iter().filter_map(|it| it.log_bytes).sum();
    print_line(&format!(
        "Logs of units take up {} in the file system.",
        show_bytes(bytes)
    ))?;
    Ok(0)
}
