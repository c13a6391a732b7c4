// SPDX-License-Identifier: Apache-2.0
//! What ends before the cells when the node goes down, because it has an order of its own: pods,
//! then the units that they may lean on. Called by `serve`; the stages are node-init's
//! (`init::node::shutdown`).

use std::time::{Duration, Instant};

use pod::Pods;
use runtime::{FIRST_PART, InitState, NodeInit};
use schedule::unit::Units;

/// The part of the first stage of a shutdown that is used; the rest is for telling so.
const OF_FIRST: f64 = 0.9;
/// The part of that which pods have, where the node runs units, too.
const OF_PODS: f64 = 0.5;

/// Waits until the node goes down, and ends pods and units before the cells.
pub(crate) async fn end_first(pods: Pods, units: Units, init: NodeInit) {
    init.ends_first(true).await;
    let mut states = init.state();
    let down = |state: &InitState| matches!(state, InitState::ShuttingDown(..));
    let bound_ms = match states.wait_for(down).await.map(|state| *state) {
        Ok(InitState::ShuttingDown(_, bound_ms)) => bound_ms,
        // Init is gone, not the node: the next daemon goes on with all of it.
        _ => return std::future::pending().await,
    };
    let begun = Instant::now();
    let all = Duration::from_millis(bound_ms.into()).mul_f64(FIRST_PART * OF_FIRST);
    let of_pods = match units.are_run() {
        true => all.mul_f64(OF_PODS),
        false => all,
    };
    pods.end_all(of_pods).await;
    units.end_all(all.saturating_sub(begun.elapsed())).await;
    init.ends_first(false).await;
}
