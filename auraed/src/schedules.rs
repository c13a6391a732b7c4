// SPDX-License-Identifier: Apache-2.0
//! Wires the schedules to the node. Called by `serve`.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use identity::{Effect, Identity, Permit};
use image::node::Images;
use model::container::Container;
use model::error::Error;
use model::name::Tenant;
use pod::Pods;
use runtime::Runtime;
use schedule::{Room, Schedules, Settings};
use store::Store;
use tenants::Tenants;

use crate::host;
use crate::other_cron;
use crate::rpc::fetch::Fetch;
use crate::rpc::keys::Keys;

/// The field that a refusal of an image names.
const FIELD: &str = "spec.work";

/// What schedules are wired to.
pub(crate) struct Wiring<'a> {
    pub(crate) node_name: String,
    pub(crate) labels: &'a BTreeMap<String, String>,
    pub(crate) store: &'a Store,
    pub(crate) tenants: &'a Tenants,
    pub(crate) identity: &'a Arc<Identity>,
    pub(crate) runtime: &'a Runtime,
    pub(crate) pods: &'a Pods,
    pub(crate) images: &'a Images,
}

/// Opens the subsystem; what is wished goes on.
pub(crate) async fn start(wiring: Wiring<'_>) -> Result<Schedules, Error> {
    let settings = Settings {
        node_labels: labels(&wiring.node_name, wiring.labels),
        node_name: wiring.node_name,
        room: Room::default(),
        boot: host::boot_id(),
        other_cron: other_cron::in_the_way,
    };
    Schedules::start(
        settings,
        wiring.store.clone(),
        wiring.tenants.clone(),
        wiring.identity.clone(),
        wiring.runtime.clone(),
        wiring.pods.clone(),
        Arc::new(OfRuns(wiring.images.clone())),
    )
    .await
}

/// What manifests select this node by.
fn labels(node: &str, configured: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let known = [("hostname", node), ("os", "linux"), ("arch", arch)];
    let known = known.map(|(key, value)| (format!("kubernetes.io/{key}"), value.to_owned()));
    let mut labels = BTreeMap::from(known);
    labels.extend(configured.clone());
    labels
}

/// Images of what schedules run.
struct OfRuns(Images);

impl schedule::Images for OfRuns {
    fn effect(&self, tenant: &Tenant, root: &Container) -> Result<Option<Effect>, Error> {
        let fetch = Fetch::of_root(&self.0, tenant, root, FIELD)?;
        Ok(fetch.map(|_| Images::effect_of_pull()))
    }

    fn fetch<'a>(
        &'a self,
        permit: &'a Permit,
        tenant: &'a Tenant,
        root: &'a Container,
    ) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            match Fetch::of_root(&self.0, tenant, root, FIELD)? {
                Some(fetch) => {
                    fetch
                        .carry_out(&self.0, permit, tenant, &Keys::default())
                        .await
                }
                None => Ok(()),
            }
        }
        .boxed()
    }
}
