// SPDX-License-Identifier: Apache-2.0
//! Connections that break: a pull and a push go on where they were, and a pull that was given up is
//! continued by the next one of the same owner alone.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use image::registry::{Client, Options, Progress, PullRequest, RegistryError};
use image::store::Store;
use tokio::sync::watch;

use super::hostile::{Content, Hostile};
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
    push(&client, &image, &format!("{}/app:v1", peer.name()))
        .await
        .unwrap();
    proxy.cut_down(800_000, 6);
    let (_folder, store) = empty();
    pull(&client, &store, &format!("{}/app:v1", proxy.name()))
        .await
        .unwrap();
    image.assert_whole_in(&store);
    assert_eq!(proxy.cut(), 6);
    // What was on the way at each cut comes twice, and no more than that.
    let most = 6_000_000 + 6 * 1_000_000;
    assert!(proxy.passed_down() < most, "{}", proxy.passed_down());
}

/// Pulls until the registry stalls in the middle of the layer, and gives up.
async fn give_up(client: &Arc<Client>, store: &Store, request: PullRequest, half: u64) {
    let (sender, mut progress) = watch::channel(Progress::default());
    let pull = tokio::spawn({
        let (client, store) = (client.clone(), store.clone());
        async move { client.pull(&store, &request, sender).await.map(drop) }
    });
    let came = |it: &Progress| it.blobs.iter().any(|it| it.done == half);
    let seen = tokio::time::timeout(super::DEADLINE, progress.wait_for(came)).await;
    seen.unwrap().unwrap();
    pull.abort();
    assert!(pull.await.unwrap_err().is_cancelled());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_was_dropped_is_continued_by_the_next_one_of_its_owner_alone() {
    const HALF: usize = 1_000_000;
    let image = Image::new(12, &[2 * HALF]);
    let layer = image.layers[0].clone();
    let whole = image.blob(&layer.digest).unwrap();
    let stalls = Arc::new(AtomicBool::new(true));
    let ranges: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let (stalling, asked, digest) = (stalls.clone(), ranges.clone(), layer.digest.clone());
    let registry = Hostile::start(Content::of(&image), move |request, out| {
        if request.method != "GET" || !request.is_blob(&digest) {
            return false;
        }
        asked
            .lock()
            .unwrap()
            .push(request.header("range").map(str::to_owned));
        let stalls = stalling.load(Ordering::Relaxed);
        if stalls {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", whole.len());
            out.write_all(head.as_bytes()).unwrap();
            out.write_all(&whole[..HALF]).unwrap();
            // Until the client hangs up.
            let _ = out.read(&mut [0]);
        }
        stalls
    });
    let client = Arc::new(plain(&[&registry.name()]));
    let reference = format!("{}/app:v1", registry.name());
    let (_folder, store) = empty();
    let half = u64::try_from(HALF).unwrap();
    give_up(&client, &store, request(&reference), half).await;
    // The writer lets go of the partial blob a moment after the pull was dropped.
    let scope = format!("ada {}/app", registry.name());
    let deadline = Instant::now() + super::DEADLINE;
    while store
        .ingest_for(&scope, &layer.digest, layer.size)
        .unwrap()
        .offset()
        != half
    {
        assert!(Instant::now() < deadline, "the partial blob isn't there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let mut bobs = request(&reference);
    bobs.owner = "bob".to_owned();
    give_up(&client, &store, bobs, half).await;
    stalls.store(false, Ordering::Relaxed);
    client
        .pull(&store, &request(&reference), watch::Sender::default())
        .await
        .unwrap();
    image.assert_whole_in(&store);
    let expected = [None, None, Some(format!("bytes={HALF}-"))];
    assert_eq!(*ranges.lock().unwrap(), expected);
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
    push(&client, &image, &format!("{}/app:v1", proxy.name()))
        .await
        .unwrap();
    assert_eq!(proxy.cut(), 2);
    let (_folder, store) = empty();
    pull(&client, &store, &format!("{}/app:v1", peer.name()))
        .await
        .unwrap();
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
    push(&client, &image, &format!("{}/app:v1", peer.name()))
        .await
        .unwrap();
    proxy.cut_down(20_000, usize::MAX);
    let (_folder, store) = empty();
    let problem = pull(&client, &store, &format!("{}/app:v1", proxy.name()))
        .await
        .unwrap_err();
    assert!(
        matches!(problem, RegistryError::Unreachable { .. }),
        "{problem}"
    );
    assert!(!store.contains(&image.layers[0].digest));
}
