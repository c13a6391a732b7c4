// SPDX-License-Identifier: Apache-2.0
//! TLS with a private CA, with certificates of clients, and without TLS: each only where it is
//! configured.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use image::registry::{Client, RegistryError};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::images::Image;
use super::peer::{Peer, Setup};
use super::{empty, hosts, options, plain, pull, push};

/// A CA, a server's certificate for the loopback, and a client's, as files.
struct Pki {
    folder: tempfile::TempDir,
}

impl Pki {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), ca.pem()).unwrap();
        let issuer = Issuer::from_params(&params, &key);
        for (name, purpose) in [
            ("server", ExtendedKeyUsagePurpose::ServerAuth),
            ("client", ExtendedKeyUsagePurpose::ClientAuth),
        ] {
            let key = KeyPair::generate().unwrap();
            let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
            let mut params = CertificateParams::new(names).unwrap();
            params.extended_key_usages = vec![purpose];
            let certificate = params.signed_by(&key, &issuer).unwrap();
            let at = |end: &str| folder.path().join(format!("{name}.{end}"));
            std::fs::write(at("pem"), certificate.pem()).unwrap();
            std::fs::write(at("key"), key.serialize_pem()).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn setup(&self, asks_clients: bool) -> Setup {
        let mut tls = String::new();
        let (certificate, key) = (self.path("server.pem"), self.path("server.key"));
        writeln!(tls, "    certificate: {}", certificate.display()).unwrap();
        writeln!(tls, "    key: {}", key.display()).unwrap();
        if asks_clients {
            writeln!(
                tls,
                "    clientcas:\n      - {}",
                self.path("ca.pem").display()
            )
            .unwrap();
        }
        Setup {
            tls,
            ..Setup::default()
        }
    }
}

fn client(name: &str, settings: &[(&str, &Path)]) -> Client {
    let mut text = format!("[host.\"{name}\"]\nsystem_roots = false\n");
    for (key, path) in settings {
        let value = format!("\"{}\"", path.display());
        let value = if *key == "ca" {
            format!("[{value}]")
        } else {
            value
        };
        writeln!(text, "{key} = {value}").unwrap();
    }
    Client::new(hosts(&text), options()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_ca_is_trusted_where_it_is_configured_and_nowhere_else() {
    let pki = Pki::new();
    let Some(peer) = Peer::start(&pki.setup(false)) else {
        return;
    };
    let image = Image::new(81, &[1_500_000]);
    let reference = format!("{}/app:v1", peer.name());
    let trusting = client(&peer.name(), &[("ca", &pki.path("ca.pem"))]);
    push(&trusting, &image, &reference).await.unwrap();
    let (_folder, store) = empty();
    pull(&trusting, &store, &reference).await.unwrap();
    image.assert_whole_in(&store);

    let stranger = Client::new(hosts(""), options()).unwrap();
    let problem = pull(&stranger, &store, &reference).await.unwrap_err();
    assert!(
        matches!(problem, RegistryError::Untrusted { .. }),
        "{problem}"
    );
    assert!(
        problem
            .to_string()
            .contains(&format!("[host.\"{}\"]", peer.name())),
        "{problem}"
    );
    let other = Pki::new();
    let wrong = client(&peer.name(), &[("ca", &other.path("ca.pem"))]);
    let problem = pull(&wrong, &store, &reference).await.unwrap_err();
    assert!(
        matches!(problem, RegistryError::Untrusted { .. }),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_the_client_is_shown_where_one_is_configured() {
    let pki = Pki::new();
    let Some(peer) = Peer::start(&pki.setup(true)) else {
        return;
    };
    let image = Image::new(82, &[1000]);
    let reference = format!("{}/app:v1", peer.name());
    let (ca, certificate, key) = (
        pki.path("ca.pem"),
        pki.path("client.pem"),
        pki.path("client.key"),
    );
    let known = [
        ("ca", &*ca),
        ("client_certificate", &*certificate),
        ("client_key", &*key),
    ];
    push(&client(&peer.name(), &known), &image, &reference)
        .await
        .unwrap();
    let (_folder, store) = empty();
    let unknown = client(&peer.name(), &[("ca", &ca)]);
    let problem = pull(&unknown, &store, &reference).await.unwrap_err();
    assert!(
        matches!(problem, RegistryError::Untrusted { .. }),
        "{problem}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_is_spoken_only_where_it_is_configured() {
    let Some(peer) = Peer::plain() else { return };
    let image = Image::new(83, &[10]);
    let reference = format!("{}/app:v1", peer.name());
    push(&plain(&[&peer.name()]), &image, &reference)
        .await
        .unwrap();
    let (_folder, store) = empty();
    let strict = Client::new(hosts(""), options()).unwrap();
    let problem = pull(&strict, &store, &reference).await.unwrap_err();
    let tls = matches!(
        problem,
        RegistryError::Untrusted { .. } | RegistryError::Unreachable { .. }
    );
    assert!(tls, "{problem}");
}

#[test]
fn a_file_that_is_no_certificate_or_key_is_named_at_the_start() {
    let pki = Pki::new();
    let not = pki.path("not.pem");
    std::fs::write(&not, "hello").unwrap();
    let ca = pki.path("ca.pem");
    let other = Pki::new();
    let (certificate, key) = (pki.path("client.pem"), other.path("client.key"));
    for settings in [
        vec![("ca", &*not)],
        vec![("ca", Path::new("/nonexistent/ca.pem"))],
        vec![
            ("ca", &ca),
            ("client_certificate", &certificate),
            ("client_key", &not),
        ],
        vec![
            ("ca", &ca),
            ("client_certificate", &not),
            ("client_key", &key),
        ],
        vec![
            ("ca", &ca),
            ("client_certificate", &certificate),
            ("client_key", &key),
        ],
    ] {
        let mut text = "[host.\"a.example\"]\nsystem_roots = false\n".to_owned();
        for (key, path) in &settings {
            let value = format!("\"{}\"", path.display());
            let value = if *key == "ca" {
                format!("[{value}]")
            } else {
                value
            };
            writeln!(text, "{key} = {value}").unwrap();
        }
        let problem = Client::new(hosts(&text), options()).unwrap_err();
        assert!(matches!(problem, RegistryError::Config { .. }), "{problem}");
    }
}
