// SPDX-License-Identifier: Apache-2.0
//! The store against crashes, peers that lie, and processes that share its folder. Each state that
//! a crash can leave is made by hand; what kills a real process at random is in `tests/host.rs`.

use std::time::{Duration, SystemTime};

use super::*;
use crate::digest::Digest;
use crate::manifest::{Descriptor, media};
use crate::unpack::Summary;

struct Bed {
    folder: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn open(&self) -> Store {
        Store::open(self.folder.path()).unwrap()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn files(&self, path: &str) -> Vec<String> {
        let entries = self.at(path).read_dir().unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

fn put(store: &Store, bytes: &[u8]) -> Digest {
    let digest = Digest::of(bytes);
    store.put(&digest, bytes).unwrap();
    digest
}

/// An image of these layers; its manifest.
fn image(store: &Store, layers: &[&[u8]]) -> Descriptor {
    let descriptor = |media_type: &str, bytes: &[u8]| {
        Descriptor::new(media_type, put(store, bytes), bytes.len() as u64)
    };
    let ids: Vec<Digest> = layers.iter().map(|layer| Digest::of(layer)).collect();
    let config = serde_json::json!({
        "os": "linux", "architecture": "amd64",
        "rootfs": {"type": "layers", "diff_ids": ids},
    });
    let layers: Vec<Descriptor> = layers
        .iter()
        .map(|layer| descriptor(media::LAYER, layer))
        .collect();
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": media::MANIFEST, "layers": layers,
        "config": descriptor(media::CONFIG, config.to_string().as_bytes()),
    });
    descriptor(media::MANIFEST, manifest.to_string().as_bytes())
}

fn unpacked(store: &Store, diff_id: &Digest) -> Layer {
    let making = store.make_layer(diff_id).unwrap();
    std::fs::write(making.root().join("file"), "x").unwrap();
    making.commit(Summary::default()).unwrap()
}

#[test]
fn a_blob_comes_in_pieces_and_is_seen_when_it_is_whole() {
    let bed = Bed::new();
    let store = bed.open();
    let digest = Digest::of(b"hello world");
    let mut ingest = store.ingest(&digest, 11).unwrap();
    ingest.write(b"hello ").unwrap();
    assert!(!store.contains(&digest));
    ingest.write(b"world").unwrap();
    let pin = ingest.finish().unwrap();
    assert_eq!(
        (pin.digest(), store.blob_size(&digest).unwrap()),
        (&digest, 11)
    );
    assert_eq!(store.read_document(&digest).unwrap(), b"hello world");
    assert!(bed.files("ingest").is_empty());
}

#[test]
fn an_empty_blob_is_one_too() {
    let store = Bed::new();
    let store = store.open();
    let digest = Digest::of(b"");
    store.ingest(&digest, 0).unwrap().finish().unwrap();
    assert!(store.contains(&digest));
}

#[test]
fn what_was_cut_goes_on_where_it_ended_also_after_a_crash() {
    let bed = Bed::new();
    let digest = Digest::of(b"hello world");
    let store = bed.open();
    let mut ingest = store.ingest(&digest, 11).unwrap();
    ingest.write(b"hello ").unwrap();
    drop(ingest);
    assert_eq!(store.ingest(&digest, 11).unwrap().offset(), 6);
    drop(store);
    let store = bed.open();
    assert_eq!(*store.repaired(), Repair::default());
    let mut ingest = store.ingest(&digest, 11).unwrap();
    assert_eq!(ingest.offset(), 6);
    ingest.write(b"world").unwrap();
    ingest.finish().unwrap();
    assert!(store.contains(&digest));
}

#[test]
fn a_part_that_a_crash_has_spoiled_is_found_out_and_begun_again() {
    let bed = Bed::new();
    let digest = Digest::of(b"hello world");
    let store = bed.open();
    std::fs::write(
        bed.at(&format!("ingest/{}.0", digest.file_name())),
        "\0\0\0\0\0\0",
    )
    .unwrap();
    let mut ingest = store.ingest(&digest, 11).unwrap();
    assert_eq!(ingest.offset(), 6);
    ingest.write(b"world").unwrap();
    assert!(matches!(
        ingest.finish(),
        Err(ImageError::WrongDigest { .. })
    ));
    let mut ingest = store.ingest(&digest, 11).unwrap();
    assert_eq!(ingest.offset(), 0, "the lie is gone");
    ingest.write(b"hello world").unwrap();
    ingest.finish().unwrap();
    // One that is too long can't be a part at all.
    let other = Digest::of(b"x");
    std::fs::write(bed.at(&format!("ingest/{}.0", other.file_name())), "longer").unwrap();
    assert_eq!(store.ingest(&other, 1).unwrap().offset(), 0);
}

#[test]
fn a_peer_that_lies_of_size_or_content_leaves_nothing() {
    let bed = Bed::new();
    let store = bed.open();
    let digest = Digest::of(b"hello");
    let mut long = store.ingest(&digest, 5).unwrap();
    assert!(matches!(
        long.write(b"hello!"),
        Err(ImageError::WrongSize { .. })
    ));
    assert!(long.write(b"").is_err(), "it stays refused");
    drop(long);
    let mut other = store.ingest(&digest, 5).unwrap();
    other.write(b"hullo").unwrap();
    assert!(matches!(
        other.finish(),
        Err(ImageError::WrongDigest { .. })
    ));
    assert!(bed.files("ingest").is_empty());
    let mut short = store.ingest(&digest, 5).unwrap();
    short.write(b"hel").unwrap();
    assert!(matches!(short.finish(), Err(ImageError::WrongSize { .. })));
    assert_eq!(
        bed.files("ingest").len(),
        1,
        "what is missing may still come"
    );
    assert!(!store.contains(&digest));
    assert!(matches!(
        store.ingest(&digest, u64::MAX),
        Err(ImageError::TooMuch { .. })
    ));
}

#[test]
fn who_is_slow_delays_no_other_who_brings_the_same_blob() {
    let bed = Bed::new();
    let store = bed.open();
    let digest = Digest::of(b"hello");
    let mut slow = store.ingest(&digest, 5).unwrap();
    slow.write(b"he").unwrap();
    let mut fast = store.ingest(&digest, 5).unwrap();
    assert_eq!(fast.offset(), 0, "with a file of its own");
    fast.write(b"hello").unwrap();
    fast.finish().unwrap();
    assert!(store.contains(&digest));
    slow.write(b"llo").unwrap();
    slow.finish().unwrap();
    assert_eq!(store.read_document(&digest).unwrap(), b"hello");
    let others: Vec<Ingest> = (0..MAX_INGESTS_PER_DIGEST)
        .map(|_| store.ingest(&digest, 5).unwrap())
        .collect();
    assert!(matches!(
        store.ingest(&digest, 5),
        Err(ImageError::Busy { .. })
    ));
    drop(others);
    store.ingest(&digest, 5).unwrap();
}

#[test]
fn a_part_belongs_to_its_scope_and_outlives_a_restart_there() {
    let bed = Bed::new();
    let digest = Digest::of(b"hello");
    let store = bed.open();
    let mut adas = store.ingest_for("ada r.example/app", &digest, 5).unwrap();
    adas.write(b"he").unwrap();
    drop((adas, store));
    let store = bed.open();
    assert_eq!(*store.repaired(), Repair::default());
    for (scope, there) in [("bob r.example/app", 0), ("ada r.example/other", 0)] {
        assert_eq!(store.ingest_for(scope, &digest, 5).unwrap().offset(), there);
    }
    assert_eq!(store.ingest(&digest, 5).unwrap().offset(), 0);
    assert_eq!(
        store
            .ingest_for("ada r.example/app", &digest, 5)
            .unwrap()
            .offset(),
        2
    );
    // One scope's many leave the others their places.
    let many = || store.ingest_for("ada r.example/app", &digest, 5);
    let held: Vec<Ingest> = (0..MAX_INGESTS_PER_DIGEST)
        .map(|_| many().unwrap())
        .collect();
    assert!(matches!(many(), Err(ImageError::Busy { .. })));
    store.ingest_for("bob r.example/app", &digest, 5).unwrap();
    drop(held);
}

#[test]
fn a_second_process_is_told_that_the_store_is_open() {
    let bed = Bed::new();
    let store = bed.open();
    assert!(matches!(
        Store::open(bed.folder.path()),
        Err(ImageError::Busy { .. })
    ));
    let clone = store.clone();
    drop(store);
    assert!(Store::open(bed.folder.path()).is_err());
    drop(clone);
    bed.open();
}

#[test]
fn a_start_mends_every_state_that_a_crash_leaves() {
    let bed = Bed::new();
    let store = bed.open();
    let kept = image(&store, &[b"layer"]);
    store.tag("", "a", &kept).unwrap();
    let layer = unpacked(&store, &Digest::of(b"layer"));
    let making = store.make_layer(&Digest::of(b"other")).unwrap();
    std::fs::write(making.root().join("half"), "x").unwrap();
    // As a process that is killed: nothing is dropped.
    std::mem::forget(making);
    drop(layer);
    drop(store);
    // The lock is the process's; this one is still there, and holds it by what was forgotten.
    let copy = Bed::new();
    copied(bed.folder.path(), copy.folder.path());
    let bed = copy;
    let digest = Digest::of(b"part");
    std::fs::write(bed.at(&format!("ingest/{}.3", digest.file_name())), "pa").unwrap();
    std::fs::write(bed.at("ingest/what"), "").unwrap();
    std::fs::write(bed.at("blobs/sha256/half.tmp"), "").unwrap();
    std::fs::create_dir(bed.at("layers/what")).unwrap();
    std::fs::create_dir(bed.at(&format!("layers/{}", digest.file_name()))).unwrap();
    std::fs::write(bed.at("index.new"), "{").unwrap();
    let store = bed.open();
    let expected = Repair {
        unfinished: 1,
        foreign: 4,
        ..Repair::default()
    };
    assert_eq!(*store.repaired(), expected);
    assert!(bed.files("work").is_empty() && !bed.at("index.new").exists());
    assert_eq!(store.resolve("", "a").unwrap(), kept);
    assert!(store.layer(&Digest::of(b"layer")).is_some());
    assert_eq!(store.ingest(&digest, 4).unwrap().offset(), 2);
    drop(store);
    assert_eq!(*bed.open().repaired(), Repair::default());
}

fn copied(from: &Path, to: &Path) {
    for entry in from.read_dir().unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => {
                std::fs::create_dir(&to).unwrap();
                copied(&entry.path(), &to);
            }
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn parts_that_wait_for_a_day_go() {
    let bed = Bed::new();
    drop(bed.open());
    let path = bed.at(&format!("ingest/{}.0", Digest::of(b"part").file_name()));
    std::fs::write(&path, "pa").unwrap();
    let old = SystemTime::now() - Duration::from_secs(25 * 3600);
    std::fs::File::open(&path)
        .unwrap()
        .set_modified(old)
        .unwrap();
    assert_eq!(bed.open().repaired().stale, 1);
    assert!(!path.exists());
}

#[test]
fn a_layer_that_the_power_may_have_spoiled_is_unpacked_again() {
    let bed = Bed::new();
    let store = bed.open();
    let (lost, settled) = (Digest::of(b"lost"), Digest::of(b"settled"));
    unpacked(&store, &settled);
    store.settle().unwrap();
    unpacked(&store, &lost);
    let meta = bed.at(&format!("layers/{}/meta.json", lost.file_name()));
    let text = std::fs::read_to_string(&meta).unwrap();
    let boot = super::layers::boot().unwrap();
    assert!(text.contains(&boot));
    std::fs::write(&meta, text.replace(&boot, "an earlier boot")).unwrap();
    drop(store);
    let store = bed.open();
    assert_eq!(store.repaired().unsettled, 1);
    assert!(store.layer(&lost).is_none() && store.layer(&settled).is_some());
}

#[test]
fn names_are_each_owners_own_and_survive() {
    let bed = Bed::new();
    let store = bed.open();
    let (one, two) = (image(&store, &[b"1"]), image(&store, &[b"2"]));
    store.tag("anna", "nginx", &one).unwrap();
    store.tag("bert", "nginx", &two).unwrap();
    store.tag("bert", "nginx", &one).unwrap();
    store.tag("bert", "other", &two).unwrap();
    drop(store);
    let store = bed.open();
    assert_eq!(store.names().len(), 3);
    assert_eq!(store.resolve("bert", "nginx").unwrap(), one);
    assert!(matches!(
        store.resolve("carl", "nginx"),
        Err(ImageError::NotFound { .. })
    ));
    assert_eq!(store.untag("anna", "nginx").unwrap(), one);
    assert!(store.untag("anna", "nginx").is_err());
    assert!(store.resolve("bert", "nginx").is_ok());
}

#[test]
fn a_name_is_bounded_and_leads_to_something() {
    let bed = Bed::new();
    let store = bed.open();
    let nothing = Descriptor::new(media::MANIFEST, Digest::of(b"no"), 2);
    assert!(matches!(
        store.tag("", "a", &nothing),
        Err(ImageError::NotFound { .. })
    ));
    let one = image(&store, &[]);
    let long = "x".repeat(2000);
    assert!(matches!(
        store.tag("", &long, &one),
        Err(ImageError::TooMuch { .. })
    ));
    assert!(matches!(
        store.tag(&long, "a", &one),
        Err(ImageError::TooMuch { .. })
    ));
    // What a hostile index says beside the digest is not kept.
    let mut wordy = one.clone();
    wordy
        .annotations
        .insert("io.aurae.owner".to_owned(), "bert".to_owned());
    wordy
        .annotations
        .insert("long".to_owned(), "x".repeat(1 << 20));
    store.tag("anna", "a", &wordy).unwrap();
    assert_eq!(store.resolve("anna", "a").unwrap(), one);
    assert!(store.resolve("bert", "a").is_err());
    assert!(bed.at("index.json").metadata().unwrap().len() < 1000);
}

#[test]
fn one_owner_leaves_names_for_others() {
    let bed = Bed::new();
    let store = bed.open();
    let one = image(&store, &[]);
    {
        let mut names = locked(&store.inner.names);
        for number in 0..MAX_NAMES_PER_OWNER {
            names.insert_unsaved("greedy", &number.to_string(), &one);
        }
    }
    let refused = store.tag("greedy", "more", &one).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "one more name of an image beside the 2048 that greedy has is more than the 2048 of one \
         owner that are allowed"
    );
    store.tag("greedy", "7", &one).unwrap();
    store.tag("other", "a", &one).unwrap();
}

#[test]
fn owners_together_leave_names_for_administrators() {
    let bed = Bed::new();
    let store = bed.open();
    let one = image(&store, &[]);
    let fill = |owner: &str, count: usize| {
        let mut names = locked(&store.inner.names);
        for number in 0..count {
            names.insert_unsaved(owner, &number.to_string(), &one);
        }
    };
    // What administrators have takes nothing from the others.
    fill("system", 2000);
    for owner in 0..6 {
        fill(&format!("greedy{owner}"), MAX_NAMES_PER_OWNER);
    }
    fill("last", MAX_NAMES_PER_OWNER - 1);
    store.tag("last", "more", &one).unwrap();
    let refused = store.tag("other", "a", &one).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "one more name of an image beside the 14336 that owners have is more than the 14336 of all \
         owners together, beside the node's reserve, that are allowed"
    );
    fill("system", MAX_NAMES_PER_OWNER - 1);
    store.tag("system", "mine", &one).unwrap();
    store.tag("system", "more", &one).unwrap_err();
}

#[test]
fn a_broken_index_loses_names_and_no_blob() {
    let bed = Bed::new();
    for broken in [&b"{\"manifests\":"[..], b"\xff\xfe", b"[]"] {
        let store = bed.open();
        let one = image(&store, &[b"layer"]);
        store.tag("", "a", &one).unwrap();
        drop(store);
        std::fs::write(bed.at("index.json"), broken).unwrap();
        let store = bed.open();
        assert!(store.repaired().names_lost && store.names().is_empty());
        assert!(store.missing(&one).unwrap().is_empty());
        assert!(bed.at("index.json.broken").exists());
        // Nothing leads to them now; they aren't collected before a new pull could come.
        let later = SystemTime::now() + Duration::from_secs(3600);
        let collected = store
            .collect_by(&Policy::default(), &InUse::default(), later, || Ok(0))
            .unwrap();
        assert_eq!(collected.blobs, 0);
    }
}

#[test]
fn a_layout_of_another_version_is_left_alone() {
    let bed = Bed::new();
    drop(bed.open());
    std::fs::write(bed.at("oci-layout"), r#"{"imageLayoutVersion":"2.0.0"}"#).unwrap();
    assert!(matches!(
        Store::open(bed.folder.path()),
        Err(ImageError::Corrupt { .. })
    ));
}

#[test]
fn what_the_disk_has_changed_is_found() {
    let bed = Bed::new();
    let store = bed.open();
    let one = image(&store, &[b"layer", b"more"]);
    assert_eq!(store.verify(&one).unwrap(), []);
    let layer = Digest::of(b"layer");
    std::fs::write(store.blob_path(&layer), "LAYER").unwrap();
    assert_eq!(
        store.verify(&one).unwrap(),
        [Damage::Changed(layer.clone())]
    );
    std::fs::remove_file(store.blob_path(&layer)).unwrap();
    assert_eq!(store.verify(&one).unwrap(), [Damage::Missing(layer)]);
    std::fs::write(store.blob_path(&one.digest), "{}").unwrap();
    assert!(matches!(
        store.read_document(&one.digest),
        Err(ImageError::Corrupt { .. })
    ));
    assert_eq!(
        store.verify(&one).unwrap(),
        [Damage::Changed(one.digest.clone())]
    );
}

/// Collects as if this much time had passed and so much of the disk were in use.
fn collect(store: &Store, policy: &Policy, in_use: &[&Digest], used: &[u8]) -> Collected {
    let in_use = InUse {
        digests: in_use.iter().map(|digest| (*digest).clone()).collect(),
        ..InUse::default()
    };
    let later = SystemTime::now() + Duration::from_secs(48 * 3600);
    let left = std::cell::RefCell::new(used.to_vec());
    let used = || {
        let mut left = left.borrow_mut();
        Ok(if left.len() > 1 {
            left.remove(0)
        } else {
            left[0]
        })
    };
    store.collect_by(policy, &in_use, later, used).unwrap()
}

#[test]
fn what_no_name_leads_to_goes_and_all_else_stays() {
    let bed = Bed::new();
    let store = bed.open();
    let kept = image(&store, &[b"shared", b"kept"]);
    let gone = image(&store, &[b"shared", b"gone"]);
    store.tag("", "kept", &kept).unwrap();
    unpacked(&store, &Digest::of(b"kept"));
    unpacked(&store, &Digest::of(b"gone"));
    let collected = collect(&store, &Policy::default(), &[], &[0]);
    assert_eq!(
        (collected.blobs, collected.layers),
        (3, 1),
        "manifest, config, layer"
    );
    assert!(store.missing(&kept).unwrap().is_empty() && !store.contains(&gone.digest));
    assert!(store.layer(&Digest::of(b"kept")).is_some());
    assert!(bed.files("work").is_empty());
}

#[test]
fn what_is_pinned_in_use_or_on_its_way_is_never_collected() {
    let bed = Bed::new();
    let store = bed.open();
    let used = image(&store, &[b"used"]);
    let pins: Vec<Pin> = [&b"pinned"[..]]
        .iter()
        .map(|b| store.put(&Digest::of(b), b).unwrap())
        .collect();
    let mut ingest = store.ingest(&Digest::of(b"coming"), 6).unwrap();
    ingest.write(b"com").unwrap();
    let layer = unpacked(&store, &Digest::of(b"mounted"));
    unpacked(&store, &Digest::of(b"kept by id"));
    let full = [99];
    let collected = collect(
        &store,
        &Policy::default(),
        &[&used.digest, &Digest::of(b"kept by id")],
        &full,
    );
    assert_eq!(collected, Collected::default());
    ingest.write(b"ing").unwrap();
    ingest.finish().unwrap();
    drop((pins, layer));
    let collected = collect(&store, &Policy::default(), &[&used.digest], &full);
    assert_eq!((collected.blobs, collected.layers), (2, 2));
    assert!(store.missing(&used).unwrap().is_empty());
}

#[test]
fn a_fuller_disk_takes_the_image_that_was_used_longest_ago() {
    let bed = Bed::new();
    let store = bed.open();
    let ago = |image: &Descriptor, hours: u64| {
        let at = SystemTime::now() - Duration::from_secs(hours * 3600);
        store
            .read_blob(&image.digest)
            .unwrap()
            .set_modified(at)
            .unwrap();
    };
    let images: Vec<Descriptor> = [&b"0"[..], b"1", b"2"]
        .iter()
        .map(|l| image(&store, &[l]))
        .collect();
    for (number, image) in images.iter().enumerate() {
        store.tag("", &number.to_string(), image).unwrap();
        ago(image, 10 - number as u64);
    }
    store.tag("other", "same as 1", &images[1]).unwrap();
    store.touch(&images[0].digest).unwrap();
    // Before: 90; with the first gone 83, with the next one 80.
    let collected = collect(&store, &Policy::default(), &[], &[90, 90, 83, 80]);
    let names: Vec<&str> = collected
        .names
        .iter()
        .map(|named| named.name.as_str())
        .collect();
    assert_eq!(names, ["1", "same as 1", "2"]);
    assert!(store.missing(&images[0]).unwrap().is_empty());
    assert!(!store.contains(&images[1].digest) && !store.contains(&images[2].digest));
    // Nothing that may go is left: it ends.
    collect(&store, &Policy::default(), &[&images[0].digest], &[99]);
    assert_eq!(store.names().len(), 1);
}

#[test]
fn an_image_that_was_not_used_for_long_goes_by_its_age() {
    let bed = Bed::new();
    let store = bed.open();
    let one = image(&store, &[b"1"]);
    store.tag("", "a", &one).unwrap();
    let age = |hours: u64| Policy {
        max_age: Some(Duration::from_secs(hours * 3600)),
        ..Policy::default()
    };
    assert_eq!(collect(&store, &age(72), &[], &[0]).names.len(), 0);
    assert_eq!(
        collect(&store, &age(24), &[&one.digest], &[0]).names.len(),
        0
    );
    assert_eq!(collect(&store, &age(24), &[], &[0]).names.len(), 1);
    assert!(!store.contains(&one.digest));
}

#[test]
fn an_image_that_names_anothers_manifest_takes_nothing_from_it() {
    let bed = Bed::new();
    let store = bed.open();
    let victim = image(&store, &[b"theirs"]);
    let manifest = store.read_document(&victim.digest).unwrap();
    // As a layer, and at the deepest place of nested indexes.
    let hostile = image(&store, &[&manifest]);
    let mut nested = victim.clone();
    for _ in 0..4 {
        let index = serde_json::json!({"schemaVersion": 2, "manifests": [nested]}).to_string();
        let digest = put(&store, index.as_bytes());
        nested = Descriptor::new(media::INDEX, digest, index.len() as u64);
    }
    store.tag("a", "0", &hostile).unwrap();
    store.tag("a", "1", &nested).unwrap();
    store.tag("b", "victim", &victim).unwrap();
    collect(&store, &Policy::default(), &[], &[0]);
    assert!(store.missing(&victim).unwrap().is_empty());
}

#[test]
fn an_index_is_in_use_by_one_of_its_manifests() {
    let bed = Bed::new();
    let store = bed.open();
    let used = image(&store, &[b"used"]);
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [used]}).to_string();
    let digest = put(&store, index.as_bytes());
    let index = Descriptor::new(media::INDEX, digest, index.len() as u64);
    store.tag("", "a", &index).unwrap();
    assert!(
        collect(&store, &Policy::default(), &[&used.digest], &[99])
            .names
            .is_empty()
    );
    let pin = store.pin(&used.digest);
    assert!(
        collect(&store, &Policy::default(), &[], &[99])
            .names
            .is_empty()
    );
    drop(pin);
    // A layer that runs in another image is no reason.
    let layer = Digest::of(b"used");
    assert_eq!(
        collect(&store, &Policy::default(), &[&layer], &[99])
            .names
            .len(),
        1
    );
}
