// SPDX-License-Identifier: Apache-2.0
//! The first administrator from another machine, as `docs/guide/identity.md` has it: the node
//! listens on a port, and both sides show certificates there.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};

use super::super::bed::{Node, node_with};

const ADMINISTRATOR: &str = "spiffe://aurae.internal/tenant/system/user/me";

/// A node that listens on a port of loopback, and its address.
fn listening() -> Option<(Node, String)> {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let node = node_with(&[format!("api.listen=[\"{address}\"]")])?;
    Some((node, format!("https://{address}")))
}

/// `aurae config set-context` in a configuration of the laptop's own.
fn set_context(node: &Node, config: &str, address: &str, changed: &[&str]) {
    let at = |name: &str| node.path(name).display().to_string();
    let (ca, certificate, key) = (at("state/pki/ca.pem"), at("me.pem"), at("me.key"));
    let usual = [
        "config",
        "set-context",
        "home",
        "--address",
        address,
        "--ca",
        &ca,
        "--certificate",
        &certificate,
        "--key",
        &key,
        "--trust-domain",
        "aurae.internal",
        "--current",
    ];
    let mut words = usual.map(str::to_owned);
    for pair in changed.chunks_exact(2) {
        let flag = words.iter().position(|word| word == pair[0]).unwrap();
        words[flag + 1] = pair[1].to_owned();
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    node.aurae_as(config, &words).ok();
}

/// The key and the certificate of an administrator who never was on the node.
fn certify(node: &Node) {
    let (key, csr) = (node.path("me.key"), node.path("me.csr"));
    let request = ["identity", "csr", "--key", key.to_str().unwrap()];
    fs::write(&csr, node.aurae_as("laptop.toml", &request).ok()).unwrap();
    node.aurae(&["identity", "user", "create", "me", "--administrator"])
        .ok();
    let issue = ["identity", "issue", "me", "--csr", csr.to_str().unwrap()];
    fs::write(node.path("me.pem"), node.aurae(&issue).ok()).unwrap();
}

/// Credentials of the same name, of a CA that the node doesn't know.
fn forge(folder: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = vec![SanType::URI(ADMINISTRATOR.try_into().unwrap())];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &ca).unwrap();
    fs::write(folder.join("forged-ca.pem"), ca.pem()).unwrap();
    fs::write(folder.join("forged.pem"), certificate.pem()).unwrap();
    fs::write(folder.join("forged.key"), key.serialize_pem()).unwrap();
}

#[test]
fn the_first_administrator_comes_from_another_machine() {
    let Some((node, address)) = listening() else {
        return;
    };
    certify(&node);
    set_context(&node, "laptop.toml", &address, &[]);
    let whoami = ["identity", "whoami"];
    let who = node.aurae_as("laptop.toml", &whoami).ok();
    assert!(who.contains(ADMINISTRATOR), "{who}");
    // Not by name alone: what it does is done, and audited as its own.
    node.aurae_as("laptop.toml", &["run", "--rm", "--", "echo", "far"])
        .ok();
    let audit = node.aurae(&["identity", "audit", "-o", "json"]).ok();
    assert!(audit.contains(ADMINISTRATOR), "{audit}");
    // A daemon that is started again listens there, too.
    node.kill_daemon();
    node.aurae(&whoami).ok();
    node.aurae_as("laptop.toml", &whoami).ok();
}

#[test]
fn neither_side_takes_a_certificate_of_another_ca() {
    let Some((node, address)) = listening() else {
        return;
    };
    certify(&node);
    forge(&node.path(""));
    let at = |name: &str| node.path(name).display().to_string();
    let (ca, certificate, key) = (at("forged-ca.pem"), at("forged.pem"), at("forged.key"));
    let refused = |changed: &[&str]| {
        set_context(&node, "laptop.toml", &address, changed);
        node.aurae_as("laptop.toml", &["identity", "whoami"])
            .fails(1)
    };
    // The node has no reason to believe this client …
    let said = refused(&["--certificate", &certificate, "--key", &key]);
    assert!(said.contains("refused the handshake"), "{said}");
    // … and the client none to believe a node of another CA, or of another domain.
    let said = refused(&["--ca", &ca]);
    assert!(said.contains("is not to be trusted"), "{said}");
    let said = refused(&["--trust-domain", "other.example"]);
    assert!(said.contains("is not to be trusted"), "{said}");
    assert!(said.contains("aurae.internal"), "{said}");
    // With everything as it was, it goes on.
    set_context(&node, "laptop.toml", &address, &[]);
    node.aurae_as("laptop.toml", &["identity", "whoami"]).ok();
}
