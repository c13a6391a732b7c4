// SPDX-License-Identifier: Apache-2.0
//! Verifying the audit: within each chain every line's hash, the joints of the files and the
//! retired beginning; and of all chains together that their lines give the hash that is held
//! outside the files. Blocks on files; callers use a thread that may.

use std::io;

use super::chain::{self, Owner};
use super::entry::{self, Hash, hex};
use super::reader::Reader;
use super::segment::{self, Line, Lines, Segment};
use super::{Head, NOTE_CUT, NOTE_RETIRED};

/// What a verification found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Nothing was changed, moved, added or cut, as far as the chains go back.
    pub intact: bool,
    /// Whole lines seen.
    pub entries: u64,
    /// The first thing that is wrong.
    pub problem: Option<String>,
}

impl Reader {
    /// Verifies everything against `head`, which is held outside the files; see the module.
    ///
    /// # Errors
    /// Files that can't be read.
    pub fn verify(&self, head: Head) -> io::Result<Verdict> {
        let (mut entries, mut newest) = (0, 0);
        let (mut problem, mut noted) = (None, None);
        let mut hashes: Vec<(Owner, Hash)> = Vec::new();
        for owner in chain::owners(&self.dir)? {
            let segments = segment::list(&chain::folder(&self.dir, &owner))?;
            let mut check = Check::new(&owner, head.sequence);
            for segment in &segments {
                check.file(segment)?;
            }
            check.finish();
            entries += check.entries;
            newest = newest.max(check.newest);
            problem = problem.or(check.problem);
            noted = noted.or(check.noted);
            let at_head = check.at_head;
            hashes.push((owner, at_head));
        }
        if problem.is_none() {
            problem = beside(head, newest, &hashes);
        }
        Ok(Verdict {
            intact: problem.is_none() && noted.is_none(),
            entries,
            problem: problem.or(noted),
        })
    }
}

/// How the chains together differ from what is held outside.
fn beside(head: Head, newest: u64, hashes: &[(Owner, Hash)]) -> Option<String> {
    if newest < head.sequence {
        return Some(format!(
            "the audit ends at line {newest}, but line {} was written: its end was cut",
            head.sequence
        ));
    }
    let found = chain::root(hashes.iter().map(|(owner, hash)| (owner, *hash)));
    (head.sequence > 0 && found != head.hash).then(|| {
        format!(
            "the lines up to {} should have the hash {}: some were changed, or those of a tenant \
             are missing",
            head.sequence,
            hex(&head.hash)
        )
    })
}

/// One chain.
struct Check<'a> {
    owner: &'a Owner,
    /// The number that the hash is wanted at.
    head: u64,
    /// Of its newest line up to that number.
    at_head: Hash,
    /// The hash that the next line follows; `None` at the very beginning.
    last: Option<Hash>,
    /// The number of the newest line; 0: none yet.
    newest: u64,
    /// Where the oldest file begins, if a line went before it.
    begins: Option<u64>,
    retired_before: u64,
    entries: u64,
    problem: Option<String>,
    noted: Option<String>,
}

impl<'a> Check<'a> {
    fn new(owner: &'a Owner, head: u64) -> Self {
        Self {
            owner,
            head,
            at_head: [0; 32],
            last: None,
            newest: 0,
            begins: None,
            retired_before: 1,
            entries: 0,
            problem: None,
            noted: None,
        }
    }

    fn whose(&self) -> String {
        let owner = self.owner.as_ref();
        owner.map_or_else(String::new, |tenant| format!("{tenant}/"))
    }

    fn fail(&mut self, segment: &Segment, words: String) {
        let name = segment.file.file_name().unwrap_or_default();
        let whose = self.whose();
        let words = format!("{whose}{}: {words}", name.to_string_lossy());
        self.problem.get_or_insert(words);
    }

    fn file(&mut self, segment: &Segment) -> io::Result<()> {
        if self.problem.is_some() {
            return Ok(());
        }
        let mut lines = Lines::open(&segment.file)?;
        let header = match lines.next()? {
            Line::Whole(line) => segment::header(&line),
            _ => None,
        };
        let Some((first, previous)) = header else {
            self.fail(segment, "its header is broken".to_owned());
            return Ok(());
        };
        let follows = match self.last {
            // The oldest file begins after whatever was retired.
            None => {
                self.begins = (previous != [0; 32]).then_some(first);
                self.at_head = previous;
                true
            }
            Some(last) => last == previous && first > self.newest,
        };
        if !follows || first != segment.first {
            self.fail(segment, "it doesn't continue the file before it".to_owned());
            return Ok(());
        }
        self.last = Some(previous);
        self.newest = self.newest.max(first.saturating_sub(1));
        // A torn line is being written now, or a crash of this very moment has torn it.
        while let Line::Whole(line) = lines.next()? {
            self.line(segment, &line);
            if self.problem.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn line(&mut self, segment: &Segment, line: &str) {
        let Some((entry, hash)) = entry::verify(line, &self.last.unwrap_or_default()) else {
            let words = format!("the line after {} doesn't follow from it", self.newest);
            self.fail(segment, words);
            return;
        };
        if entry.sequence <= self.newest {
            let words = format!("line {} comes after line {}", entry.sequence, self.newest);
            self.fail(segment, words);
            return;
        }
        if entry.sequence <= self.head {
            self.at_head = hash;
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
        self.newest = entry.sequence;
        self.last = Some(hash);
    }

    fn finish(&mut self) {
        let Some(first) = self.begins.filter(|first| *first > self.retired_before) else {
            return;
        };
        let whose = self.whose();
        let words = format!(
            "{whose}lines before {first} are missing, and no line says that they were retired"
        );
        self.problem.get_or_insert(words);
    }
}
