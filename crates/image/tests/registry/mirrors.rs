// SPDX-License-Identifier: Apache-2.0
//! Mirrors: asked in order, passed over when they fail in any way that another host can mend.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use image::registry::{Client, Credentials, PullRequest, RegistryError};
use tokio::sync::watch;

use super::hostile::{Content, Hostile, reply};
use super::images::{Image, bytes};
use super::peer::{Peer, free_port};
use super::{basic, empty, hosts, options, plain, plain_hosts, pull, push, request};

/// A registry `app.example` that is served by these hosts, the last one being its server.
fn client(names: &[&str], extra: &str) -> Client {
    let (server, mirrors) = names.split_last().unwrap();
    let mirrors: Vec<String> = mirrors
        .iter()
        .map(|it| format!("{{ host = \"{it}\" }}"))
        .collect();
    let text = format!(
        "[registry.\"app.example\"]\nserver = \"{server}\"\nmirror = [{}]\n{}{extra}",
        mirrors.join(", "),
        plain_hosts(names)
    );
    Client::new(hosts(&text), options()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_gives_what_it_has_and_the_server_is_not_asked() {
    let image = Image::new(61, &[1000, 2000]);
    let (mirror, server) = (
        Hostile::honest(Content::of(&image)),
        Hostile::honest(Content::of(&image)),
    );
    let client = client(&[&mirror.name(), &server.name()], "");
    let (_folder, store) = empty();
    let pulled = pull(&client, &store, "app.example/app:v1").await.unwrap();
    image.assert_whole_in(&store);
    assert_eq!((pulled.host, server.count("")), (mirror.name(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_fails_is_passed_over_for_the_next_one() {
    let Some(peer) = Peer::plain() else { return };
    let image = Image::new(62, &[300_000, 10]);
    push(
        &plain(&[&peer.name()]),
        &image,
        &format!("{}/app:v1", peer.name()),
    )
    .await
    .unwrap();
    let dead = format!("127.0.0.1:{}", free_port());
    let empty_one = Hostile::honest(Content::default());
    let broken = Hostile::start(Content::default(), |request, out| {
        reply(out, request, "500 Internal Server Error", &[], b"");
        true
    });
    let closed = Hostile::start(Content::default(), |request, out| {
        reply(out, request, "403 Forbidden", &[], b"");
        true
    });
    let names = [
        &*dead,
        &empty_one.name(),
        &broken.name(),
        &closed.name(),
        &peer.name(),
    ];
    let (_folder, store) = empty();
    let pulled = pull(&client(&names, ""), &store, "app.example/app:v1")
        .await
        .unwrap();
    image.assert_whole_in(&store);
    assert_eq!(pulled.host, peer.name());
    assert_eq!(pulled.passed_over.len(), 4, "{:?}", pulled.passed_over);
    // A mirror has fewer attempts than what has no other behind it.
    assert_eq!(broken.count("HEAD"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_lies_about_a_layer_is_passed_over_for_that_layer() {
    let image = Image::new(63, &[300_000]);
    let digest = &image.layers[0].digest;
    let liar = Hostile::honest(Content::of(&image).blob(digest, &bytes(99, 300_000)));
    let server = Hostile::honest(Content::of(&image));
    let (_folder, store) = empty();
    let client = client(&[&liar.name(), &server.name()], "");
    let pulled = pull(&client, &store, "app.example/app:v1").await.unwrap();
    image.assert_whole_in(&store);
    assert!(
        pulled.passed_over[0].contains("lies about"),
        "{:?}",
        pulled.passed_over
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_mirror_gave_before_it_broke_is_not_fetched_again() {
    const HALF: usize = 1_000_000;
    let image = Image::new(67, &[2 * HALF]);
    let digest = image.layers[0].digest.clone();
    let whole = image.blob(&digest).unwrap();
    let broken = AtomicBool::new(false);
    let breaking = digest.clone();
    let mirror = Hostile::start(Content::of(&image), move |request, out| {
        let blob = request.is_blob(&breaking);
        if blob && !broken.swap(true, Ordering::Relaxed) {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", whole.len());
            out.write_all(head.as_bytes()).unwrap();
            out.write_all(&whole[..HALF]).unwrap();
        } else if blob {
            reply(out, request, "503 Service Unavailable", &[], b"");
        }
        blob
    });
    let ranges: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let asked = ranges.clone();
    let server = Hostile::start(Content::of(&image), move |request, _| {
        if request.is_blob(&digest) {
            let range = request.header("range").map(str::to_owned);
            asked.lock().unwrap().push(range);
        }
        false
    });
    let (_folder, store) = empty();
    let client = client(&[&mirror.name(), &server.name()], "");
    pull(&client, &store, "app.example/app:v1").await.unwrap();
    image.assert_whole_in(&store);
    assert_eq!(*ranges.lock().unwrap(), [Some(format!("bytes={HALF}-"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_fail_each_says_why() {
    let dead = format!("127.0.0.1:{}", free_port());
    let empty_one = Hostile::honest(Content::default());
    let (_folder, store) = empty();
    let client = client(&[&dead, &empty_one.name()], "");
    let problem = pull(&client, &store, "app.example/app:v1")
        .await
        .unwrap_err();
    assert!(
        matches!(problem, RegistryError::Everywhere { .. }),
        "{problem}"
    );
    let text = problem.to_string();
    assert!(
        text.contains(&dead) && text.contains(&empty_one.name()),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_without_tags_gives_digests_alone() {
    let image = Image::new(64, &[1000]);
    let mirror = Hostile::honest(Content::of(&image));
    let server = Hostile::honest(Content::of(&image));
    let text = format!(
        "[registry.\"app.example\"]\nserver = \"{}\"\n\
         mirror = [{{ host = \"{}\", prefix = \"hub\", tags = false }}]\n{}",
        server.name(),
        mirror.name(),
        plain_hosts(&[&mirror.name(), &server.name()])
    );
    let client = Client::new(hosts(&text), options()).unwrap();
    let (_folder, store) = empty();
    pull(&client, &store, "app.example/app:v1").await.unwrap();
    assert_eq!(mirror.count("manifests/v1"), 0);
    let (_folder, store) = empty();
    let pinned = format!("app.example/app@{}", image.target);
    pull(&client, &store, &pinned).await.unwrap();
    assert_eq!(
        mirror.count(&format!("GET /v2/hub/app/manifests/{}", image.target)),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_never_shown_the_credentials_for_the_registry() {
    let image = Image::new(65, &[1000]);
    let mirror = Hostile::start(Content::default(), |request, out| {
        assert!(request.header("authorization").is_none());
        let challenge = [("WWW-Authenticate", "Basic realm=\"mirror\"")];
        reply(out, request, "401 Unauthorized", &challenge, b"");
        true
    });
    let server = Hostile::start(Content::of(&image), |request, out| {
        let shown = request.header("authorization") == Some("Basic YWRhOnNlY3JldA==");
        if !shown {
            let challenge = [("WWW-Authenticate", "Basic realm=\"server\"")];
            reply(out, request, "401 Unauthorized", &challenge, b"");
        }
        !shown
    });
    let names = [&*mirror.name(), &server.name()];
    let client = client(&names, "credentials_over_plain_http = true\n");
    let (_folder, store) = empty();
    let request = PullRequest {
        credentials: Some(basic("ada", "secret")),
        ..request("app.example/app:v1")
    };
    let pulled = client
        .pull(&store, &request, watch::Sender::default())
        .await
        .unwrap();
    assert_eq!(pulled.host, server.name());
    // One HEAD for the tag, and no second try with what isn't the mirror's.
    assert_eq!(mirror.count("HEAD /v2/app/manifests/v1"), 1);
    assert_ne!(request.credentials, Some(Credentials::Anonymous));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_or_broken_store_is_no_fault_of_a_mirror() {
    let image = Image::new(66, &[1000]);
    let mirror = Hostile::honest(Content::of(&image));
    let server = Hostile::honest(Content::of(&image));
    let (folder, store) = empty();
    std::fs::remove_dir_all(folder.path().join("images/ingest")).unwrap();
    let client = client(&[&mirror.name(), &server.name()], "");
    let problem = pull(&client, &store, "app.example/app:v1")
        .await
        .unwrap_err();
    assert!(matches!(problem, RegistryError::Image(_)), "{problem}");
    assert_eq!(server.count(""), 0);
}
