// SPDX-License-Identifier: Apache-2.0
//! Reading the journal: its log, made into entries, those that match, with a cursor behind each.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::try_unfold;
use model::error::Error;
use model::observe::{JournalQuery, LogData, LogMessage, MAX_JOURNAL_TAIL};
use model::time::Timestamp;

use super::entry::Entry;
use super::frame::Decoder;
use super::{key, past_read};
use crate::folder::LogKey;
use crate::logs::Logs;
use crate::read::{LogReader, ReadOptions};

/// How much of the log's end is looked at for the last entries, at first; then eight times as much.
const FIRST_LOOK: u64 = 256 << 10;
/// Bytes of last entries that are held.
const MOST_HELD: usize = 64 << 20;
/// An entry is stored at most so long after it was received, in nanoseconds: what is later than
/// `until` by more ends the reading.
const SLACK: u64 = 60_000_000_000;

/// An entry, and the offset behind it.
pub type JournalItem = (Entry, u64);
/// Entries, in the order in which they came.
pub type JournalStream =
    Pin<Box<dyn futures_util::Stream<Item = Result<JournalItem, Error>> + Send>>;

/// Whether a query takes an entry.
pub(super) fn takes(query: &JournalQuery, entry: &Entry) -> bool {
    let mut fields: BTreeMap<&str, bool> = BTreeMap::new();
    for (name, value) in &query.matches {
        let is = entry
            .fields
            .iter()
            .any(|(own, it)| own == name && it == value);
        *fields.entry(name).or_default() |= is;
    }
    let in_time = query.since.is_none_or(|at| entry.time >= at)
        && query.until.is_none_or(|at| entry.time <= at);
    in_time && fields.values().all(|is| *is)
}

/// Whether nothing that follows an entry can match.
fn is_passed(query: &JournalQuery, entry: &Entry) -> bool {
    let late = |until: Timestamp| entry.time.0 > until.0.saturating_add(SLACK);
    !query.past && !query.follow && query.until.is_some_and(late)
}

/// What is read, and how far.
pub(super) struct Reading {
    log: LogReader,
    decoder: Decoder,
    query: JournalQuery,
    ready: VecDeque<JournalItem>,
    over: bool,
}

impl Reading {
    /// From an offset on. Where that isn't the log's beginning, the byte before it is read, too: is
    /// it the end of an entry, another one begins there.
    pub(super) fn new(
        logs: &Logs,
        key: &LogKey,
        query: JournalQuery,
        from: u64,
    ) -> Result<Reading, Error> {
        let options = ReadOptions {
            follow: query.follow,
            from: Some(from.saturating_sub(1)),
            ..ReadOptions::default()
        };
        Ok(Reading {
            log: logs.read(key, options)?,
            decoder: Decoder::new(from == 0),
            query,
            ready: VecDeque::new(),
            over: false,
        })
    }

    pub(super) async fn next(&mut self) -> Result<Option<JournalItem>, Error> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.over {
                return Ok(None);
            }
            match self.log.next().await? {
                Some((LogMessage::Data(data), _)) => self.take(&data),
                Some((LogMessage::Gap(_), _)) => self.decoder.gap(),
                Some((LogMessage::End, _)) | None => self.over = true,
            }
        }
    }

    fn take(&mut self, LogData { offset, data, .. }: &LogData) {
        for (entry, behind) in self.decoder.take(*offset, data) {
            self.over |= is_passed(&self.query, &entry);
            if takes(&self.query, &entry) {
                self.ready.push_back((entry, behind));
            }
        }
    }
}

/// The offset of what was stored first since a time: entries are stored after they are received.
pub(super) async fn since(logs: &Logs, key: &LogKey, time: Timestamp) -> Result<u64, Error> {
    let options = ReadOptions {
        since: Some(time),
        ..ReadOptions::default()
    };
    let mut log = logs.read(key, options)?;
    match log.next().await? {
        Some((LogMessage::Data(data), _)) => Ok(data.offset),
        Some((LogMessage::Gap(gap), _)) => Ok(gap.offset),
        Some((LogMessage::End, _)) | None => logs.end_offset(key).await,
    }
}

/// The last entries that match, and the offset behind the last one that was looked at.
pub(super) async fn last(
    logs: &Logs,
    key: &LogKey,
    query: &JournalQuery,
    count: usize,
) -> Result<(VecDeque<JournalItem>, u64), Error> {
    let end = logs.end_offset(key).await?;
    let mut look = FIRST_LOOK;
    loop {
        let from = end.saturating_sub(look);
        let stored = JournalQuery {
            follow: false,
            ..query.clone()
        };
        let mut reading = Reading::new(logs, key, stored, from)?;
        let (mut held, mut bytes) = (VecDeque::new(), 0_usize);
        while let Some((entry, behind)) = reading.next().await? {
            bytes = bytes.saturating_add(entry.size());
            held.push_back((entry, behind));
            while held.len() > count || bytes > MOST_HELD {
                let Some((gone, _)) = held.pop_front() else {
                    break;
                };
                bytes = bytes.saturating_sub(gone.size());
            }
        }
        if from == 0 || held.len() >= count {
            return Ok((held, reading.decoder.boundary.unwrap_or(from)));
        }
        look = look.saturating_mul(8);
    }
}

/// The last entry that matches, of so many last bytes of a log, and whether something torn is
/// behind the last one of all.
pub(super) async fn last_within(
    logs: &Logs,
    key: &LogKey,
    matches: Vec<(String, Vec<u8>)>,
    most: u64,
) -> Result<(Option<Entry>, bool), Error> {
    let query = JournalQuery {
        matches,
        ..JournalQuery::default()
    };
    let end = logs.end_offset(key).await?;
    let from = end.saturating_sub(most);
    let mut reading = Reading::new(logs, key, query, from)?;
    let mut found = None;
    while let Some((entry, _)) = reading.next().await? {
        found = Some(entry);
    }
    let behind = reading.decoder.boundary.unwrap_or(from);
    Ok((found, behind < end))
}

/// The entries that a query means.
///
/// # Errors
/// `LIMIT_EXCEEDED`: too many logs are being read; the file system's refusal.
pub(crate) async fn read(logs: &Logs, query: JournalQuery) -> Result<JournalStream, Error> {
    if query.past {
        return past_read::read(logs, query).await;
    }
    if let (Some(tail), None) = (query.tail, query.cursor) {
        let count = usize::try_from(tail.min(MAX_JOURNAL_TAIL)).unwrap_or(0);
        let (held, end) = last(logs, &key(), &query, count).await?;
        let stored = futures_util::stream::iter(held.into_iter().map(Ok));
        if !query.follow {
            return Ok(stored.boxed());
        }
        let more = Reading::new(logs, &key(), query, end)?;
        return Ok(stored.chain(stream(more)).boxed());
    }
    let from = match (query.cursor, query.since) {
        (Some(cursor), _) => cursor,
        (None, Some(time)) => since(logs, &key(), time).await?,
        (None, None) => 0,
    };
    Ok(stream(Reading::new(logs, &key(), query, from)?).boxed())
}

pub(super) fn stream(
    reading: Reading,
) -> impl futures_util::Stream<Item = Result<JournalItem, Error>> + Send {
    try_unfold(reading, |mut reading| async move {
        Ok(reading.next().await?.map(|item| (item, reading)))
    })
}
