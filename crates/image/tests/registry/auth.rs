// SPDX-License-Identifier: Apache-2.0
//! Who may read and write: passwords and tokens against Debian's registry, from requests, from
//! `config.json` and from a helper; what is renewed, and what is never sent.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use image::registry::{Client, Credentials, Helpers, Options, PullRequest, RegistryError, Secret};
use image::store::Store;
use tokio::sync::watch;

use super::hostile::{Content, Hostile, reply};
use super::images::Image;
use super::peer::Peer;
use super::tokens::Tokens;
use super::{basic, empty, hosts, options, plain, plain_hosts, push_request, request};

/// A client that may show credentials to these hosts in the clear.
fn trusting(names: &[&str], options: Options) -> Client {
    let text: String = names
        .iter()
        .map(|it| plain_hosts(&[it]) + "credentials_over_plain_http = true\n")
        .collect();
    Client::new(hosts(&text), options).unwrap()
}

async fn pull_as(
    client: &Client,
    store: &Store,
    reference: &str,
    credentials: Option<Credentials>,
) -> Result<(), RegistryError> {
    let request = PullRequest {
        credentials,
        ..request(reference)
    };
    client
        .pull(store, &request, watch::Sender::default())
        .await
        .map(drop)
}

async fn push_as(
    client: &Client,
    image: &Image,
    reference: &str,
    credentials: Option<Credentials>,
) -> Result<(), RegistryError> {
    let mut request = push_request(image, reference);
    request.credentials = credentials;
    client
        .push(&image.store, &request, watch::Sender::default())
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_opens_and_another_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let Some(peer) = Peer::with_passwords(folder.path()) else {
        return;
    };
    let client = trusting(&[&peer.name()], options());
    let image = Image::new(91, &[100_000, 10]);
    let reference = format!("{}/app:v1", peer.name());
    let right = Some(basic("ada", "secret"));
    push_as(&client, &image, &reference, right.clone())
        .await
        .unwrap();
    let (_folder, store) = empty();
    pull_as(&client, &store, &reference, right).await.unwrap();
    image.assert_whole_in(&store);

    for (credentials, shown) in [
        (None, "without credentials"),
        (Some(basic("ada", "hunter2")), "as \"ada\""),
        (Some(basic("bob", "secret")), "as \"bob\""),
        (
            Some(Credentials::Identity(Secret::new("hunter2"))),
            "with an identity token",
        ),
    ] {
        let problem = pull_as(&client, &store, &reference, credentials)
            .await
            .unwrap_err();
        let text = problem.to_string();
        assert!(matches!(problem, RegistryError::Refused { .. }), "{text}");
        assert!(text.contains(shown) && !text.contains("hunter2"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_not_sent_in_the_clear_unless_that_is_allowed() {
    let seen = std::sync::Arc::new(Mutex::new(Vec::new()));
    let shared = seen.clone();
    let registry = Hostile::start(Content::default(), move |request, out| {
        shared
            .lock()
            .unwrap()
            .push(request.header("authorization").map(str::to_owned));
        let challenge = [("WWW-Authenticate", "Basic realm=\"x\"")];
        reply(out, request, "401 Unauthorized", &challenge, b"");
        true
    });
    let client = plain(&[&registry.name()]);
    let (_folder, store) = empty();
    let reference = format!("{}/app:v1", registry.name());
    let right = Some(basic("ada", "secret"));
    let problem = pull_as(&client, &store, &reference, right)
        .await
        .unwrap_err();
    assert!(
        matches!(problem, RegistryError::PlainCredentials { .. }),
        "{problem}"
    );
    assert_eq!(*seen.lock().unwrap(), [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn config_json_and_its_helper_know_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let Some(peer) = Peer::with_passwords(folder.path()) else {
        return;
    };
    let path = folder.path().join("config.json");
    let options = Options {
        docker_config: Some(path.clone()),
        helpers: Helpers {
            folders: vec![folder.path().to_owned()],
            ..Helpers::default()
        },
        ..options()
    };
    let client = trusting(&[&peer.name()], options);
    let image = Image::new(92, &[10]);
    let reference = format!("{}/app:v1", peer.name());
    let problem = push_as(&client, &image, &reference, None)
        .await
        .unwrap_err();
    assert!(
        matches!(problem, RegistryError::Refused { .. }),
        "{problem}"
    );

    let text = format!(
        r#"{{"auths": {{"http://{}": {{"auth": "YWRhOnNlY3JldA=="}}}}}}"#,
        peer.name()
    );
    std::fs::write(&path, text).unwrap();
    push_as(&client, &image, &reference, None).await.unwrap();

    let helper = folder.path().join("docker-credential-test");
    let script = r#"#!/bin/sh
read server
echo "{\"Username\": \"ada\", \"Secret\": \"secret\"}"
"#;
    testkit::program(&helper, script).unwrap();
    std::fs::write(&path, r#"{"credsStore": "test"}"#).unwrap();
    let (_folder, store) = empty();
    pull_as(&client, &store, &reference, None).await.unwrap();
    image.assert_whole_in(&store);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_server_opens_what_the_credentials_may() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::start();
    let Some(peer) = Peer::start(&tokens.setup(folder.path())) else {
        return;
    };
    let client = trusting(&[&peer.name(), &tokens.name()], options());
    let image = Image::new(93, &[1000; 30]);
    let ada = Some(basic("ada", "secret"));
    let reference = format!("{}/public/app:v1", peer.name());
    push_as(&client, &image, &reference, ada.clone())
        .await
        .unwrap();
    let private = format!("{}/private/app:v1", peer.name());
    push_as(&client, &image, &private, ada.clone())
        .await
        .unwrap();
    // One token for all requests of a repository, however many there are at once.
    assert_eq!(tokens.given.load(Ordering::Relaxed), 2);

    let (_folder, store) = empty();
    pull_as(&client, &store, &reference, None).await.unwrap();
    pull_as(&client, &store, &private, ada).await.unwrap();
    image.assert_whole_in(&store);
    assert_eq!(tokens.asked("scope=repository%3Aprivate%2Fapp%3Apull"), 2);

    let problem = pull_as(&client, &store, &private, None).await.unwrap_err();
    assert!(
        matches!(problem, RegistryError::Refused { .. }),
        "{problem}"
    );
    let problem = push_as(&client, &image, &reference, None)
        .await
        .unwrap_err();
    assert!(
        matches!(problem, RegistryError::Refused { .. }),
        "{problem}"
    );
    let wrong = Some(basic("ada", "hunter2"));
    let problem = pull_as(&client, &store, &private, wrong)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        problem.contains("gave no token") && !problem.contains("hunter2"),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_is_mounted_with_a_token_for_both_repositories() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::start();
    let Some(peer) = Peer::start(&tokens.setup(folder.path())) else {
        return;
    };
    let client = trusting(&[&peer.name(), &tokens.name()], options());
    let image = Image::new(94, &[1000, 2000]);
    let ada = Some(basic("ada", "secret"));
    push_as(
        &client,
        &image,
        &format!("{}/a:v1", peer.name()),
        ada.clone(),
    )
    .await
    .unwrap();
    let mut request = push_request(&image, &format!("{}/b:v1", peer.name()));
    request.credentials = ada;
    request.mount_from = vec!["a".to_owned()];
    let pushed = client
        .push(&image.store, &request, watch::Sender::default())
        .await
        .unwrap();
    assert_eq!((pushed.mounted, pushed.sent), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_is_renewed_once_and_no_more() {
    let image = Image::new(95, &[1000]);
    let given = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for accepts in [true, false] {
        let counter = given.clone();
        given.store(0, Ordering::Relaxed);
        let name = std::sync::Arc::new(Mutex::new(String::new()));
        let realm = name.clone();
        let registry = Hostile::start(Content::of(&image), move |request, out| {
            if request.path.starts_with("/token") {
                let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
                let body = format!("{{\"access_token\": \"t{number}\"}}");
                reply(out, request, "200 OK", &[], body.as_bytes());
                return true;
            }
            // The first token is no good for blobs any more.
            let shown = request.header("authorization").unwrap_or_default();
            let enough = if request.path.contains("/blobs/") {
                "Bearer t2"
            } else {
                "Bearer t1"
            };
            if shown == enough || shown == "Bearer t2" && accepts {
                return false;
            }
            let realm = format!("Bearer realm=\"http://{}/token\"", realm.lock().unwrap());
            reply(
                out,
                request,
                "401 Unauthorized",
                &[("WWW-Authenticate", &realm)],
                b"",
            );
            true
        });
        *name.lock().unwrap() = registry.name();
        let client = plain(&[&registry.name()]);
        let (_folder, store) = empty();
        let reference = format!("{}/app:v1", registry.name());
        pull_as(&client, &store, &reference, None).await.unwrap();
        assert_eq!(given.load(Ordering::Relaxed), 2);
        if !accepts {
            // Now every manifest is refused with every token but the first.
            let problem = pull_as(&client, &store, &reference, None)
                .await
                .unwrap_err();
            assert!(
                matches!(problem, RegistryError::Refused { .. }),
                "{problem}"
            );
            assert_eq!(given.load(Ordering::Relaxed), 3);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strange_token_or_challenge_is_an_error_and_no_panic() {
    let image = Image::new(96, &[10]);
    for (token, problem) in [
        (r#"{"token": "a\nb"}"#, "no header can have"),
        (r#"{"token": ""}"#, "no token"),
        ("<html>", "not JSON"),
    ] {
        let name = std::sync::Arc::new(Mutex::new(String::new()));
        let realm = name.clone();
        let registry = Hostile::start(Content::of(&image), move |request, out| {
            if request.path.starts_with("/token") {
                reply(out, request, "200 OK", &[], token.as_bytes());
            } else {
                let realm = format!("Bearer realm=\"http://{}/token\"", realm.lock().unwrap());
                reply(
                    out,
                    request,
                    "401 Unauthorized",
                    &[("WWW-Authenticate", &realm)],
                    b"",
                );
            }
            true
        });
        *name.lock().unwrap() = registry.name();
        let client = plain(&[&registry.name()]);
        let (_folder, store) = empty();
        let reference = format!("{}/app:v1", registry.name());
        let found = pull_as(&client, &store, &reference, None)
            .await
            .unwrap_err();
        assert!(found.to_string().contains(problem), "{found}");
    }
    let registry = Hostile::start(Content::of(&image), |request, out| {
        let challenge = [("WWW-Authenticate", "Bearer realm=\"unfinished")];
        reply(out, request, "401 Unauthorized", &challenge, b"");
        true
    });
    let (_folder, store) = empty();
    let client = plain(&[&registry.name()]);
    let reference = format!("{}/app:v1", registry.name());
    let found = pull_as(&client, &store, &reference, None)
        .await
        .unwrap_err();
    assert!(matches!(found, RegistryError::Malformed { .. }), "{found}");
}
