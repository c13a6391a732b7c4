// SPDX-License-Identifier: Apache-2.0
//! Who is right where both the checker and TypeScript's compiler have looked. What the schema makes
//! certain, and what the types allow and the language forbids, is the checker's alone; of the rest
//! only what the compiler confirms on its line stays. What both say is said once, in our words.

use std::collections::BTreeSet;

use crate::check::{Claim, Seen};
use crate::finding::Severity;
use crate::source::Source;

/// The lines of one file on which the compiler has an error.
pub type Lines = BTreeSet<u32>;

/// Whether a claim of the checker stands in a file where the compiler complains about these lines.
pub fn stands(claim: &Claim, complaints: &Lines) -> bool {
    claim.finding.severity == Severity::Error
        || match claim.seen {
            Seen::Own => true,
            Seen::Tsc => complaints.contains(&line(claim)),
            // Another error of the same expression hides it from the compiler.
            Seen::Hidden => !complaints.is_empty(),
        }
}

/// The lines of a file about which claims that stand say what the compiler says.
pub fn said<'c>(source: &Source, claims: impl IntoIterator<Item = &'c Claim>) -> Lines {
    let of_file = claims
        .into_iter()
        .filter(|claim| claim.finding.source.name() == source.name() && claim.seen != Seen::Own);
    of_file
        .flat_map(|claim| [line(claim), source.position(claim.finding.span.start).line])
        .collect()
}

fn line(claim: &Claim) -> u32 {
    claim.finding.source.position(claim.anchor.start).line
}
