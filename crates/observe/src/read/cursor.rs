// SPDX-License-Identifier: Apache-2.0
//! A place in one log, and reading on from it. Blocking, a bounded piece at a time; the files may
//! grow meanwhile.
//!
//! It holds two open files at most and an offset: so a reader harms neither the mover, nor another
//! reader, nor retention, which unlinks under it. What was unlinked before it came there is a gap.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use model::observe::{GapReason, LogData, LogGap, LogMessage, Stream};
use model::time::Timestamp;

use super::Filter;
use super::room::Room;
use crate::folder::Folder;
use crate::format::{Entry, HEADER, Header, RECORD, Record, Step, Walk, recover};

/// The most bytes of one message.
const PIECE: u64 = 64 << 10;
/// Records read at once.
const RECORDS: u64 = 256;

/// Reads one log from an offset on.
#[derive(Debug)]
pub(super) struct Cursor {
    folder: Folder,
    boot: [u8; 16],
    /// Of the next byte to deliver, in the whole output.
    offset: u64,
    segment: Option<Open>,
}

/// The segment that the offset is in.
#[derive(Debug)]
struct Open {
    base: u64,
    header: Header,
    index: File,
    /// Made after the index; an empty segment that stands for what retention took has none.
    data: Option<File>,
    /// Before the next record.
    walk: Walk,
    /// Its number.
    record: u64,
    /// Where the log goes on. Once that is known, nothing in this segment changes any more.
    next: Option<u64>,
}

/// What was read at once.
#[derive(Debug)]
pub(super) struct Chunk {
    /// In order, each with the offset right after it.
    pub(super) messages: Vec<(LogMessage, u64)>,
    /// There may be more already.
    pub(super) more: bool,
    /// An end marker was reached.
    pub(super) ended: bool,
    bytes: u64,
    room: Room,
}

impl Chunk {
    fn new(room: Room) -> Self {
        Self {
            messages: Vec::new(),
            more: false,
            ended: false,
            bytes: 0,
            room,
        }
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.room.bytes || self.messages.len() >= self.room.messages
    }

    /// The most bytes of the next message.
    fn piece(&self) -> u64 {
        PIECE.min(self.room.bytes)
    }

    fn push(&mut self, message: LogMessage, after: u64) {
        if let LogMessage::Data(data) = &message {
            let length = u64::try_from(data.data.len()).unwrap_or(u64::MAX);
            self.bytes = self.bytes.saturating_add(length);
        }
        self.messages.push((message, after));
    }
}

/// What the records at hand led to.
enum Outcome {
    /// Records were taken; look again.
    Progress,
    /// The chunk is full.
    Full,
    /// Nothing more here now.
    Dry,
    /// The end marker.
    End,
}

impl Cursor {
    pub(super) fn new(folder: Folder, boot: [u8; 16], offset: u64) -> Self {
        Self {
            folder,
            boot,
            offset,
            segment: None,
        }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads on, as much as there is room for. An empty chunk: there is nothing more now.
    pub(super) fn read(&mut self, filter: &Filter, room: Room) -> io::Result<Chunk> {
        let mut chunk = Chunk::new(room);
        loop {
            if self.segment.is_none() && !self.open(&mut chunk)? {
                return Ok(chunk);
            }
            match self.take_records(filter, &mut chunk)? {
                Outcome::Progress => {}
                Outcome::Full => {
                    chunk.more = true;
                    return Ok(chunk);
                }
                Outcome::End if !self.leave(&mut chunk)? => {
                    chunk.ended = true;
                    return Ok(chunk);
                }
                Outcome::Dry if !self.leave(&mut chunk)? => return Ok(chunk),
                Outcome::End | Outcome::Dry => {}
            }
        }
    }

    /// What a log without a writer lacks at its end, though it has no end marker.
    pub(super) fn missing_at_end(&self) -> io::Result<Option<LogGap>> {
        let Some(open) = &self.segment else {
            return Ok(None);
        };
        let index = std::fs::read(self.folder.index(open.base))?;
        let size = open.size()?;
        let Ok(found) = recover(&index, size) else {
            return Ok(None);
        };
        let other_boot = found.header.boot != self.boot;
        if found.ended || (!other_boot && found.unexplained == 0) {
            return Ok(None);
        }
        let (reason, bytes) = match other_boot {
            true => (GapReason::PowerLoss, found.lost()),
            false => (GapReason::IoError, found.unexplained),
        };
        let after = found.walk.offset().saturating_add(bytes);
        // Told already, where bytes are known.
        let told = bytes > 0 && self.offset >= after;
        Ok((!told).then_some(LogGap {
            bytes,
            reason,
            offset: self.offset,
        }))
    }

    /// Opens the segment that the offset is in, or the next one there is. `false`: there is none.
    fn open(&mut self, chunk: &mut Chunk) -> io::Result<bool> {
        // Retention may be quicker than we are; each time it is, there is one segment less.
        loop {
            let bases = self.folder.bases()?;
            let after = bases.partition_point(|base| *base <= self.offset);
            let containing = after.checked_sub(1).and_then(|i| bases.get(i));
            let Some(base) = containing.or_else(|| bases.first()).copied() else {
                return Ok(false);
            };
            self.skip_to(base, GapReason::Retention, chunk);
            match self.open_at(base) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
                Ok(Some(open)) => {
                    self.segment = Some(open);
                    return Ok(true);
                }
                // Its header is unreadable: the next one says how much that costs.
                Ok(None) => {
                    let Some(next) = bases.iter().find(|b| **b > base).copied() else {
                        return Ok(false);
                    };
                    self.skip_to(next, GapReason::IoError, chunk);
                }
            }
        }
    }

    fn open_at(&self, base: u64) -> io::Result<Option<Open>> {
        let index = File::open(self.folder.index(base))?;
        let mut head = [0; HEADER];
        if read_at(&index, &mut head, 0)? < HEADER {
            return Ok(None);
        }
        let Ok(header) = Header::decode(&head) else {
            return Ok(None);
        };
        Ok(Some(Open {
            base,
            walk: Walk::new(&header),
            header,
            index,
            data: None,
            record: 0,
            next: None,
        }))
    }

    /// Puts a gap where the log doesn't go on at the offset.
    fn skip_to(&mut self, base: u64, reason: GapReason, chunk: &mut Chunk) {
        if base > self.offset {
            let gap = LogGap {
                bytes: base - self.offset,
                reason,
                offset: self.offset,
            };
            self.offset = base;
            chunk.push(LogMessage::Gap(gap), base);
        }
    }

    /// Everything here was taken: goes on to the next segment. `false`: there is none yet.
    fn leave(&mut self, chunk: &mut Chunk) -> io::Result<bool> {
        let Some(open) = &mut self.segment else {
            return Ok(true);
        };
        let bases = self.folder.bases()?;
        let Some(next) = open.next else {
            open.next = bases.into_iter().find(|base| *base > open.base);
            // Something may have come before the next one was begun: look once more.
            return Ok(open.next.is_some());
        };
        // Retention takes the oldest first: what is missing between was its doing only where this
        // went too.
        let reason = match bases.contains(&open.base) {
            false => GapReason::Retention,
            true if open.header.boot == self.boot => GapReason::IoError,
            true => GapReason::PowerLoss,
        };
        self.segment = None;
        // Where it isn't there any more, opening will say what is missing.
        if bases.contains(&next) {
            self.skip_to(next, reason, chunk);
        }
        Ok(true)
    }

    /// Takes the records that are there, as far as the chunk has room.
    fn take_records(&mut self, filter: &Filter, chunk: &mut Chunk) -> io::Result<Outcome> {
        let Some(open) = &mut self.segment else {
            return Ok(Outcome::Dry);
        };
        open.find_data(&self.folder)?;
        let Some(batch) = open.fetch()? else {
            return Ok(Outcome::Dry);
        };
        for (number, slot) in (open.record..).zip(batch.slots.as_chunks::<RECORD>().0) {
            let Some(record) = Record::decode(slot) else {
                return Ok(Outcome::Dry);
            };
            let is_last = number + 1 >= batch.count;
            let mut walk = open.walk;
            let step = walk.step(&record, batch.size);
            match step {
                Step::Void | Step::Broken => return Ok(Outcome::Dry),
                Step::End => return Ok(Outcome::End),
                Step::Gap { .. } | Step::Data { .. } => {}
            }
            if !deliver(open, &step, &mut self.offset, filter, chunk)? {
                return Ok(Outcome::Full);
            }
            // The last record may still grow or be put right: look at it again.
            if is_last {
                return Ok(Outcome::Dry);
            }
            // Only the last one may be longer than what is there.
            if is_cut(&record, &step) {
                return Ok(Outcome::Dry);
            }
            open.walk = walk;
            open.record += 1;
        }
        Ok(Outcome::Progress)
    }
}

/// Some records and what goes with them.
struct Batch {
    slots: Vec<u8>,
    /// Records in the index when it was looked at.
    count: u64,
    /// Of the data file, at that time.
    size: u64,
}

impl Open {
    /// Reads the next records. The order matters: the count, then the size, then the records. So
    /// every record but the `count`th is final, and the last one is either void by `size` or never
    /// changes its place.
    fn fetch(&self) -> io::Result<Option<Batch>> {
        let length = self.index.metadata()?.len();
        let count = length.saturating_sub(to_u64(HEADER)) / to_u64(RECORD);
        let size = self.size()?;
        let wanted = count.saturating_sub(self.record).min(RECORDS);
        if wanted == 0 {
            return Ok(None);
        }
        let mut slots = vec![0; usize::try_from(wanted).unwrap_or(0) * RECORD];
        let at = to_u64(HEADER) + self.record * to_u64(RECORD);
        let read = read_at(&self.index, &mut slots, at)?;
        slots.truncate(read);
        Ok(Some(Batch { slots, count, size }))
    }

    fn find_data(&mut self, folder: &Folder) -> io::Result<()> {
        if self.data.is_none() {
            self.data = match File::open(folder.data(self.base)) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => None,
                other => Some(other?),
            };
        }
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        self.data
            .as_ref()
            .map_or(Ok(0), |d| Ok(d.metadata()?.len()))
    }
}

fn is_cut(record: &Record, step: &Step) -> bool {
    match (record.entry, step) {
        (Entry::Data { length, .. }, Step::Data { length: real, .. }) => u64::from(length) > *real,
        _ => false,
    }
}

/// Delivers what of `step` is at or after `offset`. `false`: the chunk is full before its end.
fn deliver(
    open: &Open,
    step: &Step,
    offset: &mut u64,
    filter: &Filter,
    chunk: &mut Chunk,
) -> io::Result<bool> {
    match *step {
        Step::Gap {
            reason,
            bytes,
            offset: at,
            ..
        } => {
            let end = at.saturating_add(bytes);
            if end > *offset {
                let gap = LogGap {
                    bytes: end - *offset,
                    reason,
                    offset: *offset,
                };
                *offset = end;
                chunk.push(LogMessage::Gap(gap), end);
            }
            Ok(!chunk.is_full())
        }
        Step::Data {
            stream,
            time_us,
            position,
            length,
            offset: at,
        } => {
            let end = at.saturating_add(length);
            if !filter.wants(stream, time_us) {
                *offset = end.max(*offset);
                return Ok(true);
            }
            while *offset < end {
                if chunk.is_full() {
                    return Ok(false);
                }
                let from = *offset;
                let piece = (end - from).min(chunk.piece());
                let place = Piece {
                    stream,
                    time_us,
                    position: position + (from - at),
                    length: piece,
                    offset: from,
                };
                *offset = from + piece;
                if let Some(data) = place.read(open.data.as_ref(), filter)? {
                    chunk.push(LogMessage::Data(data), *offset);
                }
            }
            Ok(true)
        }
        _ => Ok(true),
    }
}

/// A part of a record, small enough for a message.
struct Piece {
    stream: Stream,
    time_us: u64,
    position: u64,
    length: u64,
    offset: u64,
}

impl Piece {
    fn read(&self, file: Option<&File>, filter: &Filter) -> io::Result<Option<LogData>> {
        let Some(file) = file else { return Ok(None) };
        let start = filter.first_offset(self.stream).max(self.offset) - self.offset;
        if start >= self.length {
            return Ok(None);
        }
        let length = usize::try_from(self.length - start).unwrap_or(0);
        let mut data = vec![0; length];
        file.read_exact_at(&mut data, self.position + start)?;
        Ok(Some(LogData {
            stream: self.stream,
            time: Timestamp(self.time_us.saturating_mul(1000)),
            data,
            offset: self.offset + start,
        }))
    }
}

/// Reads as much as there is.
pub(super) fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + to_u64(done)) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

pub(super) fn to_u64(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
