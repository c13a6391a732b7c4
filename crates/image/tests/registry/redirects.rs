// SPDX-License-Identifier: Apache-2.0
//! Where registries point to: followed to hosts that are configured, without the authorization;
//! never to a private address that isn't; never without end.

use std::sync::{Arc, Mutex};

use image::registry::{Client, RegistryError, Secret};
use image::registry::{Credentials, PullRequest};
use tokio::sync::watch;

use super::hostile::{Content, Hostile, reply};
use super::images::Image;
use super::{empty, hosts, options, plain, plain_hosts, pull, request};

/// A registry that redirects what it is asked for blobs, wherever that is.
fn redirecting(image: &Image, target: &str) -> Hostile {
    let target = target.to_owned();
    Hostile::start(Content::of(image), move |request, out| {
        let blob = request.path.contains("/blobs/");
        if blob {
            let to = target.replace("PATH", &request.path);
            reply(
                out,
                request,
                "307 Temporary Redirect",
                &[("Location", &to)],
                b"",
            );
        }
        blob
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_followed_without_the_authorization() {
    let image = Image::new(51, &[100_000]);
    let seen: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let shared = seen.clone();
    let storage = Hostile::start(Content::of(&image), move |request, _| {
        let shown = request.header("authorization").is_some();
        shared.lock().unwrap().push(("storage".to_owned(), shown));
        false
    });
    let shared = seen.clone();
    let to = format!("http://{}", storage.name());
    let registry = Hostile::start(Content::of(&image), move |request, out| {
        let shown = request.header("authorization").is_some();
        if !shown {
            let challenge = [("WWW-Authenticate", "Bearer realm=\"http://127.0.0.1:1/\"")];
            reply(out, request, "401 Unauthorized", &challenge, b"");
            return true;
        }
        shared.lock().unwrap().push(("registry".to_owned(), shown));
        let blob = request.path.contains("/blobs/");
        if blob {
            let to = format!("{to}{}", request.path);
            reply(out, request, "302 Found", &[("Location", &to)], b"");
        }
        blob
    });
    let text = format!(
        "{}credentials_over_plain_http = true\n{}",
        plain_hosts(&[&registry.name()]),
        plain_hosts(&[&storage.name()])
    );
    let client = Client::new(hosts(&text), options()).unwrap();
    let (_folder, store) = empty();
    let request = PullRequest {
        credentials: Some(Credentials::Registry(Secret::new("opaque"))),
        ..request(&format!("{}/app:v1", registry.name()))
    };
    client
        .pull(&store, &request, watch::Sender::default())
        .await
        .unwrap();
    image.assert_whole_in(&store);
    let seen = seen.lock().unwrap();
    assert!(seen.contains(&("storage".to_owned(), false)));
    assert!(seen.contains(&("registry".to_owned(), true)));
    assert!(!seen.contains(&("storage".to_owned(), true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_without_end_is_refused() {
    let image = Image::new(52, &[10]);
    let registry = redirecting(&image, "PATH");
    let client = plain(&[&registry.name()]);
    let (_folder, store) = empty();
    let problem = pull(&client, &store, &format!("{}/app:v1", registry.name()))
        .await
        .unwrap_err();
    assert!(
        matches!(problem, RegistryError::Redirect { .. }),
        "{problem}"
    );
    assert!(
        problem.to_string().contains("more than 5 redirects"),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_address_is_reached_only_where_it_is_configured() {
    let image = Image::new(53, &[10]);
    for (target, problem) in [
        ("https://127.0.0.1:1/x", "private address"),
        ("https://[::1]:1/x", "private address"),
        ("https://[::ffff:127.0.0.1]:1/x", "private address"),
        (
            "https://169.254.169.254/latest/meta-data",
            "private address",
        ),
        ("https://2130706433:1/x", "private address"),
        ("https://localhost:1/x", "private address"),
        ("http://127.0.0.1:1/x", "plain HTTP"),
        ("http://8.8.8.8/x", "plain HTTP"),
        ("https://u:p@8.8.8.8/x", "password"),
        ("file:///etc/passwd", "only http and https"),
        ("gopher://8.8.8.8/", "only http and https"),
        ("https://", "not a URL"),
    ] {
        let registry = redirecting(&image, target);
        let client = plain(&[&registry.name()]);
        let (_folder, store) = empty();
        let reference = format!("{}/app:v1", registry.name());
        let found = pull(&client, &store, &reference).await.unwrap_err();
        assert!(
            matches!(found, RegistryError::Redirect { .. }),
            "{target}: {found}"
        );
        assert!(found.to_string().contains(problem), "{target}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_public_only_a_reference_names_no_private_address_either() {
    let client = Client::new(hosts("public_only = true"), options()).unwrap();
    let (_folder, store) = empty();
    for name in ["127.0.0.1:1", "localhost:1", "169.254.169.254", "[::1]:1"] {
        let problem = pull(&client, &store, &format!("{name}/app:v1"))
            .await
            .unwrap_err();
        assert!(
            matches!(problem, RegistryError::Redirect { .. }),
            "{problem}"
        );
        assert!(problem.to_string().contains("private address"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_to_private_opens_them_for_one_registry() {
    let image = Image::new(54, &[10]);
    let closed = super::peer::free_port();
    let registry = redirecting(&image, &format!("https://127.0.0.1:{closed}/x"));
    let text = format!(
        "{}redirects_to_private = true\n",
        plain_hosts(&[&registry.name()])
    );
    let client = Client::new(hosts(&text), options()).unwrap();
    let (_folder, store) = empty();
    let problem = pull(&client, &store, &format!("{}/app:v1", registry.name()))
        .await
        .unwrap_err();
    // It was followed: there is no one there.
    assert!(
        matches!(problem, RegistryError::Unreachable { .. }),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_server_at_a_private_address_is_not_asked() {
    let image = Image::new(55, &[10]);
    for (realm, problem) in [
        ("https://169.254.169.254/token", "private address"),
        ("http://8.8.8.8/token", "plain HTTP"),
        ("/token", "no URL"),
        ("", "no URL"),
    ] {
        let challenge = format!("Bearer realm=\"{realm}\",service=\"s\"");
        let registry = Hostile::start(Content::of(&image), move |request, out| {
            let headers = [("WWW-Authenticate", challenge.as_str())];
            reply(out, request, "401 Unauthorized", &headers, b"");
            true
        });
        let client = plain(&[&registry.name()]);
        let (_folder, store) = empty();
        let reference = format!("{}/app:v1", registry.name());
        let found = pull(&client, &store, &reference).await.unwrap_err();
        assert!(found.to_string().contains(problem), "{realm}: {found}");
    }
}
