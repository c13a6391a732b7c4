// SPDX-License-Identifier: Apache-2.0
//! Where entries come from: the node's journal, the logs of the units' executables, and those of
//! their past. `merged` brings them into one order.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;

use api::node::v0::GetRequest;
use api::observe::v0::{JournalEntry, JournalRequest, LogsRequest, LogsResponse, logs_response};
use api::runtime::v0::{
    ExecutableStatus, Kind, ListRequest, Meta, ObjectRef, State, Stream as Printed, object,
};
use futures_util::stream::{Stream, StreamExt, select_all};
use tonic::{Request, Streaming};

use super::entry::{Entry, Printer};
use super::filter::Filter;
use crate::cmd::logs::Lines;
use crate::cmd::ps;
use crate::failure::Failure;
use crate::output::note;
use crate::systemd::node::Node;
use crate::systemd::time;

/// The cell of all units, and the label by which an executable is a unit's.
const CELL: &str = "system";
const LABEL: &str = "schedule.aurae/unit";
/// That with the number of its activation.
const ACTIVATION: &str = "schedule.aurae/run";
/// Those that have the unit's name.
const NAME: &str = "schedule.aurae/unit-name";
/// The field of an entry of the past that says of which run it is.
const RUN: &str = "_AURAE_UID";
/// The label by which it is of a boot.
const BOOT: &str = "schedule.aurae/boot";
/// What labels begin with that say what its lines are: `SyslogIdentifier=` and the like.
const SYSLOG: &str = "schedule.aurae/syslog-";

/// Entries as they come.
pub(super) type Entries = Pin<Box<dyn Stream<Item = Result<Entry, Failure>>>>;

/// What the node is, as far as entries say.
pub(super) struct Machine {
    pub(super) host: String,
    pub(super) boot_id: String,
    /// Microseconds since 1970.
    pub(super) booted: i64,
}

impl Machine {
    pub(super) async fn of(node: &Node) -> Result<Machine, Failure> {
        let request = node.session.node.unary(GetRequest {});
        let status = node.session.node.node().get(request).await?.into_inner();
        Ok(Machine {
            host: host(),
            boot_id: status.boot_id.replace('-', ""),
            booted: status.booted.as_ref().map_or(0, time::micros),
        })
    }
}

/// The machine's name, as syslog has it: without a domain.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim()
        .split('.')
        .next()
        .unwrap_or("localhost")
        .to_owned()
}

/// An executable whose log is read.
#[derive(Clone, Debug)]
pub(super) struct Log {
    pub(super) reference: ObjectRef,
    pub(super) printer: Printer,
    pub(super) is_over: bool,
    pub(super) started: i64,
    /// Of which activation of its unit.
    pub(super) activation: Option<u64>,
}

/// The logs of the units that a filter takes, oldest first.
pub(super) async fn logs(
    node: &Node,
    filter: &Filter,
    machine: &Machine,
) -> Result<Vec<Log>, Failure> {
    let units = node.list(false).await?;
    // What an executable's label means: the unit whose last activation is called so.
    let mut names = BTreeMap::new();
    for unit in units {
        let label = unit
            .path
            .strip_prefix("system/")
            .and_then(|it| it.strip_suffix(&format!("-{}", unit.activation)));
        if let Some(label) = label {
            names.insert(label.to_owned(), unit.name);
        }
    }
    let request = ListRequest {
        tenant: node.session.tenant(),
        kinds: vec![Kind::Executable.into()],
        below: CELL.to_owned(),
        ..Default::default()
    };
    let listed = match ps::list(&node.session, request).await {
        Ok(listed) => listed.objects,
        // No unit has run yet.
        Err(_) if names.is_empty() => Vec::new(),
        Err(failure) => return Err(failure),
    };
    let mut logs = Vec::new();
    for object in listed {
        let Some(object::Object::Executable(status)) = object.object else {
            continue;
        };
        let Some(meta) = &status.meta else {
            continue;
        };
        let Some(label) = meta.labels.get(LABEL) else {
            continue;
        };
        let unit = names.get(label).cloned().or_else(|| spelled(meta));
        let unit = unit.unwrap_or_else(|| format!("{label}.service"));
        if filter.takes_unit(&unit) {
            let log = log(&status, unit, machine);
            logs.extend(log.filter(|it| filter.can_match(&it.printer)));
        }
    }
    logs.sort_by_key(|it| it.started);
    Ok(logs)
}

/// The name of a unit that its run bears, where its label doesn't tell it.
fn spelled(meta: &Meta) -> Option<String> {
    let pieces = (1..=meta.labels.len()).map_while(|piece| match piece {
        1 => meta.labels.get(NAME),
        piece => meta.labels.get(&format!("{NAME}-{piece}")),
    });
    let unit = units::spelling::read(pieces.map(String::as_str))?;
    Some(unit.as_str().to_owned())
}

fn log(status: &ExecutableStatus, unit: String, machine: &Machine) -> Option<Log> {
    let meta = status.meta.as_ref()?;
    let reference = meta.r#ref.clone()?;
    let spec = status.spec.clone().unwrap_or_default();
    let program = spec.argv.first().map_or("", String::as_str);
    let program = program.rsplit('/').next().unwrap_or_default();
    let said = |name: &str| {
        meta.labels
            .get(&format!("{SYSLOG}{name}"))
            .map(String::as_str)
    };
    let program = said("identifier").unwrap_or(program).to_owned();
    let number = |name| said(name).and_then(|it| it.parse().ok());
    let started = status.started.as_ref().or(meta.created.as_ref());
    let started = started.map_or(0, time::micros);
    Some(Log {
        printer: Printer {
            unit,
            program,
            path: reference.path.clone(),
            pid: Some(status.pid).filter(|pid| *pid > 0),
            boot_id: meta.labels.get(BOOT).cloned().unwrap_or_default(),
            host: machine.host.clone(),
            facility: number("facility"),
            level: number("level"),
            keeps_prefix: said("level-prefix") == Some("no"),
        },
        reference,
        is_over: matches!(status.state(), State::Exited | State::Failed),
        started,
        activation: meta.labels.get(ACTIVATION).and_then(|it| it.parse().ok()),
    })
}

/// How far what was read has come, so that it can be gone on with.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    pub(super) journal: String,
    /// By uid.
    pub(super) logs: BTreeMap<String, String>,
}

async fn entries(node: &Node, request: JournalRequest) -> Result<Streaming<JournalEntry>, Failure> {
    let mut observe = node.session.node.observe();
    let answer = observe.journal(Request::new(request)).await;
    Ok(answer.map_err(client::Error::from)?.into_inner())
}

/// Waits until what was said before is on the node's disk.
pub(super) async fn sync(node: &Node) -> Result<(), Failure> {
    let request = JournalRequest {
        tail: Some(0),
        sync: true,
        ..JournalRequest::default()
    };
    entries(node, request).await.map(drop)
}

/// The node's journal.
pub(super) async fn journal(
    node: &Node,
    filter: &Filter,
    tail: Option<usize>,
    follow: Option<&str>,
) -> Result<Entries, Failure> {
    let request = JournalRequest {
        follow: follow.is_some(),
        cursor: follow.unwrap_or_default().to_owned(),
        ..request(filter, tail)
    };
    let stream = entries(node, request).await?;
    let entries = stream.map(|entry| match entry {
        Ok(entry) => Ok(Entry::received(entry)),
        Err(status) => Err(Failure::from(client::Error::from(status))),
    });
    Ok(entries.boxed_local())
}

/// What units have printed in runs whose records are gone, but for those that are `known`.
pub(super) async fn past(
    node: &Node,
    filter: &Filter,
    tail: Option<usize>,
    known: BTreeSet<String>,
) -> Result<Entries, Failure> {
    let is_new = move |entry: &Entry| entry.text(RUN).is_none_or(|uid| !known.contains(&uid));
    read_past(node, request(filter, tail), is_new).await
}

/// All of one run.
async fn past_of(node: &Node, uid: &str) -> Result<Entries, Failure> {
    let request = JournalRequest {
        matches: vec![format!("{RUN}={uid}")],
        ..JournalRequest::default()
    };
    read_past(node, request, |_| true).await
}

async fn read_past(
    node: &Node,
    request: JournalRequest,
    takes: impl Fn(&Entry) -> bool + 'static,
) -> Result<Entries, Failure> {
    let request = JournalRequest {
        past: true,
        ..request
    };
    let stream = entries(node, request).await?;
    let entries = stream.filter_map(move |entry| {
        let entry = match entry {
            Ok(entry) => Some(Entry::received(entry))
                .filter(&takes)
                .map(|entry| Entry {
                    // Nothing goes on behind it.
                    cursor: format!("past:{}", entry.cursor),
                    ..entry
                })
                .map(Ok),
            Err(status) => Some(Err(Failure::from(client::Error::from(status)))),
        };
        std::future::ready(entry)
    });
    Ok(entries.boxed_local())
}

fn request(filter: &Filter, tail: Option<usize>) -> JournalRequest {
    JournalRequest {
        matches: filter.for_node(),
        since: filter.since.map(time::wire),
        until: filter.until.map(time::wire),
        // The node doesn't know all of the filter: what it leaves out must not count.
        tail: tail
            .filter(|_| filter.is_known_to_node())
            .and_then(|it| u32::try_from(it).ok()),
        ..JournalRequest::default()
    }
}

/// The lines of one log; with `follow` those behind the cursor, and those to come.
pub(super) async fn lines(
    node: &Node,
    log: &Log,
    filter: &Filter,
    tail: Option<usize>,
    follow: Option<&str>,
) -> Result<Entries, Failure> {
    let request = LogsRequest {
        refs: vec![log.reference.clone()],
        since: filter.since.map(time::wire),
        until: filter.until.map(time::wire),
        tail: tail
            .filter(|_| follow.is_none() && filter.takes_all_lines())
            .and_then(|it| u64::try_from(it).ok()),
        follow: follow.is_some(),
        cursor: follow.unwrap_or_default().to_owned(),
        ..Default::default()
    };
    let mut client = node.session.node.observe();
    let answer = match client.logs(Request::new(request)).await {
        // Its record has gone since it was listed, and its lines to the past.
        Err(status) if status.code() == tonic::Code::NotFound && follow.is_none() => {
            return past_of(node, &log.reference.uid).await;
        }
        answer => answer.map_err(client::Error::from)?,
    };
    let stream = answer.into_inner();
    let mut joined = Joined {
        printer: log.printer.clone(),
        streams: BTreeMap::new(),
        uid: log.reference.uid.clone(),
    };
    let entries = stream.flat_map(move |answer| {
        let entries = match answer {
            Ok(answer) => joined.take(answer).into_iter().map(Ok).collect(),
            Err(status) => vec![Err(Failure::from(client::Error::from(status)))],
        };
        futures_util::stream::iter(entries)
    });
    Ok(entries.boxed_local())
}

/// What takes a program's output as it is.
pub(super) trait Output {
    /// A piece of it: of standard error, or of standard output.
    fn put(&mut self, is_error: bool, piece: &[u8]) -> std::io::Result<()>;
}

/// One log as it was printed, from its beginning to its end.
pub(super) async fn pieces(
    node: &Node,
    log: &Log,
    output: &mut impl Output,
) -> Result<(), Failure> {
    let request = LogsRequest {
        refs: vec![log.reference.clone()],
        follow: true,
        ..Default::default()
    };
    let mut client = node.session.node.observe();
    let answer = client.logs(Request::new(request)).await;
    let mut answers = answer.map_err(client::Error::from)?.into_inner();
    while let Some(answer) = answers.next().await {
        let answer = answer.map_err(client::Error::from)?;
        put(output, answer.message)?;
    }
    Ok(())
}

fn put(output: &mut impl Output, message: Option<logs_response::Message>) -> Result<(), Failure> {
    match message {
        Some(logs_response::Message::Data(data)) => {
            let is_error = data.stream() == Printed::Stderr;
            Ok(output.put(is_error, &data.data)?)
        }
        Some(logs_response::Message::Gap(gap)) => {
            note(&format!("{} bytes of output are not there", gap.bytes));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Pieces of a log, made into lines.
struct Joined {
    printer: Printer,
    /// By stream: the unfinished line, and the time at which it began.
    streams: BTreeMap<i32, (Lines, i64)>,
    uid: String,
}

impl Joined {
    fn take(&mut self, answer: LogsResponse) -> Vec<Entry> {
        // A line's cursor is its uid and that of the piece that ended it.
        let cursor = format!("{}:{}", self.uid, answer.cursor);
        match answer.message {
            Some(logs_response::Message::Data(data)) => {
                let time = data.time.as_ref().map_or(0, time::micros);
                let (lines, began) = self
                    .streams
                    .entry(data.stream)
                    .or_insert_with(|| (Lines::default(), time));
                let mut entries = Vec::new();
                for line in lines.push(&data.data) {
                    let at = std::mem::replace(began, time);
                    entries.push(Entry::printed(&self.printer, at, cursor.clone(), &line));
                }
                entries
            }
            Some(logs_response::Message::Gap(gap)) => {
                let words = format!("<4>{} bytes of output are not there", gap.bytes);
                let time = self.streams.values().map(|(_, at)| *at).max().unwrap_or(0);
                vec![Entry::printed(
                    &self.printer,
                    time,
                    cursor,
                    words.as_bytes(),
                )]
            }
            Some(logs_response::Message::End(_)) => {
                let rest = std::mem::take(&mut self.streams).into_values();
                let rest = rest.filter_map(|(mut lines, at)| Some((lines.finish()?, at)));
                let printed = |(line, at): (Vec<u8>, i64)| {
                    Entry::printed(&self.printer, at, cursor.clone(), &line)
                };
                rest.map(printed).collect()
            }
            None => Vec::new(),
        }
    }
}

/// Several, as they come.
pub(super) fn together(sources: Vec<Entries>) -> Entries {
    select_all(sources).boxed_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `systemd-run --pipe` prints is what the command printed: no line feed comes to it.
    #[test]
    fn output_is_given_as_it_is_and_by_stream() {
        #[derive(Default)]
        struct Taken([Vec<u8>; 2]);
        impl Output for Taken {
            fn put(&mut self, is_error: bool, piece: &[u8]) -> std::io::Result<()> {
                self.0[usize::from(is_error)].extend(piece);
                Ok(())
            }
        }
        let mut taken = Taken::default();
        for (stream, piece) in [
            (Printed::Stdout, "a\n<3>b"),
            (Printed::Stderr, "c"),
            (Printed::Stdout, "d"),
        ] {
            let data = api::observe::v0::LogData {
                stream: stream.into(),
                data: piece.into(),
                ..Default::default()
            };
            put(&mut taken, Some(logs_response::Message::Data(data))).unwrap();
        }
        assert_eq!(taken.0, [b"a\n<3>bd".to_vec(), b"c".to_vec()]);
    }
}
