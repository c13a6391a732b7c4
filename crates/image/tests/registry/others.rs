// SPDX-License-Identifier: Apache-2.0
//! Beside Debian's skopeo at the same registry: it reads what is pushed here, and what it pushes is
//! pulled here, in Docker's and OCI's form, packed by gzip and by zstd.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;

use image::Digest;
use image::manifest::{Document, Manifest, media};
use image::registry::RegistryError;
use image::store::Store;
use serde_json::{Value, json};

use super::images::{Image, bytes, manifest};
use super::peer::{Peer, Setup};
use super::{empty, plain, pull, push};

/// Runs skopeo without asking for signatures.
fn skopeo(arguments: &[&str]) {
    let output = Command::new("skopeo")
        .arg("--insecure-policy")
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "skopeo {arguments:?}: {said}");
}

fn is_there() -> bool {
    let is_there = testkit::exec::is_there("skopeo");
    if !is_there {
        testkit::skip("there is no skopeo");
    }
    is_there
}

/// An image whose layer is what it says, packed or not, and the layer's bytes before that.
fn made(seed: u64, is_packed: bool) -> (Image, Vec<u8>) {
    let mut image = Image::new(seed, &[]);
    let plain = bytes(seed, 700_000);
    let mut pack = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    pack.write_all(&plain).unwrap();
    let layer = match is_packed {
        true => image.put(&format!("{}+gzip", media::LAYER), &pack.finish().unwrap()),
        false => image.put(media::LAYER, &plain),
    };
    let config = json!({
        "os": "linux",
        "architecture": "amd64",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [Digest::of(&plain)]},
        "history": [{"created_by": "test"}],
    });
    let config = image.put(media::CONFIG, config.to_string().as_bytes());
    let text = manifest(&config, &[layer]);
    image.target = image.put(media::MANIFEST, text.as_bytes()).digest;
    (image, plain)
}

fn manifest_of(store: &Store, digest: &Digest) -> Manifest {
    match Document::parse(&store.read_document(digest).unwrap(), None).unwrap() {
        Document::Manifest(manifest) => manifest,
        Document::Index(_) => panic!("an index"),
    }
}

fn unpacked(store: &Store, manifest: &Manifest) -> Vec<u8> {
    let layer = &manifest.layers[0];
    let file = store.read_blob(&layer.digest).unwrap();
    let mut plain = Vec::new();
    if layer.media_type.ends_with("zstd") {
        let mut unpack = zstd::stream::read::Decoder::new(file).unwrap();
        unpack.read_to_end(&mut plain).unwrap();
    } else {
        flate2::read::GzDecoder::new(file)
            .read_to_end(&mut plain)
            .unwrap();
    }
    plain
}

#[tokio::test(flavor = "multi_thread")]
async fn skopeo_reads_what_is_pushed_here_with_the_same_digest() {
    let (true, Some(peer)) = (is_there(), Peer::plain()) else {
        return;
    };
    let (image, _) = made(101, true);
    let reference = format!("{}/app:v1", peer.name());
    push(&plain(&[&peer.name()]), &image, &reference)
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let layout = folder.path().join("layout");
    skopeo(&[
        "copy",
        "--src-tls-verify=false",
        &format!("docker://{reference}"),
        &format!("oci:{}:v1", layout.display()),
    ]);
    let index: Value = read(&layout.join("index.json"));
    assert_eq!(index["manifests"][0]["digest"], image.target.to_string());
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_skopeo_pushes_is_pulled_here_in_each_form() {
    let (true, Some(peer)) = (is_there(), Peer::plain()) else {
        return;
    };
    // Another registry to write to: skopeo takes over as they are the blobs that it finds.
    let other = Peer::plain().unwrap();
    let client = plain(&[&peer.name(), &other.name()]);
    let docker_layer = format!("{}.gzip", media::DOCKER_LAYER);
    let zstd_layer = format!("{}+zstd", media::LAYER);
    for (is_packed, options, media_type, layer) in [
        (
            true,
            ["--format", "v2s2"],
            media::DOCKER_MANIFEST,
            &docker_layer,
        ),
        (
            false,
            ["--dest-compress-format", "zstd"],
            media::MANIFEST,
            &zstd_layer,
        ),
    ] {
        let (image, bytes) = made(102, is_packed);
        let first = format!("{}/app:first", peer.name());
        push(&client, &image, &first).await.unwrap();
        let (from, second) = (
            format!("docker://{first}"),
            format!("{}/app:second", other.name()),
        );
        let to = format!("docker://{second}");
        let mut arguments = vec!["copy", "--src-tls-verify=false", "--dest-tls-verify=false"];
        arguments.extend(options);
        arguments.extend([from.as_str(), to.as_str()]);
        skopeo(&arguments);
        let (_folder, store) = empty();
        let pulled = pull(&client, &store, &second).await.unwrap();
        let manifest = manifest_of(&store, &pulled.manifest.digest);
        assert_eq!(
            (&*manifest.media_type, &manifest.layers[0].media_type),
            (media_type, layer)
        );
        assert!(unpacked(&store, &manifest) == bytes, "{layer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_image_of_schema_1_is_refused_by_name() {
    let setup = Setup {
        more: "compatibility:\n  schema1:\n    enabled: true\n".to_owned(),
        ..Setup::default()
    };
    let (true, Some(peer)) = (is_there(), Peer::start(&setup)) else {
        return;
    };
    let client = plain(&[&peer.name()]);
    let (image, _) = made(103, true);
    let (first, old) = (
        format!("{}/app:v1", peer.name()),
        format!("{}/app:old", peer.name()),
    );
    push(&client, &image, &first).await.unwrap();
    skopeo(&[
        "copy",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        "--format",
        "v2s1",
        &format!("docker://{first}"),
        &format!("docker://{old}"),
    ]);
    let (_folder, store) = empty();
    let problem = pull(&client, &store, &old).await.unwrap_err();
    assert!(
        matches!(problem, RegistryError::SchemaOne { .. }),
        "{problem}"
    );
}
