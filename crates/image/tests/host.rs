// SPDX-License-Identifier: Apache-2.0
//! The unpacker as a process, unpackers that lie, a full disk, and a store whose process is killed
//! at random. This binary plays the other processes, too: the unpacker, one that fills a small
//! disk in a mount namespace of its own, one that takes blobs until it is killed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "of a test"
)]

mod support;

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use image::store::{Layer, Store};
use image::unpack::{Options, Source, Unpacking};
use image::{Digest, ImageError};
use support::{Tar, gzip};
use testkit::stories::Told;

/// More than anything here takes.
const LONG: Duration = Duration::from_secs(120);

const STORIES: &[(&str, fn())] = &[
    (
        "a_layer_is_unpacked_by_a_process_of_its_own",
        a_layer_is_unpacked_by_a_process_of_its_own,
    ),
    (
        "the_unpacker_has_its_folder_and_nothing_else",
        the_unpacker_has_its_folder_and_nothing_else,
    ),
    (
        "a_refused_layer_leaves_nothing",
        a_refused_layer_leaves_nothing,
    ),
    (
        "an_unpacker_that_lies_or_hangs_is_found_out",
        an_unpacker_that_lies_or_hangs_is_found_out,
    ),
    (
        "an_unpacker_that_is_killed_leaves_nothing",
        an_unpacker_that_is_killed_leaves_nothing,
    ),
    (
        "two_may_unpack_the_same_layer",
        two_may_unpack_the_same_layer,
    ),
    (
        "a_full_disk_gives_its_space_back",
        a_full_disk_gives_its_space_back,
    ),
    (
        "a_store_that_is_killed_at_random_is_whole",
        a_store_that_is_killed_at_random_is_whole,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("unpack") => return image::unpack::command(&arguments[2]),
        Some("fill") => fill(Path::new(&arguments[2])),
        Some("take") => take(Path::new(&arguments[2])),
        _ => return testkit::stories::run(STORIES, || Ok(()), |_, story| Told::by(story)),
    }
    ExitCode::SUCCESS
}

/// This binary in another role.
fn ourselves(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(role);
    command
}

struct Bed {
    _folder: tempfile::TempDir,
    root: PathBuf,
    store: Store,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("images");
        Self {
            store: Store::open(&root).unwrap(),
            root,
            _folder: folder,
        }
    }

    /// Nothing is in the making, and there are so many layers.
    fn holds(&self, layers: usize) {
        let count = |folder: &str| self.root.join(folder).read_dir().unwrap().count();
        assert_eq!((count("work"), count("layers")), (0, layers));
    }
}

fn start(store: &Store, tar: &[u8], program: Command, source: Source) -> Unpacking {
    Unpacking::start(store, program, &Options::new(&Digest::of(tar)), source).unwrap()
}

/// Streams a packed layer into the unpacker.
fn streamed(store: &Store, tar: &[u8], packed: &[u8]) -> Result<Layer, ImageError> {
    let mut unpacking = start(store, tar, ourselves("unpack"), Source::Stream);
    // Where that fails the end says why.
    let _ = unpacking.write_all(packed);
    unpacking.finish(LONG)
}

fn a_layer_is_unpacked_by_a_process_of_its_own() {
    if !support::is_root() {
        return;
    }
    let bed = Bed::new();
    let noise: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let tar = Tar::new()
        .folder("d")
        .file("d/large", &noise)
        .node(b'3', "null", (1, 3))
        .file("d/.wh..wh..opq", b"")
        .pax(&[("SCHILY.xattr.user.a", b"v")])
        .file("x", b"")
        .end();
    let layer = streamed(&bed.store, &tar, &gzip(&tar)).unwrap();
    assert_eq!(std::fs::read(layer.root.join("d/large")).unwrap(), noise);
    assert!(support::is_opaque(&layer.root.join("d")));
    assert_eq!(
        (layer.summary.entries, layer.summary.bytes),
        (5, tar.len() as u64)
    );
    drop(layer);
    assert!(bed.store.layer(&Digest::of(&tar)).is_some());
    bed.holds(1);
    // From a blob, without a byte passing through this process.
    let other = Tar::new().file("a", b"1").end();
    let blob = Digest::of(&gzip(&other));
    let _pin = bed.store.put(&blob, &gzip(&other)).unwrap();
    let source = Source::Blob(bed.store.read_blob(&blob).unwrap());
    let layer = start(&bed.store, &other, ourselves("unpack"), source)
        .finish(LONG)
        .unwrap();
    assert_eq!(std::fs::read(layer.root.join("a")).unwrap(), b"1");
    bed.holds(2);
}

/// A field of `/proc/PID/status`.
fn status(pid: u32, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap();
    line.trim_start_matches(':').trim().to_owned()
}

fn the_unpacker_has_its_folder_and_nothing_else() {
    if !support::is_root() {
        return;
    }
    let bed = Bed::new();
    let tar = Tar::new().file("first", b"1").file("last", &[0; 100]).end();
    let mut unpacking = start(&bed.store, &tar, ourselves("unpack"), Source::Stream);
    let pid = unpacking.process();
    // One entry: when its file is there, it has confined itself.
    unpacking.write_all(&tar[..2048]).unwrap();
    let file = bed.root.join("work/0/root/first");
    let begun = Instant::now();
    while !file.exists() {
        assert!(begun.elapsed() < LONG, "it never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    let capabilities = u64::from_str_radix(&status(pid, "CapPrm"), 16).unwrap();
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SYS_ADMIN, MKNOD, SETFCAP (capability.h).
    let allowed = [0, 1, 3, 4, 21, 27, 31]
        .iter()
        .fold(0_u64, |all, bit| all | 1 << bit);
    assert_eq!(capabilities & !allowed, 0, "{capabilities:x}");
    let root = std::fs::read_link(format!("/proc/{pid}/root")).unwrap();
    assert_eq!(root, bed.root.join("work/0/root").canonicalize().unwrap());
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        // One that was closed meanwhile is none.
        let Ok(target) = std::fs::read_link(entry.unwrap().path()) else {
            continue;
        };
        let text = target.to_string_lossy();
        let ours = text.starts_with("pipe:") || text == "/dev/null" || target.starts_with(&root);
        assert!(ours, "it has {text} open");
    }
    assert_eq!(std::fs::read(format!("/proc/{pid}/environ")).unwrap(), b"");
    unpacking.write_all(&tar[2048..]).unwrap();
    unpacking.finish(LONG).unwrap();
}

fn a_refused_layer_leaves_nothing() {
    if !support::is_root() {
        return;
    }
    let bed = Bed::new();
    let escape = Tar::new()
        .folder("d")
        .symlink("d/l", "/")
        .file("d/l/x", b"")
        .end();
    let refused = streamed(&bed.store, &escape, &escape).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("goes through \"d/l\", which is a link"),
        "{refused}"
    );
    // The error comes while the stream still does.
    let mut endless = Tar::new().file("../x", b"");
    endless.0.resize(8 << 20, 1);
    let refused = streamed(&bed.store, &endless.0, &endless.0).unwrap_err();
    assert!(matches!(refused, ImageError::Layer { .. }), "{refused:?}");
    let lie = streamed(&bed.store, b"another stream", &Tar::new().end()).unwrap_err();
    assert!(matches!(lie, ImageError::WrongDigest { .. }), "{lie:?}");
    let tar = Tar::new().file("a", &[0; 4096]).end();
    let mut options = Options::new(&Digest::of(&tar));
    options.max_bytes = 1000;
    let mut bounded =
        Unpacking::start(&bed.store, ourselves("unpack"), &options, Source::Stream).unwrap();
    let _ = bounded.write_all(&tar);
    assert!(matches!(
        bounded.finish(LONG),
        Err(ImageError::TooMuch { .. })
    ));
    bed.holds(0);
}

fn an_unpacker_that_lies_or_hangs_is_found_out() {
    let bed = Bed::new();
    let tar = Tar::new().end();
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    };
    for script in [
        "echo lies",
        "exit 0",
        "echo '{\"done\":{}} and more'",
        "exec yes",
        "kill -9 $$",
    ] {
        let unpacking = start(&bed.store, &tar, shell(script), Source::Stream);
        let refused = unpacking.finish(LONG).unwrap_err();
        assert!(
            refused.to_string().contains("without a report"),
            "{script}: {refused}"
        );
        bed.holds(0);
    }
    let silent = start(&bed.store, &tar, shell("exec sleep 1000"), Source::Stream);
    let refused = silent.finish(Duration::from_millis(200)).unwrap_err();
    assert!(refused.to_string().contains("wasn't done"), "{refused}");
    bed.holds(0);
    assert!(
        Unpacking::start(
            &bed.store,
            Command::new(bed.root.join("absent")),
            &Options::new(&Digest::of(&tar)),
            Source::Stream
        )
        .is_err()
    );
    bed.holds(0);
}

fn an_unpacker_that_is_killed_leaves_nothing() {
    if !support::is_root() {
        return;
    }
    let bed = Bed::new();
    let tar = Tar::new().file("a", &[1; 100_000]).end();
    let mut unpacking = start(&bed.store, &tar, ourselves("unpack"), Source::Stream);
    unpacking.write_all(&tar[..50_000]).unwrap();
    let pid = i32::try_from(unpacking.process()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let refused = unpacking.finish(LONG).unwrap_err().to_string();
    assert!(refused.contains("by signal 9"), "{refused}");
    bed.holds(0);
    // And one that its parent gives up.
    let mut given_up = start(&bed.store, &tar, ourselves("unpack"), Source::Stream);
    given_up.write_all(&tar[..50_000]).unwrap();
    let pid = given_up.process();
    drop(given_up);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    bed.holds(0);
}

fn two_may_unpack_the_same_layer() {
    if !support::is_root() {
        return;
    }
    let bed = Bed::new();
    let tar = Tar::new().file("a", b"1").end();
    let mut first = start(&bed.store, &tar, ourselves("unpack"), Source::Stream);
    let mut second = start(&bed.store, &tar, ourselves("unpack"), Source::Stream);
    first.write_all(&tar).unwrap();
    second.write_all(&tar).unwrap();
    let (first, second) = (first.finish(LONG).unwrap(), second.finish(LONG).unwrap());
    assert_eq!(first.root, second.root);
    assert_eq!(std::fs::read(second.root.join("a")).unwrap(), b"1");
    bed.holds(1);
}

fn a_full_disk_gives_its_space_back() {
    if !support::is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // What is mounted there is seen by the other process alone, and goes with it.
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command
        .arg(std::env::current_exe().unwrap())
        .arg("fill")
        .arg(folder.path());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// On a disk of 2 MiB.
fn fill(folder: &Path) {
    let none = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", folder, "tmpfs", none, Some(c"size=2m")).unwrap();
    let store = Store::open(&folder.join("images")).unwrap();
    let free = || rustix::fs::statvfs(folder).unwrap().f_bavail;
    let before = free();
    let bytes = vec![7; 4 << 20];
    let digest = Digest::of(&bytes);
    let mut ingest = store.ingest(&digest, bytes.len() as u64).unwrap();
    let mut pieces = bytes.chunks(64 << 10);
    let error = pieces.find_map(|piece| ingest.write(piece).err()).unwrap();
    assert!(matches!(error, ImageError::DiskFull { .. }), "{error:?}");
    drop(ingest);
    assert_eq!(free(), before, "a blob's space comes back");

    let tar = Tar::new().folder("d").file("d/large", &bytes).end();
    let error = streamed(&store, &tar, &tar).unwrap_err();
    assert!(matches!(error, ImageError::DiskFull { .. }), "{error:?}");
    assert_eq!(free(), before, "a layer's space comes back");

    let archive = Tar::new().file("layer.tar", &bytes).end();
    let error = store.import_archive(&archive[..], &image::transfer::Limits::default());
    assert!(
        matches!(error, Err(ImageError::DiskFull { .. })),
        "{error:?}"
    );
    assert_eq!(free(), before, "an import's space comes back");

    names_on_a_full_disk(&store, folder);
}

fn names_on_a_full_disk(store: &Store, folder: &Path) {
    let document = br#"{"schemaVersion":2,"manifests":[]}"#;
    let index = image::manifest::media::INDEX;
    let (descriptor, _pin) = store.put_new(index, document).unwrap();
    store.tag("", "old", &descriptor).unwrap();
    let mut filler = File::create(folder.join("filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    let error = store.tag("", &"n".repeat(1000), &descriptor).unwrap_err();
    assert!(matches!(error, ImageError::DiskFull { .. }), "{error:?}");
    assert_eq!(store.names().len(), 1, "the old names hold");
    drop(filler);
    std::fs::remove_file(folder.join("filler")).unwrap();
    store.tag("", "new", &descriptor).unwrap();
    assert_eq!(store.names().len(), 2);
}

/// The blobs that the killed process takes, some of them large.
fn blob(number: u8) -> Vec<u8> {
    vec![number; usize::from(number) * 40_000]
}

/// Takes blobs, names them and makes layers, for ever.
fn take(folder: &Path) {
    let step = || {
        std::io::stdout()
            .write_all(b".")
            .and_then(|()| std::io::stdout().flush())
    };
    let store = Store::open(folder).unwrap();
    step().unwrap();
    for number in (1..40).cycle() {
        let bytes = blob(number);
        let digest = Digest::of(&bytes);
        let mut ingest = store.ingest(&digest, bytes.len() as u64).unwrap();
        let rest = bytes
            .get(usize::try_from(ingest.offset()).unwrap()..)
            .unwrap();
        rest.chunks(rest.len() / 3 + 1).for_each(|piece| {
            ingest.write(piece).unwrap();
            step().unwrap();
        });
        let _pin = ingest.finish().unwrap();
        step().unwrap();
        let document = format!(r#"{{"schemaVersion":2,"manifests":[],"n":{number}}}"#);
        let index = image::manifest::media::INDEX;
        let (descriptor, _pin) = store.put_new(index, document.as_bytes()).unwrap();
        step().unwrap();
        store
            .tag("owner", &number.to_string(), &descriptor)
            .unwrap();
        step().unwrap();
        let making = store.make_layer(&digest).unwrap();
        std::fs::write(making.root().join("f"), &bytes).unwrap();
        step().unwrap();
        making.commit(image::unpack::Summary::default()).unwrap();
        step().unwrap();
    }
}

fn a_store_that_is_killed_at_random_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("images");
    let mut names = 0;
    for death in 0..20_u64 {
        let mut child = ourselves("take");
        child.arg(&root).stdout(Stdio::piped()).process_group(0);
        let mut child = child.spawn().unwrap();
        // Another step each time; how far it comes until the signal does is chance.
        let mut steps = vec![0; usize::try_from(death * death * 7 % 61 + 1).unwrap()];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut steps).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let store = Store::open(&root).unwrap();
        assert!(!store.repaired().names_lost, "death {death}");
        let found = store.names();
        assert!(found.len() >= names, "death {death}: no name is lost");
        names = found.len();
        assert!(
            found
                .iter()
                .all(|named| store.missing(&named.descriptor).unwrap().is_empty())
        );
        whole(&store, &root);
    }
    assert!(names > 0, "it came to something");
}

/// Every blob is what its name says, and every layer has all its files.
fn whole(store: &Store, root: &Path) {
    for entry in root.join("blobs/sha256").read_dir().unwrap() {
        let entry = entry.unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        assert_eq!(
            Digest::of(&bytes).hex(),
            entry.file_name().to_str().unwrap()
        );
    }
    for number in 1..40 {
        let bytes = blob(number);
        if let Some(layer) = store.layer(&Digest::of(&bytes)) {
            assert_eq!(std::fs::read(layer.root.join("f")).unwrap(), bytes);
        }
    }
    assert_eq!(root.join("work").read_dir().unwrap().count(), 0);
}
