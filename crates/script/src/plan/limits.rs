// SPDX-License-Identifier: Apache-2.0
//! What a plan couldn't know: the calls and streams that it refused, and what it took for granted
//! instead. Kept whatever the program does with the refusal: the way that it took then isn't known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::nodes::Question;
use crate::nodes::failure::UNKNOWN_IN_PLAN;
use crate::protocol::{Assumed, Failure};
use crate::reconcile::change::Note;

/// Assumptions that a plan tells; more than that go untold.
const MAX_ASSUMED: usize = 1000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Limits {
    refusals: Mutex<Refusals>,
    assumed: Mutex<BTreeSet<Assumed>>,
}

#[derive(Debug, Default)]
struct Refusals {
    /// The first call.
    call: Option<Failure>,
    /// Streams by their refusal's message, and how many loops over one weren't passed over yet.
    streams: BTreeMap<String, (Failure, usize)>,
}

impl Limits {
    /// The first call that couldn't be planned, with its place.
    pub(super) fn refused(&self) -> Option<Failure> {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let mut streams = refusals.streams.values();
        let stream = streams.find(|(_, open)| *open > 0);
        let call = refusals.call.as_ref();
        call.or(stream.map(|(failure, _)| failure)).cloned()
    }

    /// Keeps a refusal that says what a plan can't know.
    pub(super) fn keep<T>(
        &self,
        asked: &Question<'_>,
        result: Result<T, Failure>,
    ) -> Result<T, Failure> {
        if let Err(failure) = &result
            && failure.code == UNKNOWN_IN_PLAN
        {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let mut kept = failure.clone();
            if let Some(at) = &asked.at {
                kept.message.push_str(&format!(" ({at})"));
            }
            if asked.found.method.mutating || !asked.call.stream {
                refusals.call.get_or_insert(kept);
            } else {
                let streams = &mut refusals.streams;
                streams
                    .entry(failure.message.clone())
                    .or_insert((kept, 0))
                    .1 += 1;
            }
        }
        result
    }

    /// Notes what the plan takes for granted. A loop that was passed over takes the refusal of its
    /// stream with it.
    pub(super) fn assume(&self, assumed: Assumed) {
        if assumed.stream {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let open = refusals.streams.get_mut(&assumed.what);
            let Some((_, open)) = open.filter(|(_, open)| *open > 0) else {
                return;
            };
            *open -= 1;
        }
        let mut all = self.assumed.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_ASSUMED {
            all.insert(assumed);
        }
    }

    /// What is taken for granted, in words.
    pub(super) fn notes(&self) -> Vec<Note> {
        let all = self.assumed.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.iter().map(|one| {
            let Assumed {
                file,
                place,
                what,
                stream,
            } = one;
            let text = match stream {
                true => format!("planned as if this loop ends well: {what}"),
                false => format!("planned as passed: it depends on {what}"),
            };
            Note {
                at: format!("{file}:{}:{}", place.line, place.column),
                text,
            }
        });
        all.collect()
    }
}
