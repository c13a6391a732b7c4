// SPDX-License-Identifier: Apache-2.0
//! Follows the log of one program of a unit, and hands its lines on.

use std::time::Duration;

use model::error::{Error, Reason};
use model::observe::LogMessage;
use model::time::Timestamp;
use observe::journal::RateLimit;
use observe::{LogKey, LogReader, Logs, ReadOptions};
use schedule::unit::Printed;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::budget::Budget;
use super::lines::Lines;

/// Where all places of readers are taken, one is asked for again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Follower {
    pub(super) logs: Logs,
    pub(super) key: LogKey,
    /// Only what was stored from then on; none: all of it.
    pub(super) since: Option<Timestamp>,
    pub(super) limit: RateLimit,
    pub(super) printed: Printed,
    /// Resolves when it has ended.
    pub(super) ended: oneshot::Receiver<()>,
    pub(super) to: mpsc::Sender<Vec<u8>>,
}

/// A program that prints nothing for so long has no place of a reader, and no file open, until it
/// prints again.
const IDLE: Duration = Duration::from_secs(1);

/// How a reader was left.
enum Left {
    /// The log has ended.
    AtEnd,
    /// Nothing came for a while behind that offset.
    Idle(u64),
    /// The budget is used up until then.
    UsedUp(u64, Instant),
    /// The syslog's end is gone: the daemon ends.
    Unheard,
}

impl Follower {
    /// Until the log ends. What is wrong with a log is its readers' to be told.
    pub(super) async fn run(self) {
        let key = self.key.clone();
        if let Err(error) = self.follow().await {
            tracing::warn!(uid = %key.uid, %error, "output isn't passed on to the syslog any more");
        }
    }

    async fn follow(mut self) -> Result<(), Error> {
        // It is told of before its log is there.
        tokio::select! {
            () = self.logs.is_attached(self.key.uid) => {}
            _ended = &mut self.ended => {}
        }
        let mut lines = Lines::new(self.printed.clone());
        let mut budget = Budget::new(self.limit, Instant::now());
        // By offset from here on: a clock that is put back hides nothing.
        let mut from = match self.since {
            Some(_) => self.first().await?,
            None => 0,
        };
        loop {
            let options = ReadOptions {
                follow: true,
                from: Some(from),
                ..ReadOptions::default()
            };
            // The bell before the look: what the reader doesn't see rings it.
            let more = self.logs.more(&self.key.uid);
            let mut reader = self.reader(options).await?;
            let left = self.hand_on(&mut reader, from, &mut lines, &mut budget);
            let left = left.await?;
            drop(reader);
            match left {
                Left::AtEnd => {
                    for message in lines.rest() {
                        let _gone = self.to.send(message).await;
                    }
                    return Ok(());
                }
                Left::Unheard => return Ok(()),
                Left::Idle(at) => {
                    from = at;
                    if let Some(more) = more {
                        more.await;
                    }
                }
                Left::UsedUp(at, until) => {
                    tokio::time::sleep_until(until).await;
                    from = self.logs.end_offset(&self.key).await?.max(at);
                    let told = lines.passed_over(from.saturating_sub(at));
                    let _gone = self.to.send(told).await;
                }
            }
        }
    }

    /// The offset of what was stored since then.
    async fn first(&self) -> Result<u64, Error> {
        let options = ReadOptions {
            since: self.since,
            ..ReadOptions::default()
        };
        let mut reader = self.reader(options).await?;
        while let Some((message, after)) = reader.next().await? {
            match message {
                LogMessage::Data(data) => return Ok(data.offset),
                LogMessage::Gap(_) => {}
                LogMessage::End => return Ok(after),
            }
        }
        Ok(0)
    }

    async fn reader(&self, options: ReadOptions) -> Result<LogReader, Error> {
        loop {
            match self.logs.read_attached(&self.key, options.clone()) {
                Err(error) if error.reason == Reason::LimitExceeded => {
                    tokio::time::sleep(AGAIN).await;
                }
                answer => return answer,
            }
        }
    }

    async fn hand_on(
        &self,
        reader: &mut LogReader,
        from: u64,
        lines: &mut Lines,
        budget: &mut Budget,
    ) -> Result<Left, Error> {
        let mut at = from;
        loop {
            let Ok(item) = tokio::time::timeout(IDLE, reader.next()).await else {
                return Ok(Left::Idle(at));
            };
            match item? {
                Some((LogMessage::Data(data), after)) => {
                    for message in lines.take(&data) {
                        if let Err(until) = budget.take(message.len(), Instant::now()) {
                            return Ok(Left::UsedUp(after, until));
                        }
                        if self.to.send(message).await.is_err() {
                            return Ok(Left::Unheard);
                        }
                    }
                    at = after;
                }
                Some((LogMessage::Gap(_), after)) => at = after,
                Some((LogMessage::End, _)) | None => return Ok(Left::AtEnd),
            }
        }
    }
}
