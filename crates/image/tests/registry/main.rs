// SPDX-License-Identifier: Apache-2.0
//! The client of registries against Debian's `docker-registry`, and against servers and lines that
//! cut, lie, flood, drip and redirect. All of it on the loopback, each test with peers of its own.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by them"
)]

mod auth;
mod cut;
mod hostile;
mod images;
mod liars;
mod mirrors;
mod others;
mod peer;
mod proxy;
mod pushes;
mod redirects;
mod roundtrip;
mod secure;
mod store;
mod tokens;

use std::path::Path;
use std::time::Duration;

use image::Platform;
use image::registry::{
    Admission, Backoff, Client, Credentials, Hosts, Options, Progress, PullRequest, Pulled,
    PushRequest, Pushed, RegistryError, Secret,
};
use image::store::Store;
use tokio::sync::watch;

use images::Image;

/// How long a pull or a push may take; no test waits for it to pass.
const DEADLINE: Duration = Duration::from_secs(120);

/// Bounds that make a failing test fail soon, and are no part of what it shows.
fn options() -> Options {
    Options {
        backoff: Backoff {
            attempts: 4,
            first: Duration::from_millis(10),
            longest: Duration::from_secs(5),
        },
        connect: Duration::from_secs(30),
        idle: Duration::from_secs(30),
        ..Options::default()
    }
}

fn hosts(text: &str) -> Hosts {
    Hosts::parse(text, Path::new("registries.toml")).unwrap()
}

/// A client of hosts that are talked to in the clear.
fn plain(names: &[&str]) -> Client {
    Client::new(hosts(&plain_hosts(names)), options()).unwrap()
}

fn plain_hosts(names: &[&str]) -> String {
    let each = names
        .iter()
        .map(|name| format!("[host.\"{name}\"]\nplain_http = true\n"));
    each.collect()
}

fn basic(username: &str, password: &str) -> Credentials {
    Credentials::Basic {
        username: username.to_owned(),
        password: Secret::new(password),
    }
}

fn request(reference: &str) -> PullRequest {
    PullRequest {
        reference: reference.parse().unwrap(),
        platform: images::PLATFORM.parse::<Platform>().unwrap(),
        credentials: None,
        owner: "ada".to_owned(),
        known: None,
        deadline: DEADLINE,
        admission: Admission::default(),
        tap: None,
    }
}

async fn pull(client: &Client, store: &Store, reference: &str) -> Result<Pulled, RegistryError> {
    client
        .pull(store, &request(reference), watch::Sender::default())
        .await
}

fn push_request(image: &Image, reference: &str) -> PushRequest {
    PushRequest {
        reference: reference.parse().unwrap(),
        target: image.target.clone(),
        credentials: None,
        owner: "ada".to_owned(),
        mount_from: Vec::new(),
        deadline: DEADLINE,
    }
}

async fn push(client: &Client, image: &Image, reference: &str) -> Result<Pushed, RegistryError> {
    let request = push_request(image, reference);
    client
        .push(&image.store, &request, watch::Sender::<Progress>::default())
        .await
}

/// An empty store.
fn empty() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("images")).unwrap();
    (folder, store)
}
