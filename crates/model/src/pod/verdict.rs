// SPDX-License-Identifier: Apache-2.0
//! What a probe's answers come to: a verdict is given when as many in a row as the threshold say
//! the same, and stands until another one is given.

use super::probe::Probe;

/// How many answers of a kind it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    success: u32,
    failure: u32,
}

impl Thresholds {
    /// Of a probe, with the defaults.
    pub fn of(probe: &Probe) -> Self {
        Self {
            success: probe.success_threshold.unwrap_or(1).max(1),
            failure: probe.failure_threshold.unwrap_or(3).max(1),
        }
    }
}

/// The answers in a row so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Streak {
    /// The last answer was a success; `None`: there was none.
    last: Option<bool>,
    count: u32,
}

impl Streak {
    /// After an answer; and the verdict, where it has just been given.
    #[must_use]
    pub fn after(self, success: bool, of: Thresholds) -> (Self, Option<bool>) {
        let count = match self.last == Some(success) {
            true => self.count.saturating_add(1),
            false => 1,
        };
        let enough = match success {
            true => of.success,
            false => of.failure,
        };
        let next = Self {
            last: Some(success),
            count,
        };
        (next, (count == enough).then_some(success))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn thresholds(success: u32, failure: u32) -> Thresholds {
        Thresholds { success, failure }
    }

    #[test]
    fn a_verdict_takes_its_number_in_a_row() {
        let of = thresholds(2, 3);
        let mut streak = Streak::default();
        let mut verdicts = Vec::new();
        for answer in [true, false, true, true, true, false, false, false, false] {
            let (next, verdict) = streak.after(answer, of);
            streak = next;
            verdicts.push(verdict);
        }
        let none = None;
        let expected = [
            none,
            none,
            none,
            Some(true),
            none,
            none,
            none,
            Some(false),
            none,
        ];
        assert_eq!(verdicts, expected);
    }

    proptest! {
        #[test]
        fn a_verdict_is_what_the_last_answers_say(
            answers in proptest::collection::vec(any::<bool>(), 1..64),
            success in 1_u32..5,
            failure in 1_u32..5,
        ) {
            let mut streak = Streak::default();
            for (i, answer) in answers.iter().enumerate() {
                let (next, verdict) = streak.after(*answer, thresholds(success, failure));
                streak = next;
                let needed = if *answer { success } else { failure } as usize;
                let same = answers[..=i].iter().rev().take_while(|it| *it == answer).count();
                prop_assert_eq!(verdict, (same == needed).then_some(*answer));
            }
        }
    }
}
