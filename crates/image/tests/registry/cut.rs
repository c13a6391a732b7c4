// SPDX-License-Identifier: Apache-2.0
//! Connections that break: a pull and a push go on where they were, and a pull that was given up is
//! continued by the next one of the same owner alone.

use std::sync::Arc;
use std::time::Duration;

use image::registry::{Client, Options, Progress, RegistryError};
use tokio::sync::watch;

use super::images::Image;
use super::peer::Peer;
use super::proxy::Proxy;
use super::{empty, hosts, options, plain, plain_hosts, pull, push, request};

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_pull_goes_on_where_it_was() {
    let Some(peer) = Peer::plain() else { return };
    let proxy = Proxy::before(peer.port());
    let client = plain(&[&peer.name(), &proxy.name()]);
    let image = Image::new(11, &[6_000_000]);
    push(&client, &image, &format!("{}/app:v1", peer.name())).await.unwrap();
    proxy.cut_down(800_000, 6);
    let (_folder, store) = empty();
    pull(&client, &store, &format!("{}/app:v1", proxy.name())).await.unwrap();
    image.assert_whole_in(&store);
    assert_eq!(proxy.cut(), 6);
    // What was on the way at each cut comes twice, and no more than that.
    let most = 6_000_000 + 6 * 1_000_000;
    assert!(proxy.passed_down() < most, "{}", proxy.passed_down());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_was_dropped_is_continued_by_the_next_one_of_its_owner_alone() {
    let Some(peer) = Peer::plain() else { return };
    let proxy = Proxy::before(peer.port());
    let client = Arc::new(plain(&[&peer.name(), &proxy.name()]));
    let image = Image::new(12, &[40_000_000]);
    push(&client, &image, &format!("{}/app:v1", peer.name())).await.unwrap();
    let reference = format!("{}/app:v1", proxy.name());
    let (_folder, store) = empty();

    let (sender, mut progress) = watch::channel(Progress::default());
    let first = tokio::spawn({
        let (client, store, request) = (client.clone(), store.clone(), request(&reference));
        async move { client.pull(&store, &request, sender).await.map(drop) }
    });
    let half = |it: &Progress| it.blobs.iter().any(|it| it.done > 10_000_000);
    let seen = tokio::time::timeout(super::DEADLINE, progress.wait_for(half)).await;
    seen.unwrap().unwrap();
    first.abort();
    let ended = first.await;
    if ended.is_ok() {
        // It was faster than we: there is nothing left to continue.
        return;
    }

    // Whoever else pulls begins at the beginning.
    let mut other = request(&reference);
    other.owner = "bob".to_owned();
    let (sender, mut others) = watch::channel(Progress::default());
    let begun = async {
        let moving = |it: &Progress| it.blobs.iter().any(|it| it.whole == 40_000_000);
        others.wait_for(moving).await.unwrap().blobs[1].done
    };
    let (pulled, begun) = tokio::join!(
        async {
            let bobs = client.pull(&store, &other, sender);
            tokio::time::timeout(Duration::from_millis(1), bobs).await.map(drop)
        },
        async { tokio::time::timeout(Duration::from_millis(50), begun).await }
    );
    drop(pulled);
    assert!(begun.is_err() || begun.unwrap() < 10_000_000);

    let before = proxy.passed_down();
    client.pull(&store, &request(&reference), watch::Sender::default()).await.unwrap();
    image.assert_whole_in(&store);
    assert!(proxy.passed_down() - before < 31_000_000, "{}", proxy.passed_down() - before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_push_ends_with_every_byte_there() {
    let Some(peer) = Peer::plain() else { return };
    let proxy = Proxy::before(peer.port());
    let options = Options {
        chunk: 1 << 20,
        ..options()
    };
    let names = plain_hosts(&[&peer.name(), &proxy.name()]);
    let client = Client::new(hosts(&names), options).unwrap();
    let image = Image::new(13, &[7_000_000]);
    proxy.cut_up(2_500_000, 2);
    push(&client, &image, &format!("{}/app:v1", proxy.name())).await.unwrap();
    assert_eq!(proxy.cut(), 2);
    let (_folder, store) = empty();
    pull(&client, &store, &format!("{}/app:v1", peer.name())).await.unwrap();
    image.assert_whole_in(&store);
    // An upload that is begun anew costs what it had; not all of them are.
    assert!(proxy.passed_up() < 3 * 7_000_000, "{}", proxy.passed_up());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_never_holds_ends_the_pull_with_its_reason() {
    let Some(peer) = Peer::plain() else { return };
    let proxy = Proxy::before(peer.port());
    let client = plain(&[&peer.name(), &proxy.name()]);
    let image = Image::new(14, &[3_000_000]);
    push(&client, &image, &format!("{}/app:v1", peer.name())).await.unwrap();
    proxy.cut_down(20_000, usize::MAX);
    let (_folder, store) = empty();
    let problem = pull(&client, &store, &format!("{}/app:v1", proxy.name())).await.unwrap_err();
    assert!(matches!(problem, RegistryError::Unreachable { .. }), "{problem}");
    assert!(!store.contains(&image.layers[0].digest));
}
