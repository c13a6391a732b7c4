// SPDX-License-Identifier: Apache-2.0
//! Wires the images to the node: registries as configured, the unpacker in the tenant's cgroup, and
//! the pruning that the node does by itself. Called by `serve`.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use image::node::{Images, Settings, Unpacker};
use image::registry::{Client, Hosts, Options};
use runtime::Runtime;
use tenants::Tenants;

use crate::config::Config;

/// How often the node looks for images that were not used for long.
const PRUNED_EVERY: Duration = Duration::from_secs(60 * 60);

/// Opens the store. What the kernel and the disk do for that takes its time, so it is done beside
/// the daemon's tasks.
pub(crate) async fn start(
    config: &Config,
    runtime: &Runtime,
    tenants: &Tenants,
) -> anyhow::Result<Images> {
    let hosts = Hosts::load(&config.images.registries)?;
    let options = Options {
        docker_config: Some(config.images.credentials.clone()),
        ..Options::default()
    };
    let settings = Settings {
        state_dir: config.paths.state.clone(),
        client: Client::new(hosts, options)?,
        unpacker: unpacker(runtime.clone()),
    };
    let (runtime, tenants) = (runtime.clone(), tenants.clone());
    let opening = tokio::task::spawn_blocking(move || {
        // What an earlier daemon has left there would write where the store is repaired.
        runtime.end_work();
        Images::open(settings, &tenants)
    });
    Ok(opening.await.context("the store of images")??)
}

fn unpacker(runtime: Runtime) -> Unpacker {
    Unpacker::new(move |tenant| {
        let mut command = Command::new("/proc/self/exe");
        let group = runtime.work_group(tenant)?;
        let parent = std::process::id().to_string();
        command
            .args(["unpack", "--parent", &parent, "--group"])
            .arg(group);
        Ok(command)
    })
}

/// Prunes, and puts layers on disk, for as long as the daemon serves.
pub(crate) async fn prune(images: Images, age: Duration) {
    let mut ticks = tokio::time::interval(PRUNED_EVERY);
    loop {
        ticks.tick().await;
        match images.prune_unused(age).await {
            Ok(pruned) if pruned.removed.is_empty() => {}
            Ok(pruned) => tracing::info!(
                images = ?pruned.removed,
                bytes = pruned.freed_bytes,
                "images that were not used for long are removed"
            ),
            Err(error) => tracing::warn!(%error, "old images can't be removed"),
        }
        if let Err(error) = images.settle().await {
            tracing::warn!(%error, "unpacked layers are not on disk yet");
        }
    }
}
