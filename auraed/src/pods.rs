// SPDX-License-Identifier: Apache-2.0
//! Wires the pods to the node. Called by `serve`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use identity::Identity;
use pod::{Pods, Settings};
use runtime::{FIRST_PART, InitState, NodeInit, Runtime};
use tenants::Tenants;

use crate::config::Config;
use crate::host;

/// Opens the subsystem; what an earlier daemon has kept goes on.
pub(crate) fn start(
    config: &Config,
    node_name: String,
    runtime: &Runtime,
    identity: &Arc<Identity>,
    tenants: &Tenants,
) -> anyhow::Result<Pods> {
    let settings = Settings {
        state_dir: config.paths.state.clone(),
        node_name,
        node_memory: host::memory().map_or(u64::MAX, |(total, _)| total),
    };
    let (runtime, identity) = (runtime.clone(), Arc::clone(identity));
    Pods::start(settings, runtime, identity, tenants.clone()).context("the folder of pods")
}

/// The part of the first stage of a shutdown that pods have; the rest is for telling so.
const OF_FIRST: f64 = 0.9;

/// Waits until the node goes down, and ends the pods before the cells.
pub(crate) async fn end_first(pods: Pods, init: NodeInit) {
    init.ends_first(true).await;
    let mut states = init.state();
    let down = |state: &InitState| matches!(state, InitState::ShuttingDown(..));
    let bound_ms = match states.wait_for(down).await.map(|state| *state) {
        Ok(InitState::ShuttingDown(_, bound_ms)) => bound_ms,
        // Init is gone, not the node: the next daemon goes on with the pods.
        _ => return std::future::pending().await,
    };
    let bound = Duration::from_millis(bound_ms.into());
    pods.end_all(bound.mul_f64(FIRST_PART * OF_FIRST)).await;
    init.ends_first(false).await;
}
