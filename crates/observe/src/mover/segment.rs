// SPDX-License-Identifier: Apache-2.0
//! The segment that is written: its two files, and what stands in them. One writer, the mover's
//! thread; readers open the files on their own. It decides nothing: [`super::log`] says what to
//! write and what a failure means.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use model::observe::GapReason;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::config::MAX_SEGMENT_RECORDS;
use crate::folder::Folder;
use crate::format::{Entry, HEADER, Header, RECORD, Record, Walk, recover};

/// How much of the index is reserved at a time, so that a gap can be written down on a full disk.
const RESERVE: u64 = 4096;
/// Records that always fit: a gap and an end.
const SPARE_RECORDS: u64 = 2;

/// A segment's open files; the thread that syncs holds them too.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) data: File,
    pub(crate) index: File,
}

impl Files {
    /// Data first: a record without its bytes is void, bytes without their record belong to no
    /// stream.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.data.sync_data()?;
        self.index.sync_data()
    }
}

/// The last segment of a log.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) files: Arc<Files>,
    walk: Walk,
    /// Records that are written and hold.
    records: u64,
    /// Bytes of the index that the file system has promised.
    reserved: u64,
    /// The last record, while it is a gap that may grow: where the walk was before it.
    gap: Option<Gap>,
    /// Nothing may follow the last record.
    spent: bool,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    before: Walk,
    reason: GapReason,
    bytes: u64,
}

/// A segment as it was found.
pub(super) struct Resumed {
    pub(super) segment: Segment,
    /// `Some`: of another boot, or damaged; don't write into it. So many bytes were read and can't
    /// be had: readers see that from where the next segment begins.
    pub(super) closed: Option<u64>,
    /// The record that was written ahead when the last mover died, if it was of a terminal.
    pub(super) terminal_length: u64,
}

impl Segment {
    /// Begins a segment.
    pub(super) fn create(folder: &Folder, header: &Header) -> Result<Self, Errno> {
        make_folder(folder.path())?;
        let index = open(&folder.index(header.base), true)?;
        index.set_len(0).map_err(errno)?;
        if let Err(e) = index.write_all_at(&header.encode(), 0) {
            // Without its header it would be taken for a damaged one.
            let _ = index.set_len(0);
            return Err(errno(e));
        }
        let data = open(&folder.data(header.base), true)?;
        // Debris of a segment that was never begun.
        data.set_len(0).map_err(errno)?;
        Ok(Self {
            files: Arc::new(Files { data, index }),
            walk: Walk::new(header),
            records: 0,
            reserved: RESERVE,
            gap: None,
            spent: false,
        })
    }

    /// Opens the segment that an earlier mover wrote. `Ok(None)`: its header is unreadable.
    pub(super) fn resume(
        folder: &Folder,
        base: u64,
        boot: &[u8; 16],
    ) -> Result<Option<Resumed>, Errno> {
        let index = open(&folder.index(base), false)?;
        let data = open(&folder.data(base), true)?;
        let bytes = read_all(&index)?;
        let size = data.metadata().map_err(errno)?.len();
        let Ok(found) = recover(&bytes, size) else {
            return Ok(None);
        };
        let same_boot = found.header.boot == *boot;
        if let (true, Some((number, record))) = (same_boot, found.correction) {
            write_record(&index, number, &record)?;
        }
        let closed = match same_boot {
            false => Some(if found.ended { 0 } else { found.lost() }),
            true => (found.unexplained > 0).then_some(found.unexplained),
        };
        let segment = Self {
            files: Arc::new(Files { data, index }),
            walk: found.walk,
            records: found.records - u64::from(found.ended),
            reserved: RESERVE,
            gap: None,
            spent: false,
        };
        Ok(Some(Resumed {
            segment,
            closed,
            terminal_length: found.void.map_or(0, terminal_length),
        }))
    }

    /// Of the next byte, in the whole output.
    pub(super) fn walk(&self) -> &Walk {
        &self.walk
    }

    /// Whether the next batch belongs into another segment.
    pub(super) fn is_full(&self, segment_bytes: u64) -> bool {
        self.spent || self.walk.position() >= segment_bytes || self.records >= MAX_SEGMENT_RECORDS
    }

    /// Whether there is room on the disk for `length` more bytes, as far as the file system can
    /// say.
    pub(super) fn probe(&self, length: u64) -> Result<(), Errno> {
        let at = self.walk.position();
        match fallocate(&self.files.data, FallocateFlags::KEEP_SIZE, at, length) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            other => other,
        }
    }

    /// Writes a record ahead of its bytes.
    pub(super) fn announce(&mut self, record: &Record) -> Result<(), Errno> {
        self.reserve()?;
        // A gap may grow only while it is the last record: readers take every other one for final.
        self.gap = None;
        write_record(&self.files.index, self.records, record)
    }

    /// `moved` of the announced bytes are in the data file now; 0 leaves the record void.
    pub(super) fn moved(&mut self, record: &Record, moved: u64) {
        if moved == 0 {
            return;
        }
        let number = self.records;
        self.walk.step(record, self.walk.position() + moved);
        self.records += 1;
        if let Some(right) = shortened(record, moved) {
            // Where that fails the record stays too long, which is right only for a last one.
            self.spent = write_record(&self.files.index, number, &right).is_err();
        }
    }

    /// Counts bytes that are not there, in the last gap if it is still the last record.
    pub(super) fn drop_bytes(
        &mut self,
        reason: GapReason,
        bytes: u64,
        time_us: u64,
    ) -> Result<(), Errno> {
        if self.spent {
            return Err(Errno::IO);
        }
        let (gap, number) = match self.gap {
            Some(gap) if gap.reason == reason => (gap, self.records.saturating_sub(1)),
            _ => {
                let before = self.walk;
                let bytes = 0;
                let gap = Gap {
                    before,
                    reason,
                    bytes,
                };
                (gap, self.records)
            }
        };
        let bytes = gap.bytes.saturating_add(bytes);
        let entry = Entry::Gap { reason, bytes };
        let record = Record { entry, time_us };
        write_record(&self.files.index, number, &record)?;
        self.records = number + 1;
        self.walk = gap.before;
        self.walk.step(&record, gap.before.position());
        self.gap = Some(Gap { bytes, ..gap });
        Ok(())
    }

    /// Writes the end marker. More may follow all the same, in its place.
    pub(super) fn end(&mut self, time_us: u64) -> Result<(), Errno> {
        let size = u32::try_from(self.walk.position()).unwrap_or(u32::MAX);
        let entry = Entry::End { size };
        write_record(&self.files.index, self.records, &Record { entry, time_us })
    }

    /// Makes sure that a gap and an end fit after the next record, whatever happens to the disk.
    fn reserve(&mut self) -> Result<(), Errno> {
        let needed = slot(self.records + 1 + SPARE_RECORDS);
        if needed <= self.reserved {
            return Ok(());
        }
        let from = self.reserved;
        let length = RESERVE.max(needed - from);
        match fallocate(&self.files.index, FallocateFlags::KEEP_SIZE, from, length) {
            Ok(()) => self.reserved = from + length,
            // A file system that can't promise: a gap may have to wait for space.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.reserved = u64::MAX,
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

/// Where record `number` is in its file.
fn slot(number: u64) -> u64 {
    let (header, record) = (HEADER, RECORD);
    u64::try_from(header).unwrap_or(0) + number * u64::try_from(record).unwrap_or(0)
}

fn write_record(index: &File, number: u64, record: &Record) -> Result<(), Errno> {
    index
        .write_all_at(&record.encode(), slot(number))
        .map_err(errno)
}

/// The record with its real length; `None` where it is right already.
fn shortened(record: &Record, real: u64) -> Option<Record> {
    let mut right = *record;
    let Entry::Data { length, .. } = &mut right.entry else {
        return None;
    };
    let real = u32::try_from(real).ok().filter(|real| real < length)?;
    *length = real;
    Some(right)
}

fn terminal_length(record: Record) -> u64 {
    match record.entry {
        Entry::Data {
            terminal: true,
            length,
            ..
        } => length.into(),
        _ => 0,
    }
}

fn open(path: &Path, create: bool) -> Result<File, Errno> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options.create(create).truncate(false);
    options.open(path).map_err(errno)
}

fn make_folder(path: &Path) -> Result<(), Errno> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(path).map_err(errno)
}

fn read_all(file: &File) -> Result<Vec<u8>, Errno> {
    use std::io::Read;
    let mut bytes = Vec::new();
    // An index is bounded by MAX_SEGMENT_RECORDS; whatever is longer was not written by a mover.
    let limit = slot(MAX_SEGMENT_RECORDS + 2 * SPARE_RECORDS);
    let mut file = file;
    file.by_ref()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(errno)?;
    Ok(bytes)
}

/// The kernel's number behind a standard error. What has none can only be a write that wrote
/// nothing.
pub(super) fn errno(error: io::Error) -> Errno {
    error
        .raw_os_error()
        .map_or(Errno::IO, Errno::from_raw_os_error)
}
