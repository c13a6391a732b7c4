// SPDX-License-Identifier: Apache-2.0
//! Reading logs: the last lines, a span of time, from a place on, and on as they grow. A reader
//! pulls: between two items it holds a place and a few files, no queue and no lock, so that a slow
//! one delays no other. Of all readers a few at a time look at files; one that follows a log pauses
//! the longer between two looks, the more of its tenant's readers there are.
//!
//! [`cursor`] goes forwards, [`tail`] finds where the last lines begin; both block, and are called
//! from threads that may. It neither resolves names nor authorizes: [`super::service`] does.

mod cursor;
mod room;
mod tail;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use model::error::Error;
use model::name::{Tenant, Uid};
use model::observe::{LogMessage, Stream};
use model::time::Timestamp;
use tenants::Turns;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{JoinHandle, spawn_blocking};

use self::cursor::{Chunk, Cursor};
use super::folder::Folder;
use super::live::Registry;
use super::logs::disk;
pub(super) use room::{Rooms, Seat};
pub(super) use tail::{end_of, totals_of};

/// What of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadOptions {
    /// Which streams; empty: both.
    pub streams: BTreeSet<Stream>,
    /// Not what was read before.
    pub since: Option<Timestamp>,
    /// Not what was read after.
    pub until: Option<Timestamp>,
    /// Only so many last lines.
    pub tail: Option<u64>,
    /// Go on until the log ends.
    pub follow: bool,
    /// From this offset of the whole output on; then `tail` is not looked at.
    pub from: Option<u64>,
}

/// A message, and the offset to go on at after it.
pub type ReadItem = (LogMessage, u64);

/// Which bytes of a log are wanted.
#[derive(Clone, Debug)]
struct Filter {
    streams: BTreeSet<Stream>,
    since_us: u64,
    until_us: u64,
    /// Per stream, the first byte that is wanted.
    first: [u64; 2],
}

/// A stream's place where there is something of each.
pub(super) fn slot(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

impl Filter {
    fn new(options: &ReadOptions) -> Self {
        Self {
            streams: options.streams.clone(),
            since_us: options.since.map_or(0, |t| t.0 / 1000),
            until_us: options.until.map_or(u64::MAX, |t| t.0 / 1000),
            first: [0; 2],
        }
    }

    fn wants(&self, stream: Stream, time_us: u64) -> bool {
        (self.streams.is_empty() || self.streams.contains(&stream))
            && (self.since_us..=self.until_us).contains(&time_us)
    }

    fn first_offset(&self, stream: Stream) -> u64 {
        self.first.get(slot(stream)).copied().unwrap_or(0)
    }
}

/// Reads one log.
#[derive(Debug)]
pub struct LogReader {
    uid: Uid,
    folder: Folder,
    boot: [u8; 16],
    registry: Arc<Registry>,
    options: ReadOptions,
    /// Not there before the first item was asked for, nor while it is at work.
    place: Option<Place>,
    /// Kept here, so that who stops waiting loses nothing.
    work: Option<JoinHandle<io::Result<(Chunk, Place)>>>,
    ready: VecDeque<ReadItem>,
    finished: bool,
    places: Places,
    pace: Option<Arc<dyn Crowd>>,
    /// Messages of the last look; none before the first.
    last: Option<u32>,
}

/// A reader's place, and what it waits for before it looks at files.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) turns: Turns,
    /// Whose turns it takes.
    pub(super) tenant: Tenant,
    /// How much it reads at once.
    pub(super) seat: Seat,
    /// Held until the reader is dropped.
    pub(super) _permit: OwnedSemaphorePermit,
}

/// The readers of one tenant.
pub(super) trait Crowd: std::fmt::Debug + Send + Sync {
    /// How many they are now.
    fn count(&self) -> u64;
}

/// A tenant's followers beyond [`FREE`] share the node's time: each pauses between two looks, for
/// each of the others by so much, and by so much more for each message of its last look. All of
/// them together look a thousand times a second at most, and get twenty thousand messages.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_PER_MESSAGE: Duration = Duration::from_micros(50);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Followers of a tenant that don't pause.
const FREE: u64 = 8;

/// Where it is.
#[derive(Debug)]
struct Place {
    cursor: Cursor,
    filter: Filter,
    /// A reader that doesn't follow ends here, however fast the log grows.
    stop: u64,
}

impl LogReader {
    pub(super) fn new(
        uid: Uid,
        folder: Folder,
        boot: [u8; 16],
        registry: Arc<Registry>,
        options: ReadOptions,
        places: Places,
    ) -> Self {
        Self {
            uid,
            folder,
            boot,
            registry,
            options,
            place: None,
            work: None,
            ready: VecDeque::new(),
            finished: false,
            places,
            pace: None,
            last: None,
        }
    }

    /// Follows at the pace that its tenant's readers leave to each.
    #[must_use]
    pub(super) fn at_the_pace_of(mut self, readers: Arc<dyn Crowd>) -> Self {
        self.pace = Some(readers);
        self
    }

    /// Between two looks.
    async fn pause(&self) {
        if let (Some(readers), Some(messages), true) = (&self.pace, self.last, self.options.follow)
        {
            let others = readers.count().saturating_sub(FREE);
            let others = u32::try_from(others).unwrap_or(u32::MAX);
            let each = PAUSE.saturating_add(PAUSE_PER_MESSAGE.saturating_mul(messages));
            tokio::time::sleep(each.saturating_mul(others).min(LONGEST_PAUSE)).await;
        }
    }

    /// The next item; the last one is [`LogMessage::End`]. May be dropped while waiting: nothing is
    /// lost.
    ///
    /// # Errors
    /// The file system's refusal. The reader has ended then.
    pub async fn next(&mut self) -> Result<Option<ReadItem>, Error> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.finished {
                return Ok(None);
            }
            self.pause().await;
            // The bell before the files: what comes after the look rings it.
            let more = self.registry.more(&self.uid);
            let (chunk, offset, stop) = self.read_chunk().await?;
            let dry = chunk.messages.is_empty() && !chunk.more;
            let ended = chunk.ended;
            self.last = Some(u32::try_from(chunk.messages.len()).unwrap_or(u32::MAX));
            self.ready.extend(chunk.messages);
            let reached = !self.options.follow && offset >= stop;
            if !dry && !reached {
                continue;
            }
            match (more, self.wait()) {
                (Some(more), Some(wait)) => {
                    drop(tokio::time::timeout(wait, more).await);
                }
                (more, _) => {
                    // Cut short at its end? Only where no process writes any more.
                    let look = more.is_none() && !ended;
                    self.finish(look, offset).await?;
                }
            }
        }
    }

    /// The items one after the other, as a stream, which ends after the first error.
    ///
    /// # Errors
    /// Items are errors where [`Self::next`] answers one.
    pub fn into_stream(self) -> impl futures_util::Stream<Item = Result<ReadItem, Error>> + Send {
        futures_util::stream::try_unfold(self, |mut reader| async move {
            Ok(reader.next().await?.map(|item| (item, reader)))
        })
    }

    /// How long to wait for more; `None`: not at all.
    fn wait(&self) -> Option<Duration> {
        if !self.options.follow {
            return None;
        }
        let Some(until) = self.options.until else {
            return Some(Duration::from_secs(3600));
        };
        let left = until.since(runtime::now());
        (!left.is_zero()).then_some(left)
    }

    async fn read_chunk(&mut self) -> Result<(Chunk, u64, u64), Error> {
        let Self {
            place,
            work,
            folder,
            boot,
            options,
            places,
            ..
        } = self;
        let turn = match work {
            Some(_) => None,
            None => Some(places.turns.take(&places.tenant).await),
        };
        let running = work.get_or_insert_with(|| {
            let (place, folder, boot) = (place.take(), folder.clone(), *boot);
            let (options, room) = (options.clone(), places.seat.room());
            spawn_blocking(move || {
                let _turn = turn;
                let mut place = match place {
                    Some(place) => place,
                    None => begin(folder, boot, &options)?,
                };
                let chunk = place.cursor.read(&place.filter, room)?;
                Ok((chunk, place))
            })
        });
        let outcome = running.await;
        self.work = None;
        let failed = |e| Error::internal(format!("reading a log failed: {e}"));
        let (chunk, place) = outcome
            .map_err(failed)?
            .map_err(|e| disk(&self.folder, &e))?;
        let answer = (chunk, place.cursor.offset(), place.stop);
        self.place = Some(place);
        Ok(answer)
    }

    async fn finish(&mut self, look: bool, offset: u64) -> Result<(), Error> {
        // Who stops waiting here comes back to this place.
        self.options.from = Some(offset);
        let mut after = offset;
        if let (true, Some(place)) = (look, self.place.take()) {
            let work = move || place.cursor.missing_at_end();
            if let Some(gap) = blocking(self.folder.clone(), work).await? {
                after = offset.saturating_add(gap.bytes);
                self.ready.push_back((LogMessage::Gap(gap), after));
            }
        }
        self.ready.push_back((LogMessage::End, after));
        self.finished = true;
        Ok(())
    }
}

/// Finds the place that the options speak of.
fn begin(folder: Folder, boot: [u8; 16], options: &ReadOptions) -> io::Result<Place> {
    let mut filter = Filter::new(options);
    let stop = if options.follow {
        u64::MAX
    } else {
        end_of(&folder)?
    };
    let offset = match (options.from, options.tail, options.since) {
        (Some(from), ..) => from,
        (None, Some(lines), _) => tail::begin_of_last(&folder, lines, &mut filter)?,
        (None, None, Some(_)) => tail::first_since(&folder, filter.since_us)?.unwrap_or(0),
        (None, None, None) => 0,
    };
    Ok(Place {
        cursor: Cursor::new(folder, boot, offset),
        filter,
        stop,
    })
}

/// Runs what blocks where that is allowed.
pub(super) async fn blocking<T: Send + 'static>(
    folder: Folder,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    match spawn_blocking(work).await {
        Ok(outcome) => outcome.map_err(|e| disk(&folder, &e)),
        Err(e) => Err(Error::internal(format!("reading a log failed: {e}"))),
    }
}
