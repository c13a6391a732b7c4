// SPDX-License-Identifier: Apache-2.0
//! Reading logs of the past as one: those of the units that a query names, or all, merged by time.
//! Within a log of several units (a template's, that of units that are gone) the lines of one run
//! stand behind those of the run that was taken before it.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use model::error::{Error, Reason};
use model::observe::{JournalQuery, MAX_JOURNAL_TAIL};

use super::past::{PastLog, UNIT};
use super::read::{JournalItem, JournalStream, Reading, last, since, stream};
use crate::logs::Logs;
use crate::merge::by_time;

/// Logs that are read at once.
const MOST: usize = 512;
/// Bytes of last entries that are held.
const MOST_HELD: usize = 64 << 20;

/// The entries of the past that a query means, by time.
///
/// # Errors
/// `LIMIT_EXCEEDED`: more than 512 units have a past, and none is named; too many logs are being
/// read. The file system's refusal.
pub(super) async fn read(logs: &Logs, query: JournalQuery) -> Result<JournalStream, Error> {
    let meant = meant(logs, &query).await?;
    if let Some(tail) = query.tail {
        let count = usize::try_from(tail.min(MAX_JOURNAL_TAIL)).unwrap_or(0);
        let newest = newest(logs, &meant, &query, count).await?;
        return Ok(futures_util::stream::iter(newest.into_iter().map(Ok)).boxed());
    }
    let mut streams = Vec::with_capacity(meant.len());
    for log in meant {
        let key = log.key();
        let from = match query.since {
            Some(time) => since(logs, &key, time).await?,
            None => 0,
        };
        streams.push(stream(Reading::new(logs, &key, query.clone(), from)?).boxed());
    }
    Ok(by_time(streams, |(entry, _)| entry.time.0).boxed())
}

/// The logs that can have what a query takes, and are there.
async fn meant(logs: &Logs, query: &JournalQuery) -> Result<Vec<PastLog>, Error> {
    let named = query.matches.iter().filter(|(name, _)| name == UNIT);
    let named = named.filter_map(|(_, unit)| std::str::from_utf8(unit).ok());
    let mut wanted: BTreeSet<PastLog> = named.map(PastLog::of).collect();
    if !wanted.is_empty() {
        wanted.insert(PastLog::of_gone());
    }
    let there = {
        let logs = logs.clone();
        let broken = |e| Error::internal(format!("logs can't be looked at: {e}"));
        let found = tokio::task::spawn_blocking(move || logs.of_the_past()).await;
        let found = found.map_err(broken)?;
        found.map_err(|e| Error::internal(format!("the folder of logs can't be read: {e}")))?
    };
    let is_meant = |log: &PastLog| wanted.is_empty() || wanted.contains(log);
    let meant: Vec<PastLog> = there.into_iter().filter(is_meant).collect();
    if meant.len() > MOST {
        let words = format!(
            "{} logs of the past are there, and {MOST} can be read",
            meant.len()
        );
        return Err(Error::new(Reason::LimitExceeded, words).hint("name units"));
    }
    Ok(meant)
}

/// So many last entries of all.
async fn newest(
    logs: &Logs,
    meant: &[PastLog],
    query: &JournalQuery,
    count: usize,
) -> Result<Vec<JournalItem>, Error> {
    let mut all: Vec<JournalItem> = Vec::new();
    for log in meant {
        let (held, _) = last(logs, &log.key(), query, count).await?;
        all.extend(held);
        all.sort_by_key(|(entry, _)| entry.time);
        let mut bytes: usize = all.iter().map(|(entry, _)| entry.size()).sum();
        let mut gone = all.len().saturating_sub(count);
        for (at, (entry, _)) in all.iter().enumerate() {
            if at >= gone && bytes <= MOST_HELD {
                break;
            }
            gone = gone.max(at.saturating_add(1));
            bytes = bytes.saturating_sub(entry.size());
        }
        all.drain(..gone);
    }
    Ok(all)
}
