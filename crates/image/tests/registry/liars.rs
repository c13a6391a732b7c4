// SPDX-License-Identifier: Apache-2.0
//! Registries that lie, flood, drip and stall. Each ends with a named error in bounded time, with
//! nothing in the store that isn't what its digest says.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use image::manifest::media;
use image::registry::{Client, Options, PullRequest, RegistryError};
use image::{Digest, ImageError};
use tokio::sync::watch;

use super::hostile::{Content, Hostile, Request, flood, reply};
use super::images::{Image, bytes, manifest};
use super::{DEADLINE, empty, hosts, options, plain, plain_hosts, pull, request};

/// Pulls from a registry that answers as it is told; the pull must fail.
async fn fails(
    content: Content,
    first: impl Fn(&Request, &mut TcpStream) -> bool + Send + Sync + 'static,
) -> RegistryError {
    let hostile = Hostile::start(content, first);
    let client = plain(&[&hostile.name()]);
    let (_folder, store) = empty();
    pull(&client, &store, &format!("{}/app:v1", hostile.name()))
        .await
        .unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_server_of_the_tests_is_pulled_from() {
    let image = Image::index(21, &[200_000, 10]);
    let honest = Hostile::honest(Content::of(&image));
    let client = plain(&[&honest.name()]);
    let (_folder, store) = empty();
    pull(&client, &store, &format!("{}/app:v1", honest.name()))
        .await
        .unwrap();
    image.assert_whole_in(&store);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_with_other_bytes_is_a_lie() {
    let image = Image::new(22, &[200_000]);
    let digest = image.layers[0].digest.clone();
    let content = Content::of(&image).blob(&digest, &bytes(99, 200_000));
    let hostile = Hostile::honest(content);
    let client = plain(&[&hostile.name()]);
    let (_folder, store) = empty();
    let reference = format!("{}/app:v1", hostile.name());
    let problem = pull(&client, &store, &reference).await.unwrap_err();
    let text = problem.to_string();
    assert!(matches!(problem, RegistryError::Lie { .. }), "{text}");
    assert!(
        text.contains(&digest.to_string()) && text.contains(&hostile.name()),
        "{text}"
    );
    assert!(!store.contains(&digest));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_of_another_size_is_a_lie_before_it_is_fetched() {
    let image = Image::new(23, &[200_000]);
    let digest = image.layers[0].digest.clone();
    for length in [199_999, 200_001, 0] {
        let content = Content::of(&image).blob(&digest, &bytes(23_000, length));
        let problem = fails(content, |_, _| false).await;
        assert!(matches!(problem, RegistryError::Lie { .. }), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_with_another_digest_is_a_lie() {
    let image = Image::index(24, &[10]);
    let other = Image::new(25, &[10]);
    // The tag's HEAD names one document, and another one comes.
    let top = image.target.to_string();
    let content = Content::of(&image).document(&top, media::MANIFEST, &other.document());
    let problem = fails(content, |_, _| false).await;
    assert!(matches!(problem, RegistryError::Lie { .. }), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_end_is_cut_at_its_bound() {
    let image = Image::new(26, &[200_000]);
    let digest = image.layers[0].digest.clone();
    for is_document in [true, false] {
        let sent = Arc::new(AtomicU64::new(0));
        let counter = sent.clone();
        let digest = digest.clone();
        let problem = fails(Content::of(&image), move |request, out| {
            let document = request.method == "GET" && request.path.contains("/manifests/");
            let hit = if is_document {
                document
            } else {
                request.is_blob(&digest)
            };
            if hit {
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
                counter.fetch_add(flood(out, head), Ordering::Relaxed);
            }
            hit
        })
        .await;
        let named = matches!(
            problem,
            RegistryError::TooLarge { .. } | RegistryError::Lie { .. }
        );
        assert!(named, "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_without_end_are_refused() {
    let image = Image::new(27, &[10]);
    let problem = fails(Content::of(&image), |_, out| {
        flood(out, "HTTP/1.1 200 OK\r\nX: ");
        true
    })
    .await;
    assert!(
        matches!(problem, RegistryError::Unreachable { .. }),
        "{problem}"
    );
}

/// A client that gives up soon who is slow.
fn impatient(name: &str) -> Client {
    let options = Options {
        idle: Duration::from_secs(1),
        slowest: 10_000,
        ..options()
    };
    Client::new(hosts(&plain_hosts(&[name])), options).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_drips_a_byte_now_and_then_is_given_up() {
    let image = Image::new(28, &[200_000]);
    let digest = image.layers[0].digest.clone();
    let hostile = Hostile::start(Content::of(&image), move |request, out| {
        if !request.is_blob(&digest) {
            return false;
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n";
        let mut alive = out.write_all(head.as_bytes()).is_ok();
        while alive {
            alive = out.write_all(b"x").is_ok();
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    });
    let (_folder, store) = empty();
    let client = impatient(&hostile.name());
    let reference = format!("{}/app:v1", hostile.name());
    let problem = pull(&client, &store, &reference).await.unwrap_err();
    assert!(matches!(problem, RegistryError::Slow { .. }), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_nothing_is_given_up() {
    let image = Image::new(29, &[10]);
    let hostile = Hostile::start(Content::of(&image), |_, out| {
        // Until the client hangs up.
        let _ = std::io::Read::read(out, &mut [0]);
        true
    });
    let (_folder, store) = empty();
    let client = impatient(&hostile.name());
    let reference = format!("{}/app:v1", hostile.name());
    let problem = pull(&client, &store, &reference).await.unwrap_err();
    assert!(matches!(problem, RegistryError::Slow { .. }), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_has_a_deadline() {
    let image = Image::new(30, &[10]);
    let hostile = Hostile::start(Content::of(&image), |_, out| {
        let _ = std::io::Read::read(out, &mut [0]);
        true
    });
    let (_folder, store) = empty();
    let client = plain(&[&hostile.name()]);
    let request = PullRequest {
        deadline: Duration::from_millis(300),
        ..request(&format!("{}/app:v1", hostile.name()))
    };
    let problem = client
        .pull(&store, &request, watch::Sender::default())
        .await
        .unwrap_err();
    assert!(
        matches!(problem, RegistryError::Deadline { .. }),
        "{problem}"
    );
    assert!(problem.to_string().contains("/app:v1"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_owners_stalled_pulls_delay_no_other_owner() {
    let image = Image::new(31, &[1000; 20]);
    let stalled = Hostile::start(Content::of(&image), |request, out| {
        let stalls = request.path.contains("/blobs/");
        if stalls {
            let _ = std::io::Read::read(out, &mut [0]);
        }
        stalls
    });
    let honest = Hostile::honest(Content::of(&image));
    let options = Options {
        at_once: 8,
        ..options()
    };
    let names = plain_hosts(&[&stalled.name(), &honest.name()]);
    let client = Arc::new(Client::new(hosts(&names), options).unwrap());
    let (_folder, store) = empty();
    let greedy = tokio::spawn({
        let (client, store) = (client.clone(), store.clone());
        let mut request = request(&format!("{}/app:v1", stalled.name()));
        request.owner = "mallory".to_owned();
        async move {
            client
                .pull(&store, &request, watch::Sender::default())
                .await
                .map(drop)
        }
    });
    let waiting = async {
        while stalled.count("/blobs/") < 6 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap();
    pull(&client, &store, &format!("{}/app:v1", honest.name()))
        .await
        .unwrap();
    image.assert_whole_in(&store);
    assert!(!greedy.is_finished());
    greedy.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_says_yes_to_everything_opens_no_bytes_of_another_tenant() {
    let image = Image::new(32, &[500_000]);
    let secret = image.layers[0].clone();
    let honest = Hostile::honest(Content::of(&image));
    let client = plain(&[&honest.name()]);
    let (_folder, store) = empty();
    pull(&client, &store, &format!("{}/app:v1", honest.name()))
        .await
        .unwrap();

    // Mallory knows the digest and the size, and has a registry that confirms whatever is asked.
    let mut mallorys = Image::new(33, &[10]);
    let config = mallorys.put(media::CONFIG, br#"{"os":"linux","architecture":"amd64"}"#);
    let text = manifest(&config, std::slice::from_ref(&secret));
    let bytes = mallorys.blob(&config.digest).unwrap();
    let content = Content::default()
        .document("v1", media::MANIFEST, text.as_bytes())
        .document(
            &Digest::of(text.as_bytes()).to_string(),
            media::MANIFEST,
            text.as_bytes(),
        )
        .blob(&config.digest, &bytes)
        .blob(&secret.digest, &vec![0; 500_000]);
    let hostile = Hostile::honest(content);
    let client = plain(&[&hostile.name()]);
    let mut request = request(&format!("{}/app:v1", hostile.name()));
    request.owner = "mallory".to_owned();
    let problem = client
        .pull(&store, &request, watch::Sender::default())
        .await
        .unwrap_err();
    assert!(matches!(problem, RegistryError::Lie { .. }), "{problem}");
    assert_eq!(
        hostile.count(&format!("HEAD /v2/app/blobs/{}", secret.digest)),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_ranges_gives_the_whole_anew() {
    let image = Image::new(34, &[3_000_000]);
    let digest = image.layers[0].digest.clone();
    let whole = image.blob(&digest).unwrap();
    let asked = AtomicUsize::new(0);
    let hostile = Hostile::start(Content::of(&image), move |request, out| {
        if !request.is_blob(&digest) {
            return false;
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", whole.len());
        let _ = out.write_all(head.as_bytes());
        let first = asked.fetch_add(1, Ordering::Relaxed) == 0;
        let _ = out.write_all(if first { &whole[..1_000_000] } else { &whole });
        true
    });
    let client = plain(&[&hostile.name()]);
    let (_folder, store) = empty();
    pull(&client, &store, &format!("{}/app:v1", hostile.name()))
        .await
        .unwrap();
    image.assert_whole_in(&store);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_from_another_place_is_refused() {
    let image = Image::new(35, &[3_000_000]);
    let digest = image.layers[0].digest.clone();
    let whole = image.blob(&digest).unwrap();
    let problem = fails(Content::of(&image), move |request, out| {
        if !request.is_blob(&digest) {
            return false;
        }
        if request.header("range").is_none() {
            let _ = out.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n");
            let _ = out.write_all(&whole[..1_000_000]);
        } else {
            let headers = [("Content-Range", "bytes 0-2999999/3000000")];
            reply(out, request, "206 Partial Content", &headers, &whole);
        }
        true
    })
    .await;
    assert!(
        matches!(problem, RegistryError::Malformed { .. }),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_busy_is_asked_again_when_it_says_so_and_given_up_when_that_is_too_long() {
    let image = Image::new(36, &[10]);
    let asked = AtomicUsize::new(0);
    let hostile = Hostile::start(Content::of(&image), move |request, out| {
        let busy = asked.fetch_add(1, Ordering::Relaxed) < 2;
        if busy {
            reply(
                out,
                request,
                "429 Too Many Requests",
                &[("Retry-After", "1")],
                b"",
            );
        }
        busy
    });
    let client = plain(&[&hostile.name()]);
    let (_folder, store) = empty();
    let since = std::time::Instant::now();
    pull(&client, &store, &format!("{}/app:v1", hostile.name()))
        .await
        .unwrap();
    assert!(since.elapsed() >= Duration::from_secs(2));

    let problem = fails(Content::of(&image), |request, out| {
        reply(
            out,
            request,
            "503 Service Unavailable",
            &[("Retry-After", "86400")],
            b"",
        );
        true
    })
    .await;
    assert!(problem.to_string().contains("answered 503"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_1_is_refused_by_name() {
    let image = Image::new(37, &[10]);
    let signed = "application/vnd.docker.distribution.manifest.v1+prettyjws";
    for media_type in [signed, "application/json"] {
        let text = br#"{"schemaVersion": 1, "name": "app", "tag": "v1", "fsLayers": []}"#;
        let digest = Digest::of(text).to_string();
        let content = Content::of(&image)
            .document("v1", media_type, text)
            .document(&digest, media_type, text);
        let problem = fails(content, |_, _| false).await;
        assert!(
            matches!(problem, RegistryError::SchemaOne { .. }),
            "{problem}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_layers_are_refused_by_name_and_never_fetched() {
    let mut image = Image::new(38, &[10]);
    let config = image.put(media::CONFIG, br#"{"os":"linux","architecture":"amd64"}"#);
    let mut foreign = image.layers[0].clone();
    foreign.urls = vec!["http://169.254.169.254/latest/meta-data".to_owned()];
    let text = manifest(&config, std::slice::from_ref(&foreign));
    let digest = Digest::of(text.as_bytes()).to_string();
    let content = Content::of(&image)
        .document("v1", media::MANIFEST, text.as_bytes())
        .document(&digest, media::MANIFEST, text.as_bytes());
    let problem = fails(content, |_, _| false).await;
    let named =
        matches!(&problem, RegistryError::ForeignLayer { digest } if *digest == foreign.digest);
    assert!(named, "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_past_its_bound_is_refused() {
    let image = Image::new(39, &[10]);
    let mut text = image.document();
    text.resize(5 << 20, b' ');
    let digest = Digest::of(&text).to_string();
    let content = Content::of(&image)
        .document("v1", media::MANIFEST, &text)
        .document(&digest, media::MANIFEST, &text);
    let problem = fails(content, |_, _| false).await;
    assert!(
        matches!(problem, RegistryError::TooLarge { .. }),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_past_the_nodes_bound_is_refused_before_its_layers() {
    let image = Image::new(40, &[2_000_000]);
    let honest = Hostile::honest(Content::of(&image));
    let options = Options {
        image_bytes: 1_000_000,
        ..options()
    };
    let client = Client::new(hosts(&plain_hosts(&[&honest.name()])), options).unwrap();
    let (_folder, store) = empty();
    let problem = pull(&client, &store, &format!("{}/app:v1", honest.name()))
        .await
        .unwrap_err();
    let named = matches!(problem, RegistryError::Image(ImageError::TooMuch { .. }));
    assert!(named, "{problem}");
    assert_eq!(honest.count("/blobs/"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn referrers_come_by_the_api_or_by_the_tag_that_stands_for_it() {
    let image = Image::index(41, &[10]);
    let subject = Digest::of(b"subject");
    let index = image.document();
    let tag = format!("sha256-{}", subject.hex());
    let by_tag = Hostile::honest(Content::default().document(&tag, media::INDEX, &index));
    let by_api = Hostile::start(Content::default(), move |request, out| {
        let hit = request.path.contains("/referrers/sha256:");
        if hit {
            let headers = [("Content-Type", media::INDEX)];
            reply(out, request, "200 OK", &headers, &index);
        }
        hit
    });
    let neither = Hostile::honest(Content::default());
    for (registry, expected) in [(by_tag, 2), (by_api, 2), (neither, 0)] {
        let client = plain(&[&registry.name()]);
        let reference = format!("{}/app:v1", registry.name()).parse().unwrap();
        let found = client.referrers(&reference, &subject, None).await.unwrap();
        assert_eq!(found.len(), expected);
    }
}
