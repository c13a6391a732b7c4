// SPDX-License-Identifier: Apache-2.0
//! Wires the images to the node: registries as configured, the unpacker in the tenant's cgroup, the
//! roots of containers, and the pruning that the node does by itself. Called by `serve`.

use std::any::Any;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::BoxFuture;
use image::config::Run;
use image::node::{Images, Settings, Thresholds, Unpacker};
use image::registry::{Client, Hosts, Options, RegistryError};
use model::container::Defaults;
use model::error::{Error, Reason};
use model::name::Tenant;
use runtime::Runtime;
use runtime::ports::{self, Layers, Root};
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

/// The images, as the runtime makes containers of them.
pub(crate) fn of_cells(images: Images) -> Arc<dyn ports::Images> {
    Arc::new(OfCells(images))
}

struct OfCells(Images);

impl ports::Images for OfCells {
    fn root(&self, tenant: &Tenant, image: &str) -> BoxFuture<'static, Result<Root, Error>> {
        let (images, tenant, image) = (self.0.clone(), tenant.clone(), image.to_owned());
        Box::pin(async move {
            let found = images.resolve(&tenant, &image, None).await?;
            Ok(Root {
                digest: found.manifest.to_string(),
                defaults: defaults(found.run()).map_err(|error| error.about("image", image))?,
                layers: Layers {
                    folder: images.layers_dir().to_owned(),
                    paths: found.layers.to_vec(),
                },
                hold: Arc::new(found.hold),
            })
        })
    }

    fn root_again(
        &self,
        tenant: &Tenant,
        digest: &str,
    ) -> BoxFuture<'static, Result<Arc<dyn Any + Send + Sync>, Error>> {
        let (images, tenant, digest) = (self.0.clone(), tenant.clone(), digest.parse());
        Box::pin(async move {
            let digest = digest.map_err(|_| Error::internal("a cell's record has no digest"))?;
            let found = images.resolve_digest(&tenant, &digest).await?;
            let hold: Arc<dyn Any + Send + Sync> = Arc::new(found.hold);
            Ok(hold)
        })
    }
}

/// What an image's configuration says of its program, in the runtime's words. A variable without a
/// value is one that the image doesn't set; of two with one name the last one counts, as for a
/// shell.
fn defaults(run: &Run) -> Result<Defaults, Error> {
    let (user, group) = run.user.split_once(':').unwrap_or((&run.user, ""));
    let pairs = run.env.iter().filter_map(|pair| pair.split_once('='));
    let defaults = Defaults {
        entrypoint: run.entrypoint.clone(),
        cmd: run.cmd.clone(),
        env: pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        user: user.to_owned(),
        group: group.to_owned(),
        groups: Vec::new(),
        cwd: run.working_dir.clone(),
        stop_signal: run.stop_signal.clone(),
        ..Defaults::default()
    };
    if !defaults.cwd.is_empty() && !defaults.cwd.starts_with('/') {
        let problem = format!("its working directory {:?} isn't absolute", defaults.cwd);
        return Err(Error::new(Reason::Unsupported, problem));
    }
    Ok(defaults)
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
