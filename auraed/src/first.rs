// SPDX-License-Identifier: Apache-2.0
//! What ends before the cells when the node goes down, because it has an order of its own: pods,
//! then the units that they may lean on. Called by `serve`; the stages are node-init's
//! (`init::node::shutdown`), and where no caller has set the bound, it is as long as units need.

use std::time::{Duration, Instant};

use pod::Pods;
use runtime::{FIRST_PART, InitState, NodeInit, longer_by};
use schedule::unit::Units;

/// The part of the first stage of a shutdown that is used; the rest is for telling so.
const OF_FIRST: f64 = 0.9;
/// The part of that which pods have, where the node runs units, too.
const OF_PODS: f64 = 0.5;
/// How long units have to say what they need. Node-init waits a little longer.
const ANSWER: Duration = Duration::from_secs(1);

/// How a first stage is shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shares {
    pods: Duration,
    /// Both together.
    all: Duration,
    /// For telling so.
    rest: Duration,
}

impl Shares {
    /// Of a stage within a bound that stays as it is.
    fn of(bound: Duration, units: bool) -> Shares {
        let all = bound.mul_f64(FIRST_PART * OF_FIRST);
        let pods = if units { all.mul_f64(OF_PODS) } else { all };
        let rest = bound.mul_f64(FIRST_PART).saturating_sub(all);
        Shares { pods, all, rest }
    }

    /// The same, with the time that units need.
    fn with(self, units: Duration) -> Shares {
        let all = self.all.max(self.pods.saturating_add(units));
        Shares { all, ..self }
    }

    /// How long the stage is.
    fn stage(self) -> Duration {
        self.all.saturating_add(self.rest)
    }
}

/// How long units need at most.
async fn needed(units: &Units) -> Duration {
    let asked = tokio::time::timeout(ANSWER, units.longest_end()).await;
    asked.unwrap_or_else(|_| {
        tracing::warn!("the units do not say how long their end takes: it has its part alone");
        Duration::ZERO
    })
}

/// How long it takes at most until the node is down, where the configuration says `own`.
pub(crate) async fn bound(own: Duration, units: &Units) -> Duration {
    let stage = match units.are_run() {
        true => Shares::of(own, true).with(needed(units).await).stage(),
        false => Duration::ZERO,
    };
    own.saturating_add(longer_by(own, stage))
}

/// Waits until the node goes down, and ends pods and units before the cells.
pub(crate) async fn end_first(pods: Pods, units: Units, init: NodeInit) {
    init.ends_first(true, Duration::ZERO).await;
    let mut states = init.state();
    let down = |state: &InitState| matches!(state, InitState::ShuttingDown(..));
    let (bound_ms, grows) = match states.wait_for(down).await.map(|state| *state) {
        Ok(InitState::ShuttingDown(_, bound_ms, grows)) => (bound_ms, grows),
        // Init is gone, not the node: the next daemon goes on with all of it.
        _ => return std::future::pending().await,
    };
    let begun = Instant::now();
    let mut shares = Shares::of(Duration::from_millis(bound_ms.into()), units.are_run());
    if grows {
        if units.are_run() {
            shares = shares.with(needed(&units).await);
        }
        init.ends_first(true, shares.stage()).await;
    }
    pods.end_all(shares.pods).await;
    units
        .end_all(shares.all.saturating_sub(begun.elapsed()))
        .await;
    init.ends_first(false, Duration::ZERO).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_the_time_that_they_need_and_pods_their_part() {
        let bound = Duration::from_secs(100);
        let none = Shares::of(bound, false);
        assert_eq!(none.pods, none.all);
        let both = Shares::of(bound, true);
        assert_eq!(both.all, Duration::from_secs(36));
        assert_eq!(both.pods, Duration::from_secs(18));
        // What fits makes nothing longer.
        assert_eq!(both.with(Duration::from_secs(18)), both);
        let hour = Duration::from_secs(3600);
        let long = both.with(hour);
        assert_eq!(long.all - long.pods, hour);
        assert_eq!(
            longer_by(bound, long.stage()),
            hour - Duration::from_secs(18)
        );
        assert_eq!(longer_by(bound, both.stage()), Duration::ZERO);
    }
}
