// SPDX-License-Identifier: Apache-2.0
//! Wires the images to the node: registries as configured, the unpacker in the tenant's cgroup, and
//! the pruning that the node does by itself. Called by `serve`.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use image::node::{Images, Settings, Thresholds, Unpacker};
use image::registry::{Client, Hosts, Options, RegistryError};
use model::error::Error;
use runtime::Runtime;
use tenants::Tenants;

use crate::config::Config;

/// How often the node looks for images that were not used for long.
const PRUNED_EVERY: Duration = Duration::from_secs(60 * 60);

/// How often the node looks at the disk. A pull looks, too.
const RELIEVED_EVERY: Duration = Duration::from_secs(60);

/// Opens the store. What the kernel and the disk do for that takes its time, so it is done beside
/// the daemon's tasks. A store or a `registries.toml` that can't be read is no reason for the node
/// not to serve: what needs them says why it can't.
pub(crate) async fn start(
    config: &Config,
    runtime: &Runtime,
    tenants: &Tenants,
) -> anyhow::Result<Images> {
    let client = client(config).inspect_err(|error| {
        tracing::error!(%error, "no image can be pulled or pushed");
    });
    let state_dir = config.paths.state.clone();
    let settings = Settings {
        state_dir: state_dir.clone(),
        client: client.map_err(Into::into),
        unpacker: unpacker(runtime.clone()),
        thresholds: Thresholds {
            high: config.images.high_threshold,
            low: config.images.low_threshold,
        },
    };
    let (runtime, tenants) = (runtime.clone(), tenants.clone());
    let opening = tokio::task::spawn_blocking(move || {
        // What an earlier daemon has left there would write where the store is repaired.
        runtime.end_work();
        Images::open(settings, &tenants)
    });
    let opened = opening.await.context("the store of images")?;
    Ok(opened.unwrap_or_else(|error| {
        let why = Error::from(error).message.clone();
        tracing::error!(why, "this node has no images");
        Images::closed(&state_dir, &why)
    }))
}

fn client(config: &Config) -> Result<Client, RegistryError> {
    let options = Options {
        docker_config: Some(config.images.credentials.clone()),
        ..Options::default()
    };
    Client::new(Hosts::load(&config.images.registries)?, options)
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

/// Collects where the disk is too full, for as long as the daemon serves.
pub(crate) async fn relieve(images: Images) {
    let mut ticks = tokio::time::interval(RELIEVED_EVERY);
    loop {
        ticks.tick().await;
        // What it does is logged there.
        if let Err(error) = images.relieve().await {
            tracing::warn!(%error, "a full disk is not relieved");
        }
    }
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
