// SPDX-License-Identifier: Apache-2.0
//! How far an update of a cell has come, and what comes next: pure, of any steps. What a step is,
//! and how it and the record's writes are done, is [`super::change`]'s.
//!
//! ```text
//!  Announce ─► Apply ─► Commit ─► finished     recorded: begun; then each step; recorded: done
//!                │ a step is refused
//!                ▼
//!              Undo ─► Withdraw ─► finished     the steps that were done, backwards
//! ```

use std::collections::VecDeque;

use model::error::Error;

/// What is being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Announce,
    Apply,
    Commit,
    Undo,
    Withdraw,
}

/// What is to be done. All but [`Effect::Uncommit`], [`Effect::Lost`] and [`Effect::Finish`] have
/// an outcome, which [`Progress::after`] is told.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Effect<S> {
    /// Write that the update has begun.
    Announce,
    /// Do this step, having said by [`Progress::expect`] what takes it back.
    Take(S),
    /// Make the update's spec the record's, and write that.
    Commit,
    /// Make the record's spec the one that it was: the write failed.
    Uncommit,
    /// A step was not taken back; its inverse is this one.
    Lost(Option<S>, Error),
    /// Write that nothing of the update is left.
    Withdraw,
    /// Answer: nothing comes after it.
    Finish,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Progress<S> {
    phase: Phase,
    steps: VecDeque<S>,
    /// Takes back what was done, from behind.
    undo: Vec<S>,
    /// Takes back the step that is being done.
    inverse: Option<S>,
    /// Why it is being taken back.
    pub(super) error: Option<Error>,
}

impl<S> Progress<S> {
    /// An update of these steps.
    pub(super) fn of(steps: VecDeque<S>) -> Self {
        Self {
            phase: Phase::Announce,
            steps,
            undo: Vec::new(),
            inverse: None,
            error: None,
        }
    }

    /// An update of which these steps are to be done to take it back, the last one first.
    pub(super) fn taken_back(undo: Vec<S>) -> Self {
        Self {
            phase: Phase::Undo,
            undo,
            ..Self::of(VecDeque::new())
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// What takes back the step that is being done.
    pub(super) fn inverse(&self) -> Option<&S> {
        self.inverse.as_ref()
    }

    pub(super) fn expect(&mut self, inverse: S) {
        self.inverse = Some(inverse);
    }

    /// What comes first. Without a step there is nothing to announce.
    pub(super) fn begin(&mut self) -> Effect<S> {
        match self.phase {
            Phase::Announce if !self.steps.is_empty() => Effect::Announce,
            _ => self.next(),
        }
    }

    /// What comes after what was to be done is done, or refused.
    pub(super) fn after(&mut self, outcome: Result<(), Error>) -> Vec<Effect<S>> {
        let inverse = self.inverse.take();
        match (self.phase, outcome) {
            (Phase::Announce, Ok(())) => {
                self.phase = Phase::Apply;
                vec![self.next()]
            }
            (Phase::Announce, Err(error)) => {
                self.error = Some(error);
                vec![self.withdraw()]
            }
            (Phase::Apply, Ok(())) => {
                self.undo.extend(inverse);
                vec![self.next()]
            }
            (Phase::Apply, Err(error)) => vec![self.turn_back(error)],
            (Phase::Commit, Ok(())) => vec![Effect::Finish],
            (Phase::Commit, Err(error)) => vec![Effect::Uncommit, self.turn_back(error)],
            (Phase::Undo, Ok(())) => vec![self.next()],
            (Phase::Undo, Err(error)) => vec![Effect::Lost(inverse, error), self.next()],
            // The last record that the cell-init has says that it is to be taken back: harmless.
            (Phase::Withdraw, _) => vec![Effect::Finish],
        }
    }

    fn turn_back(&mut self, error: Error) -> Effect<S> {
        self.error = Some(error);
        self.phase = Phase::Undo;
        self.next()
    }

    /// The next step in the direction that the update goes.
    fn next(&mut self) -> Effect<S> {
        if self.phase == Phase::Undo {
            return match self.undo.pop() {
                Some(step) => Effect::Take(step),
                None => self.withdraw(),
            };
        }
        match self.steps.pop_front() {
            Some(step) => Effect::Take(step),
            None => {
                self.phase = Phase::Commit;
                Effect::Commit
            }
        }
    }

    fn withdraw(&mut self) -> Effect<S> {
        self.phase = Phase::Withdraw;
        Effect::Withdraw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Switches a limit on or off.
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Switch(usize, bool);

    /// What an update has left behind.
    #[derive(Default, PartialEq, Debug)]
    struct Left {
        on: Vec<usize>,
        announced: bool,
        committed: bool,
        lost: Vec<usize>,
        failed: bool,
    }

    /// Carries an update of `steps` switches out. `fails` says of each effect, by its turn, whether
    /// it is refused.
    fn carried_out(steps: usize, mut fails: impl FnMut(usize) -> bool) -> Left {
        let mut update = Progress::of((0..steps).map(|n| Switch(n, true)).collect());
        let mut left = Left::default();
        let mut turn = 0;
        let mut effects = VecDeque::from([update.begin()]);
        while let Some(effect) = effects.pop_front() {
            if let Effect::Take(Switch(n, on)) = effect {
                update.expect(Switch(n, !on));
            }
            let refused = fails(turn);
            match effect {
                Effect::Uncommit => left.committed = false,
                Effect::Lost(Some(Switch(n, _)), _) => left.lost.push(n),
                Effect::Lost(None, _) => panic!("it is not known what is lost"),
                Effect::Finish => {
                    assert!(effects.is_empty());
                    left.failed = update.error.is_some();
                    return left;
                }
                Effect::Announce => left.announced |= !refused,
                Effect::Take(Switch(n, true)) if !refused => left.on.push(n),
                Effect::Take(Switch(_, false)) if !refused => drop(left.on.pop()),
                // As `change` does it: in memory first, then in the record.
                Effect::Commit => left.committed = true,
                Effect::Take(_) | Effect::Withdraw => {}
            }
            if matches!(effect, Effect::Uncommit | Effect::Lost(..)) {
                continue;
            }
            turn += 1;
            let outcome = if refused {
                Err(Error::internal("refused"))
            } else {
                Ok(())
            };
            effects.extend(update.after(outcome));
        }
        panic!("an update without an end");
    }

    #[test]
    fn an_update_is_done_whole_or_not_at_all_wherever_it_is_refused() {
        for steps in 0..4_usize {
            let whole = carried_out(steps, |_| false);
            assert_eq!(whole.on, (0..steps).collect::<Vec<_>>());
            assert!(whole.committed && !whole.failed);
            let turns = if steps == 0 { 1 } else { steps + 2 };
            for refused in 0..turns {
                let left = carried_out(steps, |turn| turn == refused);
                assert!(left.failed && !left.committed, "{left:?}");
                assert!(left.on.is_empty() && left.lost.is_empty(), "{left:?}");
            }
        }
    }

    #[test]
    fn what_can_not_be_taken_back_is_named_once_and_the_rest_is_taken_back() {
        // Three are on, the commit is refused, and then the second of those that go off.
        let left = carried_out(3, |turn| turn == 4 || turn == 6);
        assert_eq!(left.lost, [1]);
        assert!(left.failed && !left.committed);
    }

    #[test]
    fn every_pattern_of_refusals_comes_to_an_end() {
        for pattern in 0..1_u32 << 10 {
            let left = carried_out(3, |turn| pattern & 1 << turn.min(9) != 0);
            assert_eq!(left.committed, !left.failed, "{pattern:b}");
        }
    }
}
