// SPDX-License-Identifier: Apache-2.0
//! Layers that are unpacked while they come, from a registry that stops where the test says.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use image::Digest;
use image::manifest::{Descriptor, media};
use image::node::{Images, Pull, Transfer};
use image::registry::{Client, Hosts, Options, Progress, PullPolicy};
use model::error::Error;
use tenants::Tenants;

use crate::bed::{Bed, PATIENCE, ann, permit, used};
use crate::hostile::{Content, Hostile, Request};
use crate::support::{Tar, gzip, is_root};

/// What the registry has, and how far it goes with the layer.
struct Served {
    layer: Vec<u8>,
    tar: Vec<u8>,
    gate: Arc<Gate>,
    registry: Hostile,
    ranges: Arc<Mutex<Vec<Option<String>>>>,
}

#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        let closed = self.0.lock().unwrap();
        let _open = self.1.wait_timeout_while(closed, PATIENCE, |open| !*open);
    }
}

fn noise(bytes: u32) -> Vec<u8> {
    let numbers = (0..bytes / 4).map(|it| it.wrapping_mul(2_654_435_761));
    let numbers = numbers.map(|it| it ^ (it >> 15));
    numbers.flat_map(u32::to_le_bytes).collect()
}

impl Served {
    /// One layer of 8 MiB; `change` makes a lie of its bytes. Half of it comes, the rest when the
    /// gate is open.
    fn new(change: impl Fn(&mut Vec<u8>)) -> Self {
        let tar = Tar::new()
            .file("first", b"1")
            .file("large", &noise(8 << 20))
            .end();
        let layer = gzip(&tar);
        let config = serde_json::json!({
            "os": "linux", "architecture": "amd64",
            "rootfs": {"type": "layers", "diff_ids": [Digest::of(&tar)]},
        });
        let config = config.to_string();
        let described = |media_type: &str, bytes: &[u8]| {
            Descriptor::new(media_type, Digest::of(bytes), bytes.len() as u64)
        };
        let packed = format!("{}+gzip", media::LAYER);
        let manifest = serde_json::json!({
            "schemaVersion": 2, "mediaType": media::MANIFEST,
            "config": described(media::CONFIG, config.as_bytes()),
            "layers": [described(&packed, &layer)],
        });
        let manifest = manifest.to_string();
        let digest = Digest::of(manifest.as_bytes()).to_string();
        let mut sent = layer.clone();
        change(&mut sent);
        let content = Content::default()
            .document("v1", media::MANIFEST, manifest.as_bytes())
            .document(&digest, media::MANIFEST, manifest.as_bytes())
            .blob(&Digest::of(config.as_bytes()), config.as_bytes())
            .blob(&Digest::of(&layer), &sent);
        let gate = Arc::new(Gate::default());
        let ranges = Arc::new(Mutex::new(Vec::new()));
        let (waits, asked, of) = (gate.clone(), ranges.clone(), Digest::of(&layer));
        let registry = Hostile::start(content, move |request: &Request, out| {
            if request.method != "GET" || !request.is_blob(&of) {
                return false;
            }
            let range = request.header("range").map(str::to_owned);
            let from = range.as_deref().and_then(|it| it.strip_prefix("bytes="));
            let from: usize = from.map_or(0, |it| it.trim_end_matches('-').parse().unwrap());
            asked.lock().unwrap().push(range);
            let head = match from {
                0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len()),
                from => format!(
                    "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{}\r\n\
                     Content-Length: {}\r\n\r\n",
                    sent.len() - 1,
                    sent.len(),
                    sent.len() - from
                ),
            };
            let half = (sent.len() / 2).max(from);
            let send = |out: &mut std::net::TcpStream, bytes: &[u8]| drop(out.write_all(bytes));
            send(out, head.as_bytes());
            send(out, &sent[from..half]);
            waits.pass();
            send(out, &sent[half..]);
            true
        });
        Self {
            layer,
            tar,
            gate,
            registry,
            ranges,
        }
    }

    fn open(&self, bed: &Bed) -> (Images, Tenants) {
        let text = format!("[host.\"{}\"]\nplain_http = true\n", self.registry.name());
        let hosts = Hosts::parse(&text, Path::new("registries.toml")).unwrap();
        let mut settings = bed.settings();
        settings.client = Client::new(hosts, Options::default()).map_err(Into::into);
        let tenants = bed.tenants();
        (Images::open(settings, &tenants).unwrap(), tenants)
    }

    fn pull(&self, bed: &Bed, images: &Images) -> Transfer<image::node::Image> {
        let _in_it = bed.runtime.enter();
        let pull = Pull {
            tenant: ann(),
            reference: format!("{}/app:v1", self.registry.name()).parse().unwrap(),
            policy: PullPolicy::Always,
            platform: Some("linux/amd64".parse().unwrap()),
            credentials: None,
        };
        images.pull(permit(), pull).unwrap()
    }

    /// Waits until the unpacker has read some of the layer.
    fn is_unpacked_meanwhile(&self, bed: &Bed, transfer: &mut Transfer<image::node::Image>) {
        let read = |progress: &Progress| progress.blobs.iter().any(|blob| blob.unpacked > 0);
        let seen = async {
            while let Ok(Some(progress)) = transfer.next(Duration::ZERO).await {
                if read(&progress) {
                    return true;
                }
            }
            false
        };
        let seen = bed
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, seen).await });
        assert!(seen.unwrap(), "nothing is unpacked while the layer comes");
    }

    fn reference(&self) -> String {
        format!("{}/app:v1", self.registry.name())
    }
}

/// How many layers have their place, and how many are in the making.
fn layers(bed: &Bed) -> (usize, usize) {
    let count = |folder: &str| bed.at_images(folder).read_dir().unwrap().count();
    (count("layers"), count("work"))
}

fn end(bed: &Bed, transfer: Transfer<image::node::Image>) -> Result<image::node::Image, Error> {
    bed.runtime.block_on(transfer.end())
}

pub(crate) fn a_layer_is_unpacked_while_it_comes() {
    if !is_root() {
        return;
    }
    let (bed, served) = (Bed::new(), Served::new(|_| ()));
    let (images, _tenants) = served.open(&bed);
    let mut transfer = served.pull(&bed, &images);
    served.is_unpacked_meanwhile(&bed, &mut transfer);
    // Half of it is there, and has no name.
    assert_eq!(layers(&bed), (0, 1));
    served.gate.open();
    let image = end(&bed, transfer).unwrap();
    assert_eq!(layers(&bed), (1, 0));
    let root = bed
        .runtime
        .block_on(images.resolve(&ann(), &served.reference(), None));
    let root = root.unwrap();
    assert_eq!(root.manifest, image.record.manifest.digest);
    let at = images.layers_dir().join(&root.layers[0]);
    assert_eq!(std::fs::read(at.join("large")).unwrap(), noise(8 << 20));
    assert_eq!(served.ranges.lock().unwrap().len(), 1);
    assert!(served.tar.len() > 8 << 20);
}

pub(crate) fn a_layer_that_is_no_blob_at_its_end_gets_no_place() {
    if !is_root() {
        return;
    }
    // The stream is the right one to its end: only the gzip header's time is another.
    let (bed, served) = (Bed::new(), Served::new(|bytes| bytes[4] ^= 1));
    let (images, _tenants) = served.open(&bed);
    served.gate.open();
    let refused = end(&bed, served.pull(&bed, &images)).unwrap_err();
    assert!(refused.message.contains("digest"), "{}", refused.message);
    assert_eq!(layers(&bed).0, 0);
}

pub(crate) fn a_pull_that_is_given_up_ends_its_unpacker_and_goes_on_later() {
    if !is_root() {
        return;
    }
    let (bed, served) = (Bed::new(), Served::new(|_| ()));
    let (images, tenants) = served.open(&bed);
    let mut transfer = served.pull(&bed, &images);
    served.is_unpacked_meanwhile(&bed, &mut transfer);
    drop(transfer);
    let begun = Instant::now();
    while layers(&bed) != (0, 0) || children() > 0 {
        assert!(begun.elapsed() < PATIENCE, "the unpacker goes on");
        std::thread::yield_now();
    }
    // What it has brought counts, also over a restart.
    let left = used(&tenants);
    assert!(left > served.layer.len() as u64 / 3, "{left}");
    drop((images, tenants));
    drop(bed.store());
    let (images, tenants) = served.open(&bed);
    let kept = used(&tenants);
    assert!(kept > served.layer.len() as u64 / 3, "{kept}");
    assert!(kept < left, "{kept}: only what is there");
    served.gate.open();
    end(&bed, served.pull(&bed, &images)).unwrap();
    let ranges = served.ranges.lock().unwrap().clone();
    assert!(
        ranges.len() == 2 && ranges[0].is_none() && ranges[1].is_some(),
        "{ranges:?}"
    );
    assert_eq!(layers(&bed), (1, 0));
    assert_eq!(bed.at_images("pending").read_dir().unwrap().count(), 0);
    let root = bed
        .runtime
        .block_on(images.resolve(&ann(), &served.reference(), None));
    let at = images.layers_dir().join(&root.unwrap().layers[0]);
    assert_eq!(std::fs::read(at.join("large")).unwrap(), noise(8 << 20));
}

/// Processes of this one that are not reaped.
fn children() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    let texts = tasks.filter_map(|task| of(task).ok());
    texts.map(|text| text.split_whitespace().count()).sum()
}
