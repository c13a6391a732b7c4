// SPDX-License-Identifier: Apache-2.0
//! Reading the audit back: in order, filtered, and verified. Blocks on files; callers use a thread
//! that may.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::entry::{self, Entry, Hash, hex};
use super::segment::{self, Line, Lines, Segment};
use super::{Head, NOTE_CUT, NOTE_RETIRED};

/// Which lines are wanted; the default: all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Not before: `CLOCK_REALTIME`, nanoseconds.
    pub since_ns: Option<i64>,
    /// Before.
    pub until_ns: Option<i64>,
    /// The caller's whole SPIFFE ID, or its end after a `/` (`admin`, `tenant/a/user/ann`).
    pub actor: Option<String>,
    /// `subsystem.Method` or `subsystem`.
    pub action: Option<String>,
    /// Only what was not allowed.
    pub denied_only: bool,
}

impl Filter {
    fn admits(&self, entry: &Entry) -> bool {
        if self.denied_only && entry.allowed {
            return false;
        }
        if self.since_ns.is_some() || self.until_ns.is_some() {
            let time = entry.time.parse::<jiff::Timestamp>().ok();
            let ns = time.and_then(|t| i64::try_from(t.as_nanosecond()).ok());
            let Some(ns) = ns else { return false };
            let early = self.since_ns.is_some_and(|since| ns < since);
            if early || self.until_ns.is_some_and(|until| ns >= until) {
                return false;
            }
        }
        let of_actor = self.actor.as_ref().is_none_or(|wanted| {
            entry.actor == *wanted || entry.actor.ends_with(&format!("/{wanted}"))
        });
        let of_action = self.action.as_ref().is_none_or(|wanted| {
            entry.action == *wanted
                || entry
                    .action
                    .strip_prefix(wanted)
                    .is_some_and(|r| r.starts_with('.'))
        });
        of_actor && of_action
    }
}

/// What a verification found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Nothing was changed, moved, added or cut, as far as the chain goes back.
    pub intact: bool,
    /// Whole lines seen.
    pub entries: u64,
    /// The first thing that is wrong.
    pub problem: Option<String>,
}

/// Reads the audit's files, on from where it stopped; see the module.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    next: u64,
    open: Option<(Segment, OpenFile)>,
}

#[derive(Debug)]
struct OpenFile(Lines);

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lines")
    }
}

impl Reader {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            next: 0,
            open: None,
        }
    }

    /// Up to `most` more lines that the filter admits, of those up to number `upto` (what is on
    /// disk). Fewer than `most`: there are no more for now.
    ///
    /// # Errors
    /// Files that can't be read. Lines that can't be parsed are skipped: `verify` is what names
    /// them.
    pub fn read(
        &mut self,
        filter: &Filter,
        upto: u64,
        most: usize,
    ) -> io::Result<Vec<(Entry, Hash)>> {
        let mut found = Vec::new();
        while found.len() < most && self.next <= upto {
            let Some((entry, hash)) = self.advance()? else {
                break;
            };
            self.next = entry.sequence + 1;
            if filter.admits(&entry) {
                found.push((entry, hash));
            }
        }
        Ok(found)
    }

    fn advance(&mut self) -> io::Result<Option<(Entry, Hash)>> {
        loop {
            let Some((segment, lines)) = &mut self.open else {
                if !self.open_next()? {
                    return Ok(None);
                }
                continue;
            };
            match lines.0.next()? {
                Line::Whole(line) => {
                    if let Some((entry, hash)) = entry::parse(&line)
                        && entry.sequence >= self.next
                    {
                        return Ok(Some((entry, hash)));
                    }
                }
                // The writer is at it, or the file is full and the next begun. Read again from its
                // start later: what was read is skipped by its number.
                Line::Torn | Line::End => {
                    let first = segment.first;
                    self.open = None;
                    let newer = segment::list(&self.dir)?
                        .into_iter()
                        .any(|s| s.first > first);
                    if !newer {
                        return Ok(None);
                    }
                    self.next = self.next.max(first + 1);
                    let following = segment::list(&self.dir)?
                        .into_iter()
                        .find(|s| s.first > first);
                    self.open = following.map(open).transpose()?;
                }
            }
        }
    }

    /// Opens the file that the next line is in.
    fn open_next(&mut self) -> io::Result<bool> {
        let segments = segment::list(&self.dir)?;
        let holding = segments.iter().rev().find(|s| s.first <= self.next.max(1));
        let chosen = holding.or(segments.first()).cloned();
        self.open = chosen.map(open).transpose()?;
        Ok(self.open.is_some())
    }

    /// Verifies everything: each line's hash, the numbers without a gap, the joints of the files,
    /// the retired beginning, and that line `head` (what is held outside the files) is there with
    /// its hash.
    ///
    /// # Errors
    /// Files that can't be read.
    pub fn verify(&self, head: Head) -> io::Result<Verdict> {
        let segments = segment::list(&self.dir)?;
        let mut check = Check::new(head);
        for segment in &segments {
            check.file(segment)?;
            if check.problem.is_some() {
                break;
            }
        }
        check.finish(segments.first().map_or(1, |s| s.first));
        Ok(Verdict {
            intact: check.problem.is_none() && check.noted.is_none(),
            entries: check.entries,
            problem: check.problem.or(check.noted),
        })
    }
}

fn open(segment: Segment) -> io::Result<(Segment, OpenFile)> {
    let lines = Lines::open(&segment.file)?;
    Ok((segment, OpenFile(lines)))
}

struct Check {
    /// The line before: `None` at the very beginning.
    last: Option<(u64, Hash)>,
    head: Head,
    head_seen: bool,
    retired_before: u64,
    entries: u64,
    problem: Option<String>,
    noted: Option<String>,
}

impl Check {
    fn new(head: Head) -> Self {
        Self {
            last: None,
            head,
            head_seen: head.sequence == 0,
            retired_before: 1,
            entries: 0,
            problem: None,
            noted: None,
        }
    }

    fn fail(&mut self, segment: &Segment, words: String) {
        let name = segment
            .file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        self.problem.get_or_insert(format!("{name}: {words}"));
    }

    fn file(&mut self, segment: &Segment) -> io::Result<()> {
        let mut lines = Lines::open(&segment.file)?;
        let header = match lines.next()? {
            Line::Whole(line) => segment::header(&line),
            _ => None,
        };
        let Some((first, previous)) = header else {
            self.fail(segment, "its header is broken".to_owned());
            return Ok(());
        };
        let begins = first == segment.first
            && match self.last {
                // The oldest file begins after whatever was retired.
                None => true,
                Some((sequence, hash)) => {
                    if sequence + 1 < first {
                        let words = format!("lines {} to {} are missing", sequence + 1, first - 1);
                        self.fail(segment, words);
                    }
                    sequence + 1 == first && hash == previous
                }
            };
        if !begins {
            self.fail(segment, "it doesn't continue the file before it".to_owned());
            return Ok(());
        }
        self.last = Some((first.saturating_sub(1), previous));
        loop {
            match lines.next()? {
                Line::Whole(line) => self.line(segment, &line),
                // Being written now, or torn by a crash of this very moment.
                Line::Torn | Line::End => return Ok(()),
            }
            if self.problem.is_some() {
                return Ok(());
            }
        }
    }

    fn line(&mut self, segment: &Segment, line: &str) {
        let (sequence, previous) = self.last.unwrap_or((0, [0; 32]));
        let Some((entry, hash)) = entry::verify(line, &previous) else {
            let words = format!(
                "line {} doesn't follow from the line before it",
                sequence + 1
            );
            self.fail(segment, words);
            return;
        };
        if entry.sequence != sequence + 1 {
            let words = format!("line {} comes after line {sequence}", entry.sequence);
            self.fail(segment, words);
            return;
        }
        if entry.sequence == self.head.sequence {
            self.head_seen = true;
            if hash != self.head.hash {
                let held = hex(&self.head.hash);
                self.fail(
                    segment,
                    format!("line {sequence} should have the hash {held}"),
                );
            }
        }
        match entry.action.as_str() {
            NOTE_RETIRED if entry.actor.is_empty() => self.retired_before = entry.count,
            NOTE_CUT if entry.actor.is_empty() => {
                let words = format!("noted in line {}: {}", entry.sequence, entry.note);
                self.noted.get_or_insert(words);
            }
            _ => {}
        }
        self.entries += 1;
        self.last = Some((entry.sequence, hash));
    }

    fn finish(&mut self, first: u64) {
        if self.problem.is_some() {
            return;
        }
        if !self.head_seen {
            let last = self.last.map_or(0, |l| l.0);
            self.problem = Some(format!(
                "the audit ends at line {last}, but line {} was written: its end was cut",
                self.head.sequence
            ));
        } else if first > self.retired_before {
            self.problem = Some(format!(
                "lines {} to {} are missing, and no line says that they were retired",
                self.retired_before,
                first - 1
            ));
        }
    }
}

/// How the files' end disagrees with what was held elsewhere, if it does.
pub(super) fn disagreement(dir: &Path, held: &Head, tail: &Head) -> io::Result<Option<String>> {
    if held.sequence == 0 {
        return Ok(None);
    }
    if held.sequence > tail.sequence {
        return Ok(Some(format!(
            "lines {} to {} were cut off while no daemon ran",
            tail.sequence + 1,
            held.sequence
        )));
    }
    let found = if held.sequence == tail.sequence {
        Some(tail.hash)
    } else {
        hash_of_line(dir, held.sequence)?
    };
    Ok((found != Some(held.hash)).then(|| {
        format!(
            "line {} is not the one that was written: its hash was {}",
            held.sequence,
            hex(&held.hash)
        )
    }))
}

fn hash_of_line(dir: &Path, sequence: u64) -> io::Result<Option<Hash>> {
    let segments = segment::list(dir)?;
    let Some(holding) = segments.iter().rev().find(|s| s.first <= sequence) else {
        return Ok(None);
    };
    // `sequence` is the first field of a line: no need to parse the others.
    let start = format!("{{\"sequence\":{sequence},");
    let text = fs::read_to_string(&holding.file)?;
    let line = text.lines().find(|l| l.starts_with(&start));
    Ok(line.and_then(entry::parse).map(|(_, hash)| hash))
}
