// SPDX-License-Identifier: Apache-2.0
//! Registries that are pushed to and lie: about where uploads go, about how much they have, about
//! what they have stored.

use std::sync::{Arc, Mutex};

use image::Digest;
use image::registry::{Client, Credentials, Options, RegistryError, Secret};
use tokio::sync::watch;

use super::hostile::{Content, Hostile, Request, reply};
use super::images::Image;
use super::{hosts, options, plain, plain_hosts, push, push_request};

/// Answers as a registry that has nothing and takes everything; uploads go to this place.
fn takes(request: &Request, out: &mut std::net::TcpStream, location: &str) -> bool {
    let (status, headers): (_, &[(&str, &str)]) = match request.method.as_str() {
        "HEAD" => ("404 Not Found", &[]),
        "POST" => ("202 Accepted", &[("Location", location)]),
        "PATCH" => ("202 Accepted", &[("Location", location)]),
        _ => ("201 Created", &[]),
    };
    reply(out, request, status, headers, b"");
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_go_to_no_private_address_that_is_not_configured() {
    let image = Image::new(111, &[1000]);
    for (location, problem) in [
        ("https://169.254.169.254/upload", "private address"),
        ("http://127.0.0.1:1/upload", "plain HTTP"),
        ("https://u:p@8.8.8.8/upload", "password"),
        ("https://", "no URL"),
    ] {
        let registry = Hostile::start(Content::default(), move |request, out| {
            takes(request, out, location)
        });
        let client = plain(&[&registry.name()]);
        let reference = format!("{}/app:v1", registry.name());
        let found = push(&client, &image, &reference).await.unwrap_err();
        assert!(found.to_string().contains(problem), "{location}: {found}");
        assert_eq!(registry.count("PUT"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_elsewhere_is_sent_without_the_authorization() {
    let image = Image::new(112, &[30_000]);
    let seen: Arc<Mutex<Vec<(bool, u64)>>> = Arc::default();
    let shared = seen.clone();
    let storage = Hostile::start(Content::default(), move |request, out| {
        let shown = request.header("authorization").is_some();
        shared.lock().unwrap().push((shown, request.body));
        takes(request, out, "")
    });
    let location = format!("http://{}/upload?session=1", storage.name());
    let registry = Hostile::start(Content::default(), move |request, out| {
        if request.header("authorization").is_none() {
            let challenge = [("WWW-Authenticate", "Bearer realm=\"http://127.0.0.1:1/\"")];
            reply(out, request, "401 Unauthorized", &challenge, b"");
            return true;
        }
        takes(request, out, &location)
    });
    let text = format!(
        "{}credentials_over_plain_http = true\n{}",
        plain_hosts(&[&registry.name()]),
        plain_hosts(&[&storage.name()])
    );
    let client = Client::new(hosts(&text), options()).unwrap();
    let mut request = push_request(&image, &format!("{}/app:v1", registry.name()));
    request.credentials = Some(Credentials::Registry(Secret::new("opaque")));
    let pushed = client
        .push(&image.store, &request, watch::Sender::default())
        .await
        .unwrap();
    assert_eq!((pushed.sent, pushed.documents), (2, 1));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|(shown, _)| !shown));
    assert!(seen.iter().any(|(_, body)| *body == 30_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_claims_more_than_was_sent_is_refused() {
    let image = Image::new(113, &[300_000]);
    for range in ["0-999999", "0-0"] {
        let registry = Hostile::start(Content::default(), move |request, out| {
            if request.method != "PATCH" {
                return takes(request, out, "/v2/app/blobs/uploads/1");
            }
            let headers = [("Location", "/v2/app/blobs/uploads/1"), ("Range", range)];
            reply(out, request, "202 Accepted", &headers, b"");
            true
        });
        let options = Options {
            chunk: 100_000,
            ..options()
        };
        let client = Client::new(hosts(&plain_hosts(&[&registry.name()])), options).unwrap();
        let reference = format!("{}/app:v1", registry.name());
        let problem = push(&client, &image, &reference).await.unwrap_err();
        assert!(
            matches!(problem, RegistryError::Malformed { .. }),
            "{range}: {problem}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_stores_another_document_is_found_out() {
    let image = Image::new(114, &[10]);
    let other = Digest::of(b"other").to_string();
    let registry = Hostile::start(Content::default(), move |request, out| {
        if request.method != "PUT" || !request.path.contains("/manifests/") {
            return takes(request, out, "/v2/app/blobs/uploads/1");
        }
        let headers = [("Docker-Content-Digest", other.as_str())];
        reply(out, request, "201 Created", &headers, b"");
        true
    });
    let client = plain(&[&registry.name()]);
    let reference = format!("{}/app:v1", registry.name());
    let problem = push(&client, &image, &reference).await.unwrap_err();
    assert!(matches!(problem, RegistryError::Lie { .. }), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_layer_is_not_pushed() {
    let mut image = Image::new(115, &[10]);
    let config = image.put(image::manifest::media::CONFIG, b"{}");
    let mut foreign = image.layers[0].clone();
    foreign.urls = vec!["https://example.com/layer".to_owned()];
    let text = super::images::manifest(&config, &[foreign]);
    let media_type = image::manifest::media::MANIFEST;
    image.target = image.put(media_type, text.as_bytes()).digest;
    let registry = Hostile::start(Content::default(), |request, out| takes(request, out, "/x"));
    let client = plain(&[&registry.name()]);
    let reference = format!("{}/app:v1", registry.name());
    let problem = push(&client, &image, &reference).await.unwrap_err();
    assert!(
        matches!(problem, RegistryError::ForeignLayer { .. }),
        "{problem}"
    );
    assert_eq!(registry.count(""), 0);
}
