// SPDX-License-Identifier: Apache-2.0
//! What a segment's records mean, given the data file's size: the one place that decides it, for
//! the reader of a log that grows and for recovery.

use model::observe::{GapReason, Stream};

use super::{Entry, FormatError, HEADER, Header, RECORD, Record};

/// Walks a segment record by record. A copy of it is a place to come back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    position: u64,
    offset: u64,
    stdout: u64,
    stderr: u64,
}

/// What a record stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Bytes that are there.
    Data {
        /// The stream that the bytes were written to.
        stream: Stream,
        /// When, in microseconds.
        time_us: u64,
        /// Where in the data file.
        position: u64,
        /// How many, at least 1. Less than the record says where the data file ends before.
        length: u64,
        /// Of the first, in the whole output.
        offset: u64,
    },
    /// Bytes that are not.
    Gap {
        /// The reason that they are missing.
        reason: GapReason,
        /// When, in microseconds.
        time_us: u64,
        /// How many.
        bytes: u64,
        /// Of the first, in the whole output.
        offset: u64,
    },
    /// The log's end.
    End,
    /// Written ahead of bytes that never came, or haven't yet.
    Void,
    /// Doesn't follow from what is before: nothing from here on can be trusted.
    Broken,
}

impl Walk {
    /// At the beginning of the segment.
    pub fn new(header: &Header) -> Self {
        Self {
            position: 0,
            offset: header.base,
            stdout: header.stdout_before,
            stderr: header.stderr_before,
        }
    }

    /// Where in the data file the next byte is.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Of the next byte, in the whole output.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of standard output and standard error so far, from the very beginning.
    pub fn totals(&self) -> (u64, u64) {
        (self.stdout, self.stderr)
    }

    /// Takes the next record; `size` is the data file's, read *before* the record was.
    pub fn step(&mut self, record: &Record, size: u64) -> Step {
        match record.entry {
            Entry::Data {
                stream,
                position,
                length,
                ..
            } => self.data(stream, position.into(), length.into(), record.time_us, size),
            Entry::Gap { reason, bytes } => {
                let offset = self.offset;
                self.offset = offset.saturating_add(bytes);
                Step::Gap {
                    reason,
                    time_us: record.time_us,
                    bytes,
                    offset,
                }
            }
            Entry::End { size: end } if u64::from(end) == self.position => Step::End,
            Entry::End { size: end } if u64::from(end) > size => Step::Void,
            Entry::End { .. } => Step::Broken,
        }
    }

    fn data(&mut self, stream: Stream, at: u64, length: u64, time_us: u64, size: u64) -> Step {
        if at >= size {
            return Step::Void;
        }
        if at != self.position {
            return Step::Broken;
        }
        let length = length.min(size - at);
        let offset = self.offset;
        self.position = at + length;
        self.offset = offset.saturating_add(length);
        let total = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        *total = total.saturating_add(length);
        Step::Data {
            stream,
            time_us,
            position: at,
            length,
            offset,
        }
    }
}

/// What is left of a segment without a writer: the longest prefix of which index and data say
/// the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Its header.
    pub header: Header,
    /// How many records hold, the end included.
    pub records: u64,
    /// After the last of them.
    pub walk: Walk,
    /// The number and the right form of the last of them, where the data file ends inside it.
    pub correction: Option<(u64, Record)>,
    /// The record after them: written ahead of bytes that aren't there.
    pub void: Option<Record>,
    /// Whether the log ended.
    pub ended: bool,
    /// Bytes in the data file of which no record tells. `kill -9` alone leaves none.
    pub unexplained: u64,
    /// Bytes of which the records tell and that aren't there. After `kill -9` alone they are still
    /// in the pipe.
    pub promised: u64,
}

/// Reads a whole index against the size of its data file. Never fails beyond the header.
///
/// # Errors
/// The header is unreadable.
pub fn recover(index: &[u8], data_size: u64) -> Result<Recovered, FormatError> {
    let header = Header::decode(index)?;
    let mut out = Recovered {
        header,
        records: 0,
        walk: Walk::new(&header),
        correction: None,
        void: None,
        ended: false,
        unexplained: 0,
        promised: 0,
    };
    let slots = index.get(HEADER..).unwrap_or_default();
    let (slots, _torn) = slots.as_chunks::<RECORD>();
    let mut records = slots.iter().map_while(Record::decode);
    for record in &mut records {
        if !out.take(record, data_size) {
            out.void = Some(record);
            out.promise(record);
            break;
        }
        if out.ended {
            break;
        }
    }
    records.for_each(|record| out.promise(record));
    out.unexplained = data_size.saturating_sub(out.walk.position());
    Ok(out)
}

impl Recovered {
    /// How much of the whole output is missing at the end if nothing is left in any pipe, as after
    /// a power loss.
    pub fn lost(&self) -> u64 {
        self.promised.max(self.unexplained)
    }

    /// Whether `record` is one more of the prefix.
    fn take(&mut self, record: Record, data_size: u64) -> bool {
        // Only the last record may be longer than its bytes.
        if self.correction.is_some() {
            return false;
        }
        match self.walk.step(&record, data_size) {
            Step::Void | Step::Broken => return false,
            Step::Gap { .. } => {}
            Step::End => self.ended = true,
            Step::Data { length, .. } => {
                if let Some((right, missing)) = shortened(record, length) {
                    self.correction = Some((self.records, right));
                    self.promised = missing;
                }
            }
        }
        self.records += 1;
        true
    }

    /// Counts a record beyond the prefix.
    fn promise(&mut self, record: Record) {
        let bytes = match record.entry {
            Entry::Data { length, .. } => length.into(),
            Entry::Gap { bytes, .. } => bytes,
            Entry::End { .. } => 0,
        };
        self.promised = self.promised.saturating_add(bytes);
    }
}

/// The record with the length that is really there, and how much less that is; `None` where it is
/// right already.
fn shortened(mut record: Record, real: u64) -> Option<(Record, u64)> {
    let Entry::Data { length, .. } = &mut record.entry else {
        return None;
    };
    let real = u32::try_from(real).ok().filter(|real| real < length)?;
    let missing = u64::from(*length - real);
    *length = real;
    Some((record, missing))
}
