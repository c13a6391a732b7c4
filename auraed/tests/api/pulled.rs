// SPDX-License-Identifier: Apache-2.0
//! Images that a run pulls first, from a registry that wants a name and a password: those come with
//! the request, and are nowhere afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::image::v0::{Credentials, RegistryCredentials};
use api::pod::v0 as pod;
use api::runtime::v0 as wire;
use testkit::files_with;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::images::{Packed, digest};
use crate::node::TestNode;
use crate::pods::{assert_clean, at, busybox_layer, people, pods, remove, spec};

const PASSWORD: &str = "a-word-that-is-nowhere-else";
/// What a registry is shown of it: the name and the password in base64.
const BASIC: &str = "YW5uOmEtd29yZC10aGF0LWlzLW5vd2hlcmUtZWxzZQ==";

/// What a registry has, by the last part of its paths.
type Blobs = BTreeMap<String, Vec<u8>>;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A registry with one image under every name; its address.
async fn registry() -> String {
    let layer = busybox_layer();
    let diff_ids = [digest(&layer)];
    let packed = Packed::new(&[layer], &diff_ids);
    let mut blobs: Blobs = packed
        .others
        .iter()
        .map(|blob| (digest(blob), blob.clone()))
        .collect();
    for name in ["v1".to_owned(), digest(&packed.manifest)] {
        blobs.insert(name, packed.manifest.clone());
    }
    let blobs = Arc::new(blobs);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, blobs.clone()));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, blobs: Arc<Blobs>) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(count) if count > 0 => request.extend(piece.iter().take(count)),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let wanted = format!("authorization: basic {}", BASIC.to_ascii_lowercase());
    let is_known = request.to_ascii_lowercase().contains(&wanted);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let blob = blobs.get(path.rsplit('/').next().unwrap_or_default());
    let kind = match path.contains("/manifests/") {
        true => MANIFEST,
        false => "application/octet-stream",
    };
    let (status, body) = match (is_known, blob) {
        (false, _) => ("401 Unauthorized", &[][..]),
        (true, _) if path == "/v2/" => ("200 OK", &b"{}"[..]),
        (true, None) => ("404 Not Found", &[][..]),
        (true, Some(blob)) => ("200 OK", &blob[..]),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
         docker-distribution-api-version: registry/2.0\r\n\
         www-authenticate: Basic realm=\"test\"\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).await;
    if !request.starts_with("HEAD ") {
        let _ = stream.write_all(body).await;
    }
    let _ = stream.shutdown().await;
}

fn keys(registry: &str) -> Vec<RegistryCredentials> {
    vec![RegistryCredentials {
        registry: registry.to_owned(),
        credentials: Some(Credentials {
            username: "ann".to_owned(),
            password: PASSWORD.to_owned(),
            ..Default::default()
        }),
    }]
}

fn a_pod(path: &str, image: String, keys: Vec<RegistryCredentials>) -> pod::RunRequest {
    let container = pod::Container {
        name: "app".to_owned(),
        image,
        entrypoint: ["/bin/busybox", "true"].map(str::to_owned).into(),
        ..Default::default()
    };
    pod::RunRequest {
        pod: Some(pod::Pod {
            r#ref: at(path),
            spec: Some(spec(vec![container])),
            ..Default::default()
        }),
        wait_for: pod::WaitFor::Ended.into(),
        registry_credentials: keys,
    }
}

fn a_container(image: String) -> wire::CellSpec {
    wire::CellSpec {
        container: Some(wire::Container {
            image,
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_runs_credentials_pull_its_image_and_are_kept_nowhere() {
    let registry = registry().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("registries.toml");
    let plain =
        format!("[host.\"{registry}\"]\nplain_http = true\ncredentials_over_plain_http = true\n");
    std::fs::write(&file, plain).unwrap();
    let setting = format!("images.registries={}", file.display());
    let Some(node) = TestNode::start_with(&[&setting]) else {
        return;
    };
    let (_, ann) = people(&node).await;
    let image = |name: &str| format!("{registry}/demo/{name}:v1");
    let none = a_pod("none", image("none"), Vec::new());
    pods(&ann).run(none).await.unwrap_err();
    // Those of another registry are not shown to this one.
    let other = a_pod("none", image("none"), keys("registry.test"));
    pods(&ann).run(other).await.unwrap_err();
    let ran = a_pod("web", image("pod"), keys(&registry));
    let ran = pods(&ann).run(ran).await.unwrap().into_inner();
    assert_eq!(ran.phase(), pod::Phase::Succeeded, "{ran:#?}");
    let cell = wire::RunCellRequest {
        cell: Some(wire::Cell {
            r#ref: at("cell"),
            spec: Some(a_container(image("cell"))),
            ..Default::default()
        }),
        registry_credentials: keys(&registry),
        ..Default::default()
    };
    ann.node.runtime().run_cell(cell).await.unwrap();
    let program = wire::RunExecutableRequest {
        executable: Some(wire::Executable {
            r#ref: at("own/main"),
            spec: Some(wire::ExecutableSpec {
                entrypoint: ["/bin/busybox", "true"].map(str::to_owned).into(),
                main: true,
                ..Default::default()
            }),
            ..Default::default()
        }),
        own_cell: Some(a_container(image("program"))),
        wait_for: wire::WaitFor::Exited.into(),
        registry_credentials: keys(&registry),
        ..Default::default()
    };
    let ended = ann.node.runtime().run_executable(program).await.unwrap();
    let how = ended.into_inner().exit.and_then(|exit| exit.how);
    assert_eq!(how, Some(wire::exit::How::Code(0)));
    // The images are there; the word is in no record, no audit and no log.
    assert!(!files_with(node.folder(), b"demo/program").is_empty());
    for word in [PASSWORD, BASIC] {
        assert_eq!(
            files_with(node.folder(), word.as_bytes()),
            Vec::<String>::new()
        );
    }
    remove(&ann, "web", false).await.unwrap();
    assert_clean(&node);
    node.stop();
}
