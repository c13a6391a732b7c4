// SPDX-License-Identifier: Apache-2.0
//! How the audit goes on where an earlier daemon left it: finds the ends of the chains, and notes
//! what a crash has torn or a user with root has cut. Called once, by `Audit::open`.
//!
//! An audit of one chain, as earlier daemons wrote it, is the node's chain: its lines stay there,
//! and what tenants' users ask for from now on goes into theirs.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::chain::{self, Chain};
use super::disk::Disk;
use super::entry::{Entry, hex};
use super::fold::Folds;
use super::writer::State;
use super::{AuditError, Head, NOTE_CUT, note};

/// Opens every chain, compares them with what was held elsewhere, and says what is to be noted.
pub(super) fn resume(dir: &Path, held: Option<Head>) -> Result<(State, Vec<Entry>), AuditError> {
    let fail = |e: io::Error| AuditError::new(dir, e);
    let (mut chains, mut notes) = (BTreeMap::new(), Vec::new());
    for owner in chain::owners(dir).map_err(fail)? {
        let (chain, torn) = Chain::resume(dir, &owner).map_err(fail)?;
        notes.extend(torn);
        chains.insert(owner, chain);
    }
    let mut sequence = chains.values().map(|c| c.newest).max().unwrap_or(0);
    if let Some(held) = held.filter(|held| held.sequence > 0)
        && let Some(words) = disagreement(&chains, sequence, &held).map_err(fail)?
    {
        notes.insert(0, note(NOTE_CUT, words));
        // Numbers are never used twice.
        sequence = sequence.max(held.sequence);
    }
    let state = State {
        chains,
        sequence,
        disk: Disk::new(sequence),
        told: 0,
        dirty: false,
        urgent: false,
        lost: 0,
        folds: Folds::default(),
        closing: false,
    };
    Ok((state, notes))
}

/// How the files disagree with what was held elsewhere, if they do.
fn disagreement(
    chains: &BTreeMap<chain::Owner, Chain>,
    newest: u64,
    held: &Head,
) -> io::Result<Option<String>> {
    if newest == 0 {
        return Ok(Some(format!("lines 1 to {} are gone", held.sequence)));
    }
    if held.sequence > newest {
        return Ok(Some(format!(
            "lines {} to {} were cut off while no daemon ran",
            newest + 1,
            held.sequence
        )));
    }
    let mut hashes = Vec::new();
    for (owner, chain) in chains {
        hashes.push((owner, chain.hash_at(held.sequence)?));
    }
    Ok((chain::root(hashes) != held.hash).then(|| {
        format!(
            "the lines up to {} are not those that were written, whose hash was {}",
            held.sequence,
            hex(&held.hash)
        )
    }))
}
