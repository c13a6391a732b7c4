// SPDX-License-Identifier: Apache-2.0
//! The audit's files: `audit-FIRST.jsonl`, each beginning with a header line that names the hash
//! before it. FIRST is no later than the file's first line. Finds them, reads their ends at start,
//! takes off a line that a crash has torn.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::entry::{self, Hash, MAX_LINE, hex, unhex};

/// The first line of each file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    segment: u64,
    previous: String,
}

/// A file of the audit, by the sequence of its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) first: u64,
    pub(super) file: PathBuf,
}

/// Where the newest file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) sequence: u64,
    pub(super) hash: Hash,
    /// Bytes up to and with the last whole line.
    pub(super) length: u64,
    /// Bytes after it, of a torn line.
    pub(super) torn: u64,
}

/// All files, oldest first.
pub(super) fn list(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(dir)? {
        let file = entry?.path();
        let first = file
            .file_name()
            .and_then(|n| n.to_str())
            .and_then(|n| n.strip_prefix("audit-")?.strip_suffix(".jsonl"))
            .and_then(|n| n.parse().ok());
        if let Some(first) = first {
            segments.push(Segment { first, file });
        }
    }
    segments.sort_by_key(|s| s.first);
    Ok(segments)
}

/// The newest file that was begun. One without a whole header is of a crash in the moment of its
/// making: it never held a line, and goes.
pub(super) fn newest(dir: &Path) -> io::Result<Option<Segment>> {
    for segment in list(dir)?.into_iter().rev() {
        match Lines::open(&segment.file)?.next()? {
            Line::Whole(_) => return Ok(Some(segment)),
            Line::Torn | Line::End => fs::remove_file(&segment.file)?,
        }
    }
    Ok(None)
}

/// As [`create`], where a file of that name may stand: one that was begun, and whose first line
/// could not be written. No line `first` exists, so it holds none.
pub(super) fn create_again(dir: &Path, first: u64, previous: &Hash) -> io::Result<(File, u64)> {
    match fs::remove_file(path(dir, first)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => create(dir, first, previous),
    }
}

/// The file that begins with line `first`.
pub(super) fn path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("audit-{first:020}.jsonl"))
}

/// Makes the file that begins with line `first`.
pub(super) fn create(dir: &Path, first: u64, previous: &Hash) -> io::Result<(File, u64)> {
    let header = Header {
        segment: first,
        previous: hex(previous),
    };
    let mut line = serde_json::to_string(&header)?;
    line.push('\n');
    let path = path(dir, first);
    let mut file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    let written = file
        .write_all(line.as_bytes())
        .and_then(|()| file.sync_all());
    if let Err(e) = written {
        // A file without a whole header would be a broken chain.
        let _best_effort = fs::remove_file(&path);
        return Err(e);
    }
    File::open(dir)?.sync_all()?;
    Ok((file, u64::try_from(line.len()).unwrap_or(u64::MAX)))
}

/// The header's two facts.
pub(super) fn header(line: &str) -> Option<(u64, Hash)> {
    let header: Header = serde_json::from_str(line).ok()?;
    Some((header.segment, unhex(&header.previous)?))
}

/// Lines of a file, without their line feeds; a last one without a line feed comes as `Torn`.
pub(super) struct Lines {
    reader: BufReader<File>,
    offset: u64,
}

/// What [`Lines`] found.
pub(super) enum Line {
    Whole(String),
    Torn,
    End,
}

impl Lines {
    pub(super) fn open(file: &Path) -> io::Result<Self> {
        Self::open_at(file, 0)
    }

    /// From that byte on, which a line begins at.
    pub(super) fn open_at(file: &Path, offset: u64) -> io::Result<Self> {
        let mut file = File::open(file)?;
        file.seek(SeekFrom::Start(offset))?;
        let reader = BufReader::with_capacity(16 * 1024, file);
        Ok(Self { reader, offset })
    }

    /// Where the line after the last whole one begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn next(&mut self) -> io::Result<Line> {
        let mut bytes = Vec::new();
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        (&mut self.reader)
            .take(limit)
            .read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Ok(Line::End);
        }
        let length = u64::try_from(bytes.len()).unwrap_or(0);
        if bytes.pop() != Some(b'\n') {
            return Ok(Line::Torn);
        }
        self.offset += length;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Line::Whole(text)),
            Err(_) => Ok(Line::Whole(String::from("(not UTF-8)"))),
        }
    }
}

/// Reads where a file ends, from its end, so that a start doesn't cost the whole file.
pub(super) fn tail(segment: &Segment) -> io::Result<Option<Tail>> {
    let mut file = File::open(&segment.file)?;
    let length = file.metadata()?.len();
    let window = u64::try_from(2 * MAX_LINE).unwrap_or(u64::MAX).min(length);
    file.seek(SeekFrom::Start(length - window))?;
    let mut bytes = Vec::new();
    file.take(window).read_to_end(&mut bytes)?;
    let Some(end) = bytes.iter().rposition(|b| *b == b'\n') else {
        return Ok(None);
    };
    let torn = u64::try_from(bytes.len() - end - 1).unwrap_or(0);
    let before = bytes.get(..end).unwrap_or_default();
    let start = before
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    let last = String::from_utf8_lossy(before.get(start..).unwrap_or_default());
    let found = match entry::parse(&last) {
        Some((entry, hash)) => Some((entry.sequence, hash)),
        // A file of a header alone: the line before its first.
        None => header(&last).map(|(first, previous)| (first.saturating_sub(1), previous)),
    };
    Ok(found.map(|(sequence, hash)| Tail {
        sequence,
        hash,
        length: length - torn,
        torn,
    }))
}

/// The hash of the newest line up to that number; of a chain that begins after it, the hash that
/// its beginning names.
pub(super) fn hash_at(dir: &Path, sequence: u64) -> io::Result<Hash> {
    let segments = list(dir)?;
    let holding = segments.iter().rev().find(|s| s.first <= sequence);
    let Some(holding) = holding.or(segments.first()) else {
        return Ok([0; 32]);
    };
    let mut lines = Lines::open(&holding.file)?;
    let mut hash = match lines.next()? {
        Line::Whole(line) => header(&line).map_or([0; 32], |(_, previous)| previous),
        Line::Torn | Line::End => [0; 32],
    };
    while let Line::Whole(line) = lines.next()? {
        match entry::parse(&line) {
            Some((entry, of_line)) if entry.sequence <= sequence => hash = of_line,
            Some(_) => break,
            None => {}
        }
    }
    Ok(hash)
}
