// SPDX-License-Identifier: Apache-2.0
//! Wires the pods to the node. Called by `serve`.

use std::sync::Arc;

use anyhow::Context;
use identity::Identity;
use pod::{Classes, Pods, Settings};
use runtime::Runtime;
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
    classes: Classes,
) -> anyhow::Result<Pods> {
    let settings = Settings {
        state_dir: config.paths.state.clone(),
        node_name,
        seccomp_profiles: config.runtime.seccomp_profiles.clone(),
        node_memory: host::memory().map_or(u64::MAX, |(total, _)| total),
        classes,
    };
    let (runtime, identity) = (runtime.clone(), Arc::clone(identity));
    Pods::start(settings, runtime, identity, tenants.clone()).context("the folder of pods")
}
