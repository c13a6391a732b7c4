// SPDX-License-Identifier: Apache-2.0
//! Classes of sandboxes that are other daemons (ADR 90), each behind its API: a microVM with
//! `auraed` in it, another machine. Configured as `sandboxes.CLASS`; wired by `serve`.
//!
//! [`port`] is what the pod subsystem asks of one, [`mirror`] what is known of the pods there,
//! [`carry`] brings their images, [`link`] holds the connections. Calls of clients on what is in
//! such a pod (its programs and their output) go there whole, by `rpc::away`.

mod carry;
mod config;
mod dial;
pub(crate) mod link;
mod mirror;
mod port;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use client::{NodeIdentity, Target};
use identity::Identity;
use image::node::Images;
use model::name::Tenant;
use pod::{Classes, Elsewhere};
use sha2::{Digest, Sha256};

use crate::config::Config;
use carry::Carrier;
pub(crate) use config::{SandboxClass, contradiction};
use link::Link;
use mirror::Mirror;
use port::Other;

/// How much of a digest tells two nodes apart, in bytes.
const TOLD_APART: usize = 12;

/// The connections of this node's classes.
pub(crate) type Links = BTreeMap<String, Arc<Link>>;

/// The classes that the configuration names. Their daemons needn't be there yet.
///
/// # Errors
/// Where the node's own CA can't be read.
pub(crate) fn start(
    config: &Config,
    node_name: &str,
    identity: &Arc<Identity>,
    images: &Images,
) -> anyhow::Result<(Classes, Links)> {
    let (mut classes, mut links) = (Classes::default(), Links::new());
    if config.sandboxes.is_empty() {
        return Ok((classes, links));
    }
    let node = known_as(&config.paths.state.join("pki/ca.pem"), node_name)?;
    let own: Tenant = model::quota::ADMINISTRATORS.parse()?;
    for (name, class) in &config.sandboxes {
        let link = Arc::new(Link::new(name, target(class)?));
        links.insert(name.clone(), link.clone());
        let other = Arc::new(Other {
            link,
            mirror: Mirror::new(node.clone()),
            carrier: Carrier {
                images: images.clone(),
                identity: identity.clone(),
            },
            own: own.clone(),
            told: tokio::sync::Mutex::default(),
        });
        let (watching, of) = (other.clone(), own.clone());
        tokio::spawn(async move { watching.mirror.run(&watching.link, &of).await });
        if class.default {
            classes.default = Some(name.clone());
        }
        classes
            .others
            .insert(name.clone(), other as Arc<dyn Elsewhere>);
    }
    Ok((classes, links))
}

fn target(class: &SandboxClass) -> anyhow::Result<Target> {
    Ok(Target {
        context: None,
        address: class.address.parse().context("the address of a class")?,
        ca: class.ca.clone(),
        certificate: class.certificate.clone(),
        key: class.key.clone(),
        expected: NodeIdentity::default(),
        tenant: String::new(),
    })
}

/// What this node's pods bear elsewhere: of its CA and its name, so that two nodes that have pods
/// on one daemon never take each other's for their own.
fn known_as(ca: &Path, node_name: &str) -> anyhow::Result<String> {
    let ca_file = std::fs::read(ca).with_context(|| format!("reading {}", ca.display()))?;
    let digest = Sha256::new()
        .chain_update(ca_file)
        .chain_update(node_name)
        .finalize();
    let mut text = String::new();
    for byte in digest.iter().take(TOLD_APART) {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}
