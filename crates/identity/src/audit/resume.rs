// SPDX-License-Identifier: Apache-2.0
//! How the audit goes on where an earlier daemon left it: finds the end of the chain, and notes
//! what a crash has torn or somebody has cut. Called once, by `Audit::open`.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::disk::Disk;
use super::entry::Entry;
use super::fold::Folds;
use super::{AuditError, Head, NOTE_CUT, NOTE_TORN, State, note, reader, segment};

/// Finds the end of the chain, compares it with what was held elsewhere, and says what is to be
/// noted.
pub(super) fn resume(dir: &Path, held: Option<Head>) -> Result<(State, Vec<Entry>), AuditError> {
    let fail = |e: io::Error| AuditError::new(dir, e);
    let mut notes = Vec::new();
    let newest = segment::newest(dir).map_err(fail)?;
    let (file, length, mut head) = match newest {
        None => {
            let (sequence, hash) = held.map_or((0, [0; 32]), |h| (h.sequence, h.hash));
            if sequence > 0 {
                notes.push(note(NOTE_CUT, format!("lines 1 to {sequence} are gone")));
            }
            let (file, length) = segment::create(dir, sequence + 1, &hash).map_err(fail)?;
            return Ok((state_of(file, length, Head { sequence, hash }), notes));
        }
        Some(newest) => {
            let tail = segment::tail(&newest).map_err(fail)?.ok_or_else(|| {
                let problem = "its end is not a line of the audit; move the folder away to begin a \
                               new chain (the old one stays readable there)";
                AuditError::new(&newest.file, problem)
            })?;
            let file = OpenOptions::new()
                .append(true)
                .open(&newest.file)
                .map_err(fail)?;
            if tail.torn > 0 {
                file.set_len(tail.length).map_err(fail)?;
                let words = format!("{} bytes of a line that a crash had torn", tail.torn);
                notes.push(note(NOTE_TORN, words));
            }
            let head = Head {
                sequence: tail.sequence,
                hash: tail.hash,
            };
            (file, tail.length, head)
        }
    };
    if let Some(held) = held
        && let Some(words) = reader::disagreement(dir, &held, &head).map_err(fail)?
    {
        notes.insert(0, note(NOTE_CUT, words));
        if held.sequence > head.sequence {
            // Numbers are never used twice: the chain goes on behind the gap, in a file of its own.
            head.sequence = held.sequence;
            let (file, length) =
                segment::create(dir, head.sequence + 1, &head.hash).map_err(fail)?;
            return Ok((state_of(file, length, head), notes));
        }
    }
    Ok((state_of(file, length, head), notes))
}

fn state_of(file: File, length: u64, head: Head) -> State {
    State {
        file: Arc::new(file),
        length,
        head,
        disk: Disk::new(head.sequence),
        dirty: false,
        urgent: false,
        lost: 0,
        folds: Folds::default(),
        closing: false,
    }
}
