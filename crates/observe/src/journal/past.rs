// SPDX-License-Identifier: Apache-2.0
//! What units have printed in runs whose records are gone: the older part of "one log per unit".
//! A run's own log goes with its record, and of what is started again and again only the last
//! records stay. Before one goes, its lines come here, as entries of the journal, in a log of the
//! unit's that outlives runs, daemons and boots; `Observe.Journal` reads them where it is asked for
//! the past. Called by what removes the records, by a port of the unit manager's.
//!
//! *Which log*: the unit's own; that of the template for its instances, of which there can be any
//! number; one for all units whose files are gone. So there are no more logs than unit files.
//!
//! *Once, and before the records go*: each entry says of which run and from where it is. Who was
//! killed meanwhile finds the last one of its unit, and goes on behind it; for that the run that it
//! is of must be the last one to be removed. What the disk has not taken is an error: the records
//! stay.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::try_unfold;
use model::error::{Error, Reason};
use model::executable::LogPolicy;
use model::name::{Tenant, Uid};
use model::observe::{LogMessage, Stream};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

use super::entry::Entry;
use super::frame::{END, encode};
use super::lines::{Line, Lines};
use super::read::last_within;
use crate::folder::LogKey;
use crate::logs::Logs;
use crate::merge::{Items, by_time};
use crate::read::{LogReader, ReadOptions};

/// What the uids of these logs begin with. An executable's is random.
const PREFIX: &[u8; 6] = b"aunit.";
/// Of one run's log so many last bytes are taken: one that has printed a gigabyte would push all
/// others out.
const MOST: u64 = 16 << 20;
/// So many last bytes of a log are looked at for the last entry of a unit, at first and at most: of
/// a log that others have, too, it may be further back after a kill, and its lines are there twice.
const LOOKS: [u64; 2] = [64 << 10, 1 << 20];
/// The field by which an entry is a unit's.
pub(super) const UNIT: &str = "_SYSTEMD_UNIT";
/// Frames go to the pipe by so many bytes.
const ENOUGH: usize = 64 << 10;
/// Fields that say what an entry was made of: a run, and an offset of its log.
const RUN: &str = "_AURAE_UID";
const OFFSET: &str = "_AURAE_OFFSET";

/// What makes fields of a line: its message, its priority, of what program it is.
pub trait Printer: Send + Sync {
    /// The fields, the node's own among them.
    fn fields(&self, line: &[u8]) -> Vec<(String, Vec<u8>)>;
}

/// A run that has ended, whose lines are to be kept.
#[derive(Clone)]
pub struct PastRun {
    /// Its log.
    pub uid: Uid,
    /// What its lines are.
    pub printer: Arc<dyn Printer>,
}

impl std::fmt::Debug for PastRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PastRun")
            .field("uid", &self.uid)
            .finish_non_exhaustive()
    }
}

/// A log of the past.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PastLog(Uid);

impl PastLog {
    /// The log of a unit that has a file: of an instance, its template's.
    pub fn of(unit: &str) -> PastLog {
        match (unit.split_once('@'), unit.rsplit_once('.')) {
            (Some((before, _)), Some((_, kind))) => PastLog::called(&format!("{before}@.{kind}")),
            _ => PastLog::called(unit),
        }
    }

    /// The log of all units whose files are gone.
    pub fn of_gone() -> PastLog {
        PastLog::called("")
    }

    fn called(name: &str) -> PastLog {
        let bytes = sum(name).to_be_bytes();
        let mut uid = [0; 16];
        let all = PREFIX.iter().chain(&bytes);
        uid.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        PastLog(Uid(uid))
    }

    pub(super) fn key(self) -> LogKey {
        LogKey {
            tenant: Tenant::system(),
            uid: self.0,
        }
    }

    /// Of a log's key, where it is one of these.
    pub(crate) fn at(key: &LogKey) -> Option<PastLog> {
        key.uid.0.starts_with(PREFIX).then_some(PastLog(key.uid))
    }
}

/// FNV-1a, 128 bits: names are administrators', and an entry says its unit besides.
fn sum(name: &str) -> u128 {
    let step = |sum: u128, byte: u8| {
        (sum ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    let sum = name
        .bytes()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step);
    // Eighty bits of it are used, the first ones.
    sum ^ (sum << 48)
}

/// Takes the lines of a unit's runs into a log of the past; answers when they are on the disk, with
/// the run that the last of them is of, which is to be removed behind all others. The outer order
/// is that of activations, whose runs are merged by time.
///
/// # Errors
/// `LIMIT_EXCEEDED`: too many logs are being read. The disk hasn't taken all of it; what it has is
/// not taken again.
pub async fn keep(
    logs: &Logs,
    log: PastLog,
    unit: &str,
    runs: Vec<Vec<PastRun>>,
) -> Result<Option<Uid>, Error> {
    let _one_at_a_time = logs.keeping().lock().await;
    let key = log.key();
    let (last, is_torn) = last_of(logs, &key, unit).await?;
    let mut writer = Writer::new(logs, key, is_torn);
    let resume = Resume::behind(last.as_ref(), &runs);
    writer.last = resume.run();
    let taken = take(&mut writer, resume, runs).await;
    let last = writer.last;
    // Also after a failure: a log isn't left attached.
    let stored = writer.finish().await;
    taken.and(stored).map(|()| last)
}

/// The last entry of a unit, where it isn't far back.
async fn last_of(logs: &Logs, key: &LogKey, unit: &str) -> Result<(Option<Entry>, bool), Error> {
    let mut found = (None, false);
    for most in LOOKS {
        let matches = vec![(UNIT.to_owned(), unit.as_bytes().to_vec())];
        found = last_within(logs, key, matches, most).await?;
        if found.0.is_some() {
            break;
        }
    }
    Ok(found)
}

async fn take(
    writer: &mut Writer<'_>,
    mut resume: Resume,
    runs: Vec<Vec<PastRun>>,
) -> Result<(), Error> {
    for activation in runs {
        let mut lines = lines_of(writer.logs(), activation).await?;
        while let Some((run, line)) = lines.next().await.transpose()? {
            if resume.is_there(&run.uid, line.behind) {
                continue;
            }
            writer.put(&run, &line).await?;
        }
    }
    Ok(())
}

/// Where an earlier try has come to.
#[derive(Debug)]
enum Resume {
    /// All that comes is new.
    New,
    /// All up to this line is there.
    Behind(Uid, u64),
}

impl Resume {
    fn behind(last: Option<&Entry>, runs: &[Vec<PastRun>]) -> Resume {
        let text = |name| last.and_then(|it| std::str::from_utf8(it.get(name)?).ok());
        let uid = text(RUN).and_then(|it| it.parse::<Uid>().ok());
        let offset = text(OFFSET).and_then(|it| it.parse().ok());
        match (uid, offset) {
            (Some(uid), Some(offset)) if runs.iter().flatten().any(|it| it.uid == uid) => {
                Resume::Behind(uid, offset)
            }
            _ => Resume::New,
        }
    }

    /// The run that the last line is of, so far.
    fn run(&self) -> Option<Uid> {
        match self {
            Resume::New => None,
            Resume::Behind(uid, _) => Some(*uid),
        }
    }

    /// Whether a line is there already.
    fn is_there(&mut self, run: &Uid, behind: u64) -> bool {
        let Resume::Behind(last, offset) = self else {
            return false;
        };
        if last == run && *offset == behind {
            *self = Resume::New;
        }
        true
    }
}

/// One run's log.
struct Reading {
    run: PastRun,
    log: LogReader,
    lines: Lines,
    ready: VecDeque<Line>,
    over: bool,
}

/// The lines of the runs of one activation, by time.
///
/// # Errors
/// A log can't be looked at, or too many are being read.
async fn lines_of(logs: &Logs, runs: Vec<PastRun>) -> Result<Items<(PastRun, Line)>, Error> {
    let mut streams = Vec::new();
    for run in runs {
        let key = LogKey {
            tenant: Tenant::system(),
            uid: run.uid,
        };
        let end = logs.end_offset(&key).await?;
        if end == 0 {
            continue;
        }
        let from = end.saturating_sub(MOST);
        let options = ReadOptions {
            from: Some(from),
            ..ReadOptions::default()
        };
        let reading = Reading {
            run,
            log: logs.read(&key, options)?,
            lines: Lines::behind(from),
            ready: VecDeque::new(),
            over: false,
        };
        streams.push(try_unfold(reading, Reading::next).boxed());
    }
    Ok(by_time(streams, |(_, line)| line.time.0).boxed())
}

impl Reading {
    /// The next line, and what is behind it.
    async fn next(mut self) -> Result<Option<((PastRun, Line), Self)>, Error> {
        self.fill().await?;
        let line = self.ready.pop_front();
        Ok(line.map(|line| ((self.run.clone(), line), self)))
    }

    /// Sees to it that the next line is there, if there is one.
    async fn fill(&mut self) -> Result<(), Error> {
        while self.ready.is_empty() && !self.over {
            match self.log.next().await? {
                Some((LogMessage::Data(data), _)) => self.ready.extend(self.lines.take(&data)),
                Some((LogMessage::Gap(gap), behind)) => {
                    self.ready.extend(self.lines.missing(gap.bytes, behind));
                }
                Some((LogMessage::End, behind)) => {
                    self.ready.extend(self.lines.rest(behind));
                    self.over = true;
                }
                None => self.over = true,
            }
        }
        Ok(())
    }
}

/// Frames on their way to the mover, by a pipe of their own.
struct Writer<'a> {
    logs: &'a Logs,
    key: LogKey,
    is_torn: bool,
    /// Once there is something to write, with what was stored before.
    pipe: Option<(pipe::Sender, u64)>,
    buffer: Vec<u8>,
    written: u64,
    /// The run that the last line is of.
    last: Option<Uid>,
}

impl<'a> Writer<'a> {
    fn new(logs: &'a Logs, key: LogKey, is_torn: bool) -> Writer<'a> {
        Writer {
            logs,
            key,
            is_torn,
            pipe: None,
            buffer: Vec::new(),
            written: 0,
            last: None,
        }
    }

    fn logs(&self) -> &'a Logs {
        self.logs
    }

    async fn put(&mut self, run: &PastRun, line: &Line) -> Result<(), Error> {
        if std::mem::take(&mut self.is_torn) {
            self.buffer.push(END);
        }
        let fields = run.printer.fields(&line.text);
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()));
        let (uid, offset) = (run.uid.to_string(), line.behind.to_string());
        let own = [(RUN, uid.as_bytes()), (OFFSET, offset.as_bytes())];
        encode(line.time, fields, &own, &mut self.buffer);
        self.last = Some(run.uid);
        match self.buffer.len() >= ENOUGH {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    async fn flush(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if self.pipe.is_none() {
            self.pipe = Some(self.begin().await?);
        }
        let Some((pipe, _)) = &mut self.pipe else {
            return Ok(());
        };
        let buffer = std::mem::take(&mut self.buffer);
        let gone = |e| Error::internal(format!("a log of the past can't be written: {e}"));
        pipe.write_all(&buffer).await.map_err(gone)?;
        let length = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
        self.written = self.written.saturating_add(length);
        Ok(())
    }

    async fn begin(&self) -> Result<(pipe::Sender, u64), Error> {
        let before = self.logs.last_totals((self.key.clone(), None)).0;
        let none =
            |e: std::io::Error| Error::internal(format!("no pipe to a log of the past: {e}"));
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        let (read, write): (OwnedFd, OwnedFd) =
            rustix::pipe::pipe_with(flags).map_err(|e| none(e.into()))?;
        rustix::io::ioctl_fionbio(&write, true).map_err(|e| none(e.into()))?;
        let write = pipe::Sender::from_owned_fd(write).map_err(none)?;
        let sources = vec![(Stream::Stdout, read)];
        self.logs
            .attach(self.key.clone(), sources, &LogPolicy::default())
            .await?;
        Ok((write, before))
    }

    /// Answers when all of it is on the disk.
    async fn finish(mut self) -> Result<(), Error> {
        let flushed = self.flush().await;
        let Some((pipe, before)) = self.pipe.take() else {
            return flushed;
        };
        drop(pipe);
        let stored = self.logs.put_aside(self.key.uid).await?;
        let is_there = stored.saturating_sub(before) >= self.written;
        match is_there {
            true => flushed,
            false => Err(Error::new(
                Reason::Internal,
                "the disk has not taken all of what a unit has printed",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_a_units_or_a_templates() {
        assert_eq!(PastLog::of("a.service"), PastLog::of("a.service"));
        assert_ne!(PastLog::of("a.service"), PastLog::of("b.service"));
        assert_eq!(PastLog::of("a@1.service"), PastLog::of("a@2-x.y.service"));
        assert_ne!(PastLog::of("a@1.service"), PastLog::of("a.service"));
        assert_ne!(PastLog::of("a@1.service"), PastLog::of("a@1.socket"));
        let key = PastLog::of("a.service").key();
        assert_eq!(PastLog::at(&key), Some(PastLog::of("a.service")));
        assert_eq!(PastLog::at(&super::super::key()), None);
    }

    #[test]
    fn what_is_there_is_not_taken_again() {
        let uid = |number| Uid([number; 16]);
        let mut resume = Resume::Behind(uid(2), 20);
        let lines = [(1, 10), (2, 10), (1, 20), (2, 20), (2, 30), (1, 20)];
        let new = lines.map(|(run, behind)| !resume.is_there(&uid(run), behind));
        assert_eq!(new, [false, false, false, false, true, true]);
    }
}
