// SPDX-License-Identifier: Apache-2.0
//! Where the last lines begin. Streams are apart: a line is what one stream says up to its newline,
//! in however many batches it was read, and what follows the last newline is a line too. Blocking;
//! reads backwards, only as far as it must.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use model::observe::Stream;

use super::Filter;
use crate::folder::Folder;
use crate::format::{HEADER, Header, RECORD, Record, Step, Walk};

/// Read at once, backwards.
const PIECE: u64 = 64 << 10;

/// The offset after the last byte there is now; 0 for a log that has none.
pub(crate) fn end_of(folder: &Folder) -> io::Result<u64> {
    for base in folder.bases()?.into_iter().rev() {
        if let Some((walk, _)) = steps(folder, base)? {
            return Ok(walk.offset());
        }
    }
    Ok(0)
}

/// Bytes of standard output and standard error over the log's whole life.
pub(crate) fn totals_of(folder: &Folder) -> io::Result<(u64, u64)> {
    for base in folder.bases()?.into_iter().rev() {
        if let Some((walk, _)) = steps(folder, base)? {
            return Ok(walk.totals());
        }
    }
    Ok((0, 0))
}

/// The segment in which the first record at or after `since_us` is, by what the headers say.
pub(super) fn first_since(folder: &Folder, since_us: u64) -> io::Result<Option<u64>> {
    let bases = folder.bases()?;
    let mut first = None;
    for base in bases {
        match header(folder, base)? {
            Some(header) if header.created_us > since_us => break,
            _ => first = Some(base),
        }
    }
    Ok(first)
}

/// Narrows `filter` to the last `lines` lines of what it lets through; the offset to begin at.
pub(super) fn begin_of_last(folder: &Folder, lines: u64, filter: &mut Filter) -> io::Result<u64> {
    let end = end_of(folder)?;
    let mut count = Count {
        lines_left: lines,
        streams: [Lines::default(); 2],
        end,
    };
    let bases = folder.bases()?;
    for base in bases.into_iter().rev() {
        if count.is_done() {
            break;
        }
        let Some((_, steps)) = steps(folder, base)? else {
            continue;
        };
        let Ok(data) = File::open(folder.data(base)) else {
            continue;
        };
        for step in steps.iter().rev() {
            if count.is_done() {
                break;
            }
            if let Step::Data {
                stream, time_us, ..
            } = step
                && filter.wants(*stream, *time_us)
            {
                count.back_over(step, &data)?;
            }
        }
    }
    count.narrow(filter);
    if count.lines_left > 0 {
        // Fewer than asked for: what is missing before them belongs to the answer.
        return Ok(0);
    }
    Ok(filter.first.into_iter().min().unwrap_or(0).min(end))
}

/// Lines, counted backwards.
struct Count {
    lines_left: u64,
    streams: [Lines; 2],
    end: u64,
}

/// One stream's part in it.
#[derive(Clone, Copy, Default)]
struct Lines {
    /// The bytes before belong to a line that counts.
    within: bool,
    /// Where the first counted line begins, once that is known.
    begin: Option<u64>,
    /// The earliest byte seen that counts.
    seen: Option<u64>,
}

impl Count {
    fn is_done(&self) -> bool {
        self.lines_left == 0 && self.streams.iter().all(|s| !s.within)
    }

    /// Takes the bytes of one record, from its last to its first.
    fn back_over(&mut self, step: &Step, data: &File) -> io::Result<()> {
        let Step::Data {
            stream,
            position,
            length,
            offset,
            ..
        } = *step
        else {
            return Ok(());
        };
        let mut left = length;
        while left > 0 && !self.is_done() {
            let piece = left.min(PIECE);
            left -= piece;
            let mut bytes = vec![0; usize::try_from(piece).unwrap_or(0)];
            data.read_exact_at(&mut bytes, position + left)?;
            self.back_over_bytes(stream, &bytes, offset + left);
        }
        Ok(())
    }

    fn back_over_bytes(&mut self, stream: Stream, bytes: &[u8], offset: u64) {
        let Self {
            lines_left,
            streams,
            ..
        } = self;
        let Some(lines) = streams.get_mut(super::slot(stream)) else {
            return;
        };
        if lines.begin.is_some() {
            return;
        }
        let mut rest = bytes;
        while let Some(last) = rest.last() {
            let end = offset + super::cursor::to_u64(rest.len());
            if *last == b'\n' || !lines.within {
                // A line's end: its newline, or the stream's end.
                if *lines_left == 0 {
                    lines.within = false;
                    lines.begin = Some(end);
                    return;
                }
                *lines_left -= 1;
                lines.within = true;
                rest = rest.split_last().map_or(&[], |(_, before)| before);
            }
            // To the newline of the line before.
            let line_begins = rest
                .iter()
                .rposition(|b| *b == b'\n')
                .map_or(0, |at| at + 1);
            lines.seen = Some(offset + super::cursor::to_u64(line_begins));
            rest = rest.get(..line_begins).unwrap_or_default();
            // The newline that is last now ends another line.
        }
    }

    /// Each stream begins with its first counted line; one that has none, after everything.
    fn narrow(&self, filter: &mut Filter) {
        for (first, lines) in filter.first.iter_mut().zip(&self.streams) {
            let begin = lines.begin.or(lines.seen).unwrap_or(self.end);
            *first = (*first).max(begin);
        }
    }
}

fn header(folder: &Folder, base: u64) -> io::Result<Option<Header>> {
    let file = match File::open(folder.index(base)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut bytes = [0; HEADER];
    let read = super::cursor::read_at(&file, &mut bytes, 0)?;
    Ok(bytes.get(..read).and_then(|b| Header::decode(b).ok()))
}

/// What a segment's records stand for, data alone, and where they end. `None`: it is gone, or
/// unreadable.
fn steps(folder: &Folder, base: u64) -> io::Result<Option<(Walk, Vec<Step>)>> {
    // As in Cursor: the size first, so that a record is believed only if its bytes were there
    // before.
    let size = std::fs::metadata(folder.data(base)).map_or(0, |meta| meta.len());
    let index = match std::fs::read(folder.index(base)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let Ok(header) = Header::decode(&index) else {
        return Ok(None);
    };
    let mut walk = Walk::new(&header);
    let mut steps = Vec::new();
    let slots = index
        .get(HEADER..)
        .unwrap_or_default()
        .as_chunks::<RECORD>()
        .0;
    for record in slots.iter().map_while(Record::decode) {
        match walk.step(&record, size) {
            Step::Void | Step::Broken | Step::End => break,
            Step::Gap { .. } => {}
            step @ Step::Data { .. } => steps.push(step),
        }
    }
    Ok(Some((walk, steps)))
}
