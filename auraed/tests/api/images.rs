// SPDX-License-Identifier: Apache-2.0
//! Images on a real node, without a registry: archives in and out, tenants beside each other,
//! quotas, hostile layers. Pulls and pushes are `crates/image`'s to test, with real registries.

use api::image::v0::images_client::ImagesClient;
use api::image::v0::{self as wire, import_request::Of};
use api::status::{Reason, from_status};
use api::tenant::v0 as tenants;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tonic::Status;
use tonic::transport::Channel;

use crate::caller::Person;
use crate::node::TestNode;

/// A tar archive of these files.
pub(crate) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        // As it is: what `set_path` refuses is what a hostile layer has.
        let name = path.as_bytes();
        let field = header.as_gnu_mut().unwrap().name.get_mut(..name.len());
        field.unwrap().copy_from_slice(name);
        header.set_cksum();
        builder.append(&header, *data).unwrap();
    }
    builder.into_inner().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

/// An OCI layout of one image with these layers, as tar.
pub(crate) fn archive(name: &str, layers: &[Vec<u8>]) -> Vec<u8> {
    let diff_ids: Vec<_> = layers.iter().map(|layer| digest(layer)).collect();
    claiming(name, layers, &diff_ids)
}

/// The same, whose configuration says of the layers what it likes.
fn claiming(name: &str, layers: &[Vec<u8>], diff_ids: &[String]) -> Vec<u8> {
    layout(&[(name, Packed::new(layers, diff_ids))])
}

/// An image in the bytes that an archive has of it.
pub(crate) struct Packed {
    pub(crate) manifest: Vec<u8>,
    /// Its layers and its configuration.
    pub(crate) others: Vec<Vec<u8>>,
}

impl Packed {
    pub(crate) fn new(layers: &[Vec<u8>], diff_ids: &[String]) -> Self {
        let config = json!({
            "os": "linux",
            "architecture": "amd64",
            "config": { "Entrypoint": ["/app"], "Env": ["A=1"], "WorkingDir": "/srv" },
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        let config = config.to_string().into_bytes();
        let layer = |bytes: &Vec<u8>| entry("layer.v1.tar", bytes);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": entry("config.v1+json", &config),
            "layers": layers.iter().map(layer).collect::<Vec<_>>(),
        });
        Self {
            manifest: manifest.to_string().into_bytes(),
            others: [layers, &[config]].concat(),
        }
    }
}

/// What names these bytes in an index or a manifest.
fn entry(media: &str, bytes: &[u8]) -> Value {
    let media = format!("application/vnd.oci.image.{media}");
    json!({ "mediaType": media, "digest": digest(bytes), "size": bytes.len() })
}

/// An OCI layout of these images, as tar. An empty name is none.
fn layout(images: &[(&str, Packed)]) -> Vec<u8> {
    let named = images.iter().map(|(name, image)| {
        let mut entry = entry("manifest.v1+json", &image.manifest);
        let notes = json!({ "org.opencontainers.image.ref.name": name });
        let named = entry.as_object_mut().filter(|_| !name.is_empty());
        named.map(|entry| entry.insert("annotations".to_owned(), notes));
        entry
    });
    let index = json!({ "schemaVersion": 2, "manifests": named.collect::<Vec<_>>() });
    let version = br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec();
    let mut files = vec![
        ("oci-layout".to_owned(), version),
        ("index.json".to_owned(), index.to_string().into_bytes()),
    ];
    for (_, image) in images {
        for blob in image.others.iter().chain([&image.manifest]) {
            files.push((format!("blobs/sha256/{}", hex(blob)), blob.clone()));
        }
    }
    let files: Vec<_> = files
        .iter()
        .map(|(path, data)| (path.as_str(), data.as_slice()))
        .collect();
    tar(&files)
}

fn images(person: &Person) -> ImagesClient<Channel> {
    ImagesClient::new(person.node.channel())
}

/// Imports an archive, in pieces.
pub(crate) async fn import(person: &Person, archive: &[u8]) -> Result<Vec<wire::Image>, Status> {
    import_as(person, "", archive).await
}

/// The same, with a name; an empty one is none.
async fn import_as(
    person: &Person,
    name: &str,
    archive: &[u8],
) -> Result<Vec<wire::Image>, Status> {
    let begin = Of::Begin(wire::ImportBegin {
        reference: name.to_owned(),
        ..Default::default()
    });
    let pieces = archive
        .chunks(100_000)
        .map(|piece| Of::Data(piece.to_vec()));
    let messages: Vec<_> = std::iter::once(begin)
        .chain(pieces)
        .map(|of| wire::ImportRequest { of: Some(of) })
        .collect();
    let answer = images(person).import(tokio_stream::iter(messages)).await?;
    Ok(answer.into_inner().images)
}

fn get(reference: &str) -> wire::GetRequest {
    wire::GetRequest {
        reference: reference.to_owned(),
        ..Default::default()
    }
}

async fn export(person: &Person, reference: &str) -> Vec<u8> {
    let request = wire::ExportRequest {
        reference: reference.to_owned(),
        ..Default::default()
    };
    let mut pieces = images(person).export(request).await.unwrap().into_inner();
    let mut archive = Vec::new();
    while let Some(piece) = pieces.message().await.unwrap() {
        archive.extend(piece.data);
    }
    archive
}

async fn list(person: &Person) -> Vec<String> {
    let answer = images(person)
        .list(wire::ListRequest::default())
        .await
        .unwrap();
    answer
        .into_inner()
        .images
        .into_iter()
        .map(|image| image.reference)
        .collect()
}

fn remove(reference: &str) -> wire::RemoveRequest {
    wire::RemoveRequest {
        reference: reference.to_owned(),
        ..Default::default()
    }
}

fn reason(status: &Status) -> Option<Reason> {
    from_status(status).reason
}

const APP: &str = "registry.test/demo/app:v1";

fn layers() -> Vec<Vec<u8>> {
    vec![
        tar(&[("app", b"#!/bin/sh\n")]),
        tar(&[("etc/name", b"demo\n")]),
    ]
}

#[tokio::test]
async fn a_name_is_that_of_the_only_image_or_of_the_one_without() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let packed = |text: &str| {
        let layer = tar(&[("etc/name", text.as_bytes())]);
        Packed::new(std::slice::from_ref(&layer), &[digest(&layer)])
    };
    let names = |images: Vec<wire::Image>| -> Vec<String> {
        images.into_iter().map(|image| image.reference).collect()
    };
    const MINE: &str = "registry.test/mine:1";
    let only = import_as(&ann, MINE, &archive(APP, &layers())).await;
    assert_eq!(names(only.unwrap()), [MINE]);
    let one_without = layout(&[(APP, packed("a")), ("", packed("b"))]);
    let both = import_as(&ann, MINE, &one_without).await;
    assert_eq!(names(both.unwrap()), [APP, MINE]);
    // A name that no image could have, and images that a name is missing for.
    let named = layout(&[(APP, packed("a")), ("registry.test/b:1", packed("b"))]);
    let nameless = layout(&[("", packed("a")), ("", packed("b"))]);
    for (name, archive, why) in [
        (MINE, &named, "2 images, each with a name of its own"),
        (MINE, &nameless, "2 images without a name"),
        ("", &one_without, "an image without a name"),
    ] {
        let refused = from_status(&import_as(&ann, name, archive).await.unwrap_err());
        assert_eq!(refused.field.as_deref(), Some("reference"), "{refused:?}");
        assert!(refused.message.contains(why), "{refused:?}");
    }
    node.stop();
}

#[tokio::test]
async fn an_imported_image_is_shown_verified_exported_and_removed() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let imported = import(&ann, &archive(APP, &layers())).await.unwrap();
    assert_eq!(imported[0].reference, APP);
    let image = images(&ann).get(get(APP)).await.unwrap().into_inner();
    assert_eq!(image.layers.len(), 2);
    let config = image.config.unwrap();
    assert_eq!(
        (config.entrypoint, config.working_dir),
        (vec!["/app".to_owned()], "/srv".into())
    );
    // By a part of its digest, too.
    let part = image
        .digest
        .trim_start_matches("sha256:")
        .get(..12)
        .unwrap();
    assert_eq!(
        images(&ann)
            .get(get(part))
            .await
            .unwrap()
            .into_inner()
            .reference,
        APP
    );
    let unpacked = node.state().join("images/layers");
    assert_eq!(std::fs::read_dir(&unpacked).unwrap().count(), 2);

    let verified = images(&ann)
        .verify(wire::VerifyRequest::default())
        .await
        .unwrap();
    assert_eq!(
        verified.into_inner().images[0].problems,
        Vec::<String>::new()
    );
    let exported = export(&ann, APP).await;
    images(&ann).remove(remove(APP)).await.unwrap();
    assert_eq!(list(&ann).await, Vec::<String>::new());
    assert_eq!(std::fs::read_dir(&unpacked).unwrap().count(), 0);
    // What was exported is the same image.
    let again = import(&ann, &exported).await.unwrap();
    assert_eq!(
        (again[0].reference.as_str(), &again[0].digest),
        (APP, &image.digest)
    );
}

#[tokio::test]
async fn two_tenants_share_bytes_and_each_sees_its_own() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    import(&ann, &archive(APP, &layers())).await.unwrap();
    assert_eq!(list(&eve).await, Vec::<String>::new());
    let hidden = images(&eve).get(get(APP)).await.unwrap_err();
    assert_eq!(reason(&hidden), Some(Reason::NotFound));
    // By its digest neither.
    let image = images(&ann).get(get(APP)).await.unwrap().into_inner();
    let hidden = images(&eve).get(get(&image.digest)).await.unwrap_err();
    assert_eq!(reason(&hidden), Some(Reason::NotFound));
    // Who brings the bytes has them; they stay for the other when one of both goes.
    import(&eve, &archive(APP, &layers())).await.unwrap();
    images(&eve).remove(remove(APP)).await.unwrap();
    let verified = images(&ann)
        .verify(wire::VerifyRequest::default())
        .await
        .unwrap();
    assert_eq!(
        verified.into_inner().images[0].problems,
        Vec::<String>::new()
    );
}

/// A layer is known by the digest of its tar stream, which any image can claim for any blob.
#[tokio::test]
async fn who_knows_a_layers_diff_id_does_not_get_the_layer() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    import(&ann, &archive(APP, &layers())).await.unwrap();
    let claimed = layers()
        .iter()
        .map(|layer| digest(layer))
        .collect::<Vec<_>>();
    let own = vec![tar(&[("a", b"1")]), tar(&[("b", b"2")])];
    let refused = import(&eve, &claiming(APP, &own, &claimed))
        .await
        .unwrap_err();
    assert!(refused.message().contains("digest"), "{refused}");
    assert_eq!(list(&eve).await, Vec::<String>::new());
}

/// What one tenant's transfer has brought so far is not another one's to collect.
#[tokio::test]
async fn pruning_leaves_what_others_cut_transfers_have_brought() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    let part = node.state().join("images/ingest");
    let part = part.join(format!("sha256-{}.0", "0".repeat(64)));
    std::fs::write(&part, b"of another tenant").unwrap();
    import(&eve, &archive(APP, &layers())).await.unwrap();
    let pruned = images(&eve)
        .prune(wire::PruneRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(pruned.removed, [APP]);
    assert!(pruned.freed_bytes > 0);
    assert!(part.exists());
    let unpacked = std::fs::read_dir(node.state().join("images/layers")).unwrap();
    assert_eq!(unpacked.count(), 0);
}

#[tokio::test]
async fn a_tenant_past_its_quota_of_images_is_refused_and_leaves_nothing() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    let quotas = tenants::Quotas {
        image_bytes: Some("1M".into()),
        ..Default::default()
    };
    let request = tenants::SetRequest {
        name: "evil".into(),
        quotas: Some(quotas),
    };
    administrator.node.tenant().set(request).await.unwrap();
    let large = vec![tar(&[("large", &vec![7; 2 << 20])])];
    let refused = import(&eve, &archive(APP, &large)).await.unwrap_err();
    assert_eq!(reason(&refused), Some(Reason::LimitExceeded), "{refused}");
    assert!(refused.message().contains("image_bytes"), "{refused}");
    assert_eq!(list(&eve).await, Vec::<String>::new());
    assert_eq!(
        std::fs::read_dir(node.state().join("images/layers"))
            .unwrap()
            .count(),
        0
    );
    // The other tenant is not touched.
    import(&ann, &archive(APP, &large)).await.unwrap();
}

/// Bytes that were received count although their image was refused, until they are pruned: or a
/// tenant could fill the disk, each time counted from nothing.
#[tokio::test]
async fn what_a_refused_image_has_brought_counts_until_it_is_pruned() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    let held = async || {
        let tenant = eve
            .node
            .tenant()
            .get(tenants::GetRequest::default())
            .await
            .unwrap();
        let quotas = tenant.into_inner().usage;
        let bytes = quotas.iter().find(|quota| quota.quota == "image_bytes");
        bytes.and_then(|bytes| bytes.used).unwrap_or_default()
    };
    let hostile = vec![tar(&[("large", &vec![7; 1 << 20]), ("../x", b"x")])];
    import(&eve, &archive(APP, &hostile)).await.unwrap_err();
    assert!(held().await > 1 << 20, "{}", held().await);
    images(&eve)
        .prune(wire::PruneRequest::default())
        .await
        .unwrap();
    assert_eq!(held().await, 0);
    let blobs = std::fs::read_dir(node.state().join("images/blobs/sha256")).unwrap();
    assert_eq!(blobs.count(), 0);
}

#[tokio::test]
async fn a_hostile_layer_is_refused_by_name_and_leaves_nothing() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    let outside = node.state().join("images/escaped");
    let hostile = vec![tar(&[("../../escaped", b"x")])];
    let refused = import(&eve, &archive(APP, &hostile)).await.unwrap_err();
    assert!(refused.message().contains("../../escaped"), "{refused}");
    assert!(!outside.exists());
    assert_eq!(list(&eve).await, Vec::<String>::new());
    assert_eq!(
        std::fs::read_dir(node.state().join("images/layers"))
            .unwrap()
            .count(),
        0
    );
    assert_eq!(
        std::fs::read_dir(node.state().join("images/work"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn images_are_there_after_the_daemon_was_killed() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    import(&ann, &archive(APP, &layers())).await.unwrap();
    let pin = wire::PinRequest {
        reference: APP.to_owned(),
        pinned: true,
        ..Default::default()
    };
    images(&ann).pin(pin).await.unwrap();
    node.kill_daemon();
    // On a connection of the next daemon.
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    let image = images(&ann).get(get(APP)).await.unwrap().into_inner();
    assert!(image.pinned);
    let verified = images(&ann)
        .verify(wire::VerifyRequest::default())
        .await
        .unwrap();
    assert_eq!(
        verified.into_inner().images[0].problems,
        Vec::<String>::new()
    );
    let status = ann
        .node
        .tenant()
        .get(tenants::GetRequest::default())
        .await
        .unwrap();
    let quotas = status.into_inner().usage;
    let bytes = quotas
        .iter()
        .find(|quota| quota.quota == "image_bytes")
        .unwrap();
    assert!(bytes.used.unwrap() > 0, "what is there counts");
}
