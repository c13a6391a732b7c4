// SPDX-License-Identifier: Apache-2.0
//! What is pushed to Debian's registry is pulled from it, whole; and what is there already is
//! neither sent nor fetched again.

use std::collections::BTreeSet;

use image::registry::{Client, Options, Progress, Pushed, RegistryError, State};
use tokio::sync::watch;

use super::images::Image;
use super::peer::Peer;
use super::proxy::Proxy;
use super::{empty, hosts, options, plain, plain_hosts, pull, push, push_request, request};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_pushed_is_pulled_elsewhere_with_every_byte() {
    let Some(peer) = Peer::plain() else { return };
    let client = plain(&[&peer.name()]);
    let image = Image::index(1, &[100, 300_000, 5_000_000]);
    let reference = format!("{}/team/app:v1", peer.name());
    let pushed = push(&client, &image, &reference).await.unwrap();
    assert_eq!((pushed.sent, pushed.documents), (6, 3));

    let (_folder, store) = empty();
    let pulled = pull(&client, &store, &reference).await.unwrap();
    image.assert_whole_in(&store);
    assert_eq!(pulled.target.digest, image.target);
    assert_ne!(pulled.manifest.digest, image.target);
    assert_eq!((pulled.host, pulled.passed_over), (peer.name(), vec![]));

    let reference = format!("{}/team/app@{}", peer.name(), image.target);
    let (_folder, store) = empty();
    pull(&client, &store, &reference).await.unwrap();
    image.assert_whole_in(&store);
    let digest = client
        .resolve(&reference.parse().unwrap(), None)
        .await
        .unwrap();
    assert_eq!(digest, image.target);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_push_sends_nothing_and_another_repository_takes_the_blobs_over() {
    let Some(peer) = Peer::plain() else { return };
    let client = plain(&[&peer.name()]);
    let image = Image::new(2, &[100_000, 200_000]);
    push(&client, &image, &format!("{}/a:v1", peer.name()))
        .await
        .unwrap();
    let again = push(&client, &image, &format!("{}/a:v2", peer.name()))
        .await
        .unwrap();
    let none = Pushed::default();
    assert_eq!(
        again,
        Pushed {
            present: 3,
            documents: 1,
            ..none.clone()
        }
    );

    let mut request = push_request(&image, &format!("{}/b/c:v1", peer.name()));
    request.mount_from = vec!["nothing/here".to_owned(), "a".to_owned()];
    let mounted = client
        .push(&image.store, &request, watch::Sender::default())
        .await
        .unwrap();
    assert_eq!(mounted.documents, 1);
    assert_eq!(mounted.mounted + mounted.sent, 3, "{mounted:?}");
    let (_folder, store) = empty();
    pull(&client, &store, &format!("{}/b/c:v1", peer.name()))
        .await
        .unwrap();
    image.assert_whole_in(&store);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_blob_is_pushed_in_chunks() {
    let Some(peer) = Peer::plain() else { return };
    let options = Options {
        chunk: 1 << 20,
        ..options()
    };
    let client = Client::new(hosts(&plain_hosts(&[&peer.name()])), options).unwrap();
    // One of them is a whole number of chunks.
    let image = Image::new(3, &[5 << 20, (3 << 20) + 17, 1 << 20]);
    let reference = format!("{}/app:v1", peer.name());
    push(&client, &image, &reference).await.unwrap();
    let (_folder, store) = empty();
    pull(&client, &store, &reference).await.unwrap();
    image.assert_whole_in(&store);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_layers_come_and_each_is_told_to_be_done() {
    let Some(peer) = Peer::plain() else { return };
    let client = plain(&[&peer.name()]);
    let image = Image::new(4, &[20_000; 100]);
    let reference = format!("{}/app:v1", peer.name());
    push(&client, &image, &reference).await.unwrap();
    let (_folder, store) = empty();
    let (sender, progress) = watch::channel(Progress::default());
    client
        .pull(&store, &request(&reference), sender)
        .await
        .unwrap();
    image.assert_whole_in(&store);
    let progress = progress.borrow();
    assert_eq!(progress.host, peer.name());
    assert_eq!(progress.blobs.len(), 101);
    for blob in &progress.blobs {
        assert_eq!((blob.state, blob.done), (State::Done, blob.whole));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_the_store_is_proved_and_not_fetched_again() {
    let Some(peer) = Peer::plain() else { return };
    let proxy = Proxy::before(peer.port());
    let client = plain(&[&peer.name(), &proxy.name()]);
    let image = Image::new(5, &[3_000_000, 2_000_000]);
    push(&client, &image, &format!("{}/app:v1", peer.name()))
        .await
        .unwrap();
    let (_folder, store) = empty();
    let reference = format!("{}/app:v1", proxy.name());
    let first = pull(&client, &store, &reference).await.unwrap();
    let before = proxy.passed_down();
    assert!(before > 5_000_000);

    let (sender, progress) = watch::channel(Progress::default());
    let mut again = request(&reference);
    again.owner = "bob".to_owned();
    client.pull(&store, &again, sender).await.unwrap();
    assert!(
        proxy.passed_down() - before < 200_000,
        "{}",
        proxy.passed_down() - before
    );
    let states: BTreeSet<_> = progress
        .borrow()
        .blobs
        .iter()
        .map(|it| format!("{:?}", it.state))
        .collect();
    assert_eq!(states, ["Done".to_owned(), "Present".to_owned()].into());

    // Who had it under this name is asked for no proof: the registry's yes is enough.
    let before = proxy.passed_down();
    again.known = Some(first.target.digest);
    client
        .pull(&store, &again, watch::Sender::default())
        .await
        .unwrap();
    assert!(
        proxy.passed_down() - before < 10_000,
        "{}",
        proxy.passed_down() - before
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_another_tenant_need_the_registrys_leave() {
    let Some(peer) = Peer::plain() else { return };
    let client = plain(&[&peer.name()]);
    let image = Image::new(6, &[300_000]);
    let reference = format!("{}/app:v1", peer.name());
    push(&client, &image, &reference).await.unwrap();
    let (_folder, store) = empty();
    pull(&client, &store, &reference).await.unwrap();
    // The registry loses the layer, so that it can give no one leave to read it.
    std::fs::remove_file(peer.blob_path(image.layers[0].digest.hex())).unwrap();
    let other = Peer::plain().unwrap();
    let refused = plain(&[&other.name()]);
    let problem = pull(&refused, &store, &format!("{}/app:v1", other.name()))
        .await
        .unwrap_err();
    assert!(
        matches!(problem, RegistryError::NotFound { .. }),
        "{problem}"
    );
    let problem = pull(&client, &store, &reference).await.unwrap_err();
    assert!(
        problem
            .to_string()
            .contains(&image.layers[0].digest.to_string()),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_named() {
    let Some(peer) = Peer::plain() else { return };
    let client = plain(&[&peer.name()]);
    let (_folder, store) = empty();
    let problem = pull(&client, &store, &format!("{}/no/such:v7", peer.name()))
        .await
        .unwrap_err();
    let expected = format!("{} has no manifests/v7 of no/such", peer.name());
    assert_eq!(problem.to_string(), expected);
    let image = Image::new(7, &[10]);
    let mut absent = push_request(&image, &format!("{}/app:v1", peer.name()));
    absent.target = image::Digest::of(b"absent");
    let problem = client
        .push(&image.store, &absent, watch::Sender::default())
        .await
        .unwrap_err();
    assert!(
        problem.to_string().contains("is not in the store"),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_image_for_the_platform_says_which_there_are() {
    let Some(peer) = Peer::plain() else { return };
    let client = plain(&[&peer.name()]);
    let image = Image::index(8, &[10]);
    let reference = format!("{}/app:v1", peer.name());
    push(&client, &image, &reference).await.unwrap();
    let (_folder, store) = empty();
    let mut other = request(&reference);
    other.platform = "linux/riscv64".parse().unwrap();
    let problem = client
        .pull(&store, &other, watch::Sender::default())
        .await
        .unwrap_err();
    let problem = problem.to_string();
    assert!(
        problem.contains("riscv64") && problem.contains("arm64"),
        "{problem}"
    );
}
