// SPDX-License-Identifier: Apache-2.0
//! What `auraed/rpc` calls: a method per RPC of `Observe`, each with the `Permit` that identity
//! gave for it. It resolves names through [`Objects`], the runtime's port, and reads; it
//! keeps nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{SelectAll, StreamExt, select_all, try_unfold};
use model::error::{Error, Reason};
use model::name::{Tenant, Uid};
use model::object::ObjectRef;
use model::observe::{
    JournalQuery, LogItem, LogMessage, LogsQuery, MAX_LOGS_REFS, UsageQuery, UsageSample,
    WatchUsageQuery,
};

use super::folder::LogKey;
use super::journal::{self, Inbox, JournalStream};
use super::logs::Logs;
use super::merge;
use super::read::{Crowd, ReadOptions};
use super::usage;
use identity::Effect;
use identity::permit::Permit;
use runtime::Objects;
use tenants::{Pool, Taken, Turns};

/// A stream that has its caller's places until it is dropped.
fn holding(
    places: Arc<Taken>,
    items: impl futures_util::Stream<Item = Result<LogItem, Error>> + Send + 'static,
) -> LogStream {
    items
        .map(move |item| {
            let _held = &places;
            item
        })
        .boxed()
}

impl Crowd for Taken {
    fn count(&self) -> u64 {
        self.of_tenant()
    }
}

const LOGS: &str = "observe.Logs";
/// How long a caller waits for what was said to be on the disk.
const SETTLED: Duration = Duration::from_secs(60);
/// Samples of usage that are taken at the same time, in turns by tenant. One is of all that a
/// tenant runs: some files of the kernel's for each object.
const SAMPLES: usize = 2;
/// Logs of one call, the cells' executables counted one by one.
const MAX_LOGS: usize = 512;

/// Output of several executables, in the order in which it is to be sent.
pub type LogStream = Pin<Box<dyn futures_util::Stream<Item = Result<LogItem, Error>> + Send>>;
/// Usage, again and again.
pub type UsageStream = Pin<Box<dyn futures_util::Stream<Item = Result<UsageSample, Error>> + Send>>;

/// The handle of the subsystem for calls; cheap to clone.
#[derive(Clone)]
pub struct Observe {
    logs: Logs,
    inbox: Option<Inbox>,
    objects: Arc<dyn Objects>,
    /// Logs that are read for `Observe.Logs`, a place each. Attached runs take none.
    readers: Pool,
    /// Whose turn it is to have usage sampled.
    samples: Turns,
}

impl Observe {
    /// On top of these. `readers` is the pool of [`model::quota::Quota::LogReaders`].
    pub fn new(logs: Logs, objects: Arc<dyn Objects>, readers: Pool) -> Self {
        Self {
            logs,
            inbox: None,
            objects,
            readers,
            samples: Turns::new(SAMPLES),
        }
    }

    /// With the journal's sockets, where the node has them.
    #[must_use]
    pub fn with_inbox(mut self, inbox: Option<Inbox>) -> Self {
        self.inbox = inbox;
        self
    }

    /// `Observe.Logs`. Without `follow` the output of several executables is merged by time; with
    /// it, each goes at its own pace. Nothing is read before it is asked for.
    ///
    /// # Errors
    /// `INVALID_FIELD` (a cursor that isn't one, or with several refs), `NOT_FOUND`,
    /// `LIMIT_EXCEEDED`.
    pub fn logs(&self, permit: Permit, query: LogsQuery) -> Result<LogStream, Error> {
        let sources = self.sources(&permit, &query)?;
        let places = u64::try_from(sources.len()).unwrap_or(u64::MAX);
        let places = Arc::new(self.readers.take(&permit.user().tenant, places)?);
        let mut streams = Vec::with_capacity(sources.len());
        for (object, uid, from) in sources {
            let key = LogKey {
                tenant: object.tenant.clone(),
                uid,
            };
            let options = ReadOptions {
                streams: query.streams.clone(),
                since: query.since,
                until: query.until,
                tail: query.tail,
                follow: query.follow,
                from,
            };
            let reader = self
                .logs
                .read(&key, options)?
                .at_the_pace_of(places.clone());
            let items = reader.into_stream().map(move |item| {
                let (message, after) = item?;
                Ok(LogItem {
                    object: object.clone(),
                    message,
                    cursor: cursor(uid, after),
                })
            });
            streams.push(items.boxed());
        }
        if query.follow {
            let all: SelectAll<_> = select_all(streams);
            return Ok(holding(places, all));
        }
        Ok(holding(places, merge::by_time(streams, time)))
    }

    /// Resolves when all that the node's own have said before is on the disk.
    async fn settle(&self) -> Result<(), Error> {
        let all = async {
            if let Some(inbox) = &self.inbox {
                inbox.is_taken().await;
            }
            self.logs.settle(Tenant::system()).await
        };
        let late = |_| {
            let message = format!("not all that was said is on the disk within {SETTLED:?}");
            Error::new(Reason::Deadline, message)
        };
        tokio::time::timeout(SETTLED, all).await.map_err(late)?
    }

    /// `Observe.Journal`. It is the node's: who may ask was decided by the method.
    ///
    /// # Errors
    /// `INVALID_FIELD`, `LIMIT_EXCEEDED`; with `sync` also `DEADLINE` and the disk's refusal.
    pub async fn journal(
        &self,
        permit: Permit,
        query: JournalQuery,
    ) -> Result<JournalStream, Error> {
        let place = self.readers.take(&permit.user().tenant, 1)?;
        if query.sync {
            self.settle().await?;
        }
        let items = journal::read(&self.logs, query).await?;
        Ok(items
            .map(move |item| {
                let _held = &place;
                item
            })
            .boxed())
    }

    /// `Observe.Usage`.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn usage(&self, permit: Permit, query: UsageQuery) -> Result<UsageSample, Error> {
        covers_usage(&permit, &query)?;
        self.sample(&permit, query).await
    }

    /// `Observe.WatchUsage`: a sample at once and then one per interval.
    ///
    /// # Errors
    /// `NOT_FOUND`, also in the stream when a named object is removed.
    pub fn watch_usage(
        &self,
        permit: Permit,
        watch: WatchUsageQuery,
    ) -> Result<UsageStream, Error> {
        covers_usage(&permit, &watch.query)?;
        if !watch.query.refs.is_empty() {
            self.objects.measured(&watch.query)?;
        }
        let mut ticks = tokio::time::interval(watch.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let state = (self.clone(), permit, watch.query, ticks);
        let samples = try_unfold(state, |(observe, permit, query, mut ticks)| async move {
            ticks.tick().await;
            let sample = observe.sample(&permit, query.clone()).await?;
            Ok(Some((sample, (observe, permit, query, ticks))))
        });
        Ok(samples.boxed())
    }

    /// In a turn of the caller's tenant, before which nothing is built: a thousand watchers that
    /// wait hold a place in line each. What it costs counts as its tenant's time of the daemon.
    async fn sample(&self, permit: &Permit, query: UsageQuery) -> Result<UsageSample, Error> {
        let whose = &permit.user().tenant;
        let turn = self.samples.take(whose).await;
        let mut measured = self.objects.measured(&query)?;
        measured.retain(|m| permit.shows(&m.object.tenant, &m.object.path));
        let (logs, objects) = (self.logs.clone(), Arc::clone(&self.objects));
        let share = self.readers.tenants().share(whose);
        let work = move || {
            // Until it is done, also where its caller is gone.
            let _turn = turn;
            let began = Instant::now();
            let sample = usage::sample(&logs, &*objects, measured);
            share.add(began.elapsed());
            sample
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|e| Error::internal(format!("reading usage failed: {e}")))
    }

    /// Which logs, and where in them to begin.
    fn sources(
        &self,
        permit: &Permit,
        query: &LogsQuery,
    ) -> Result<Vec<(ObjectRef, Uid, Option<u64>)>, Error> {
        if query.refs.is_empty() || query.refs.len() > MAX_LOGS_REFS {
            let problem = format!("must name 1 to {MAX_LOGS_REFS} objects");
            return Err(Error::invalid("refs", problem));
        }
        let mut sources: Vec<(ObjectRef, Uid, Option<u64>)> = Vec::new();
        for target in &query.refs {
            permit.demand(&target.tenant, &Effect::below(LOGS, &target.path))?;
            for object in self.objects.executables(target)? {
                let known = sources.iter().any(|(_, uid, _)| Some(*uid) == object.uid);
                if let (false, Some(uid)) = (known, object.uid) {
                    sources.push((object, uid, None));
                }
            }
        }
        if sources.len() > MAX_LOGS {
            return Err(Error::new(
                Reason::LimitExceeded,
                format!(
                    "{} executables are meant, {MAX_LOGS} at most",
                    sources.len()
                ),
            )
            .hint("name fewer of them"));
        }
        let Some(text) = &query.cursor else {
            return Ok(sources);
        };
        let [(_, uid, from)] = sources.as_mut_slice() else {
            return Err(Error::invalid("cursor", "goes with exactly one executable"));
        };
        *from = Some(offset_of(text, *uid)?);
        Ok(sources)
    }
}

/// Opaque to clients: which run, and how far.
fn cursor(uid: Uid, offset: u64) -> String {
    format!("{uid}.{offset:x}")
}

fn offset_of(text: &str, uid: Uid) -> Result<u64, Error> {
    let parts = text
        .split_once('.')
        .filter(|(_, offset)| offset.bytes().all(|b| b.is_ascii_hexdigit()));
    let parsed = parts.and_then(|(of, offset)| {
        let of: Uid = of.parse().ok()?;
        Some((of, u64::from_str_radix(offset, 16).ok()?))
    });
    match parsed {
        Some((of, offset)) if of == uid => Ok(offset),
        Some(_) => Err(Error::invalid("cursor", "is of another run")
            .hint("read the new run's output without a cursor")),
        None => Err(Error::invalid(
            "cursor",
            "is not one that `Logs` has answered",
        )),
    }
}

/// Where an item stands among those of other logs.
fn time(item: &LogItem) -> u64 {
    match &item.message {
        LogMessage::Data(data) => data.time.0,
        // They belong right after what was before them.
        LogMessage::Gap(_) | LogMessage::End => 0,
    }
}

fn covers_usage(permit: &Permit, query: &UsageQuery) -> Result<(), Error> {
    permit.demand_tenant(&query.tenant)?;
    query
        .refs
        .iter()
        .try_for_each(|r| permit.demand_tenant(&r.tenant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_of_one_run() {
        let (one, other) = (Uid([1; 16]), Uid([2; 16]));
        assert_eq!(offset_of(&cursor(one, 4711), one), Ok(4711));
        let error = offset_of(&cursor(other, 0), one).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("cursor"));
        for nonsense in ["", ".", "x.1", "01010101010101010101010101010101.+1"] {
            assert!(offset_of(nonsense, one).is_err(), "{nonsense}");
        }
    }
}
