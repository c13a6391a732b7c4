// SPDX-License-Identifier: Apache-2.0
//! Row `containers`: what a container, a pod and their supervisor cost on our node, beside podman
//! with crun, containerd, and crun and runc alone, in turns, of one image on one disk. Everything
//! has state of its own and is gone afterwards.
//!
//! Engines are measured by their own commands, ours by `aurae`: what a user waits for.

mod many;
mod turns;
pub(super) mod vm;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testkit::exec;

use super::native::Service;
use super::pull::peers::Containerd;
use super::table::Row;
use crate::build;
use turns::{Arena, Contender, Taken};

/// The image, as every engine calls it.
const IMAGE: &str = "localhost/bench:1";
/// Programs of the image.
const APPLETS: [&str; 4] = ["sh", "sleep", "true", "cat"];
/// Two containers that are ready when they run.
const POD: &str = "apiVersion: v1
kind: Pod
metadata: {name: two}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: a, image: \"localhost/bench:1\", imagePullPolicy: Never, command: [sleep, \"1000000\"]}
  - {name: b, image: \"localhost/bench:1\", imagePullPolicy: Never, command: [sleep, \"1000000\"]}
";
/// What this machine may not allow, and no row is about.
const PODMAN: &str =
    "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n";

/// Measures every part; one that fails is in the table with its reason.
pub(super) fn measure(binaries: &Path, bench: &super::Bench) -> Vec<Row> {
    let bed = match Bed::start(binaries) {
        Ok(bed) => bed,
        Err(error) => return vec![Row::failed("containers", "native", &error)],
    };
    let mut rows = Vec::new();
    let rounds = bench.rounds;
    bed.start_rows(rounds, &mut rows);
    bed.oci_rows(rounds, &mut rows);
    bed.sandbox(rounds, &mut rows);
    let parts = [
        ("supervisor", bed.supervisor(rounds)),
        ("density of pods", bed.density(bench.pods)),
    ];
    for (name, outcome) in parts {
        let failed = |error| {
            vec![Row::failed(
                &format!("containers, {name}"),
                "native",
                &error,
            )]
        };
        rows.extend(outcome.unwrap_or_else(failed));
    }
    rows
}

/// All that runs, and where.
struct Bed {
    folder: Folder,
    binaries: PathBuf,
    arena: Arena,
    node: Service,
    /// `None`: why it isn't there is told in its rows.
    containerd: Result<Containerd>,
}

/// Removed with what is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is removed by the next run.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Bed {
    fn start(binaries: &Path) -> Result<Self> {
        for program in ["skopeo", "umoci", "busybox"] {
            ensure!(
                exec::is_there(program),
                "there is no {program}: apt-get install busybox-static skopeo umoci"
            );
        }
        let folder = Folder(build::target()?.join("bench-containers"));
        if folder.0.exists() {
            fs::remove_dir_all(&folder.0)?;
        }
        fs::create_dir_all(&folder.0)?;
        image(&folder.0)?;
        fs::write(folder.0.join("pod.yaml"), POD)?;
        fs::write(folder.0.join("podman.conf"), PODMAN)?;
        // However full the disk is, nothing is collected meanwhile.
        let (high, low) = ("images.high_threshold=100", "images.low_threshold=100");
        // Hundreds of containers may write to their roots; here none does.
        let tmpfs = "limits.tmpfs=256Gi";
        let settings = ["--set", high, "--set", low, "--set", tmpfs];
        let node = Service::start_with(binaries, &settings)?;
        let bed = Self {
            arena: Arena::new(&folder.0)?,
            containerd: Containerd::start(&folder.0),
            binaries: binaries.to_owned(),
            folder,
            node,
        };
        let archive = bed.folder.0.join("image.tar");
        exec::read(bed.aurae(&["image", "import"]).arg(&archive))?;
        bed.prepare_peers(&archive);
        Ok(bed)
    }

    /// What a peer can't do is told when it is measured.
    fn prepare_peers(&self, archive: &Path) {
        let archive = archive.display();
        if let Ok(containerd) = &self.containerd {
            let mut import = containerd.ctr(&["images", "import"]);
            let _ = exec::capture(import.arg(archive.to_string()));
        }
        let load = format!("{} load -i {archive}", self.podman());
        let _ = exec::capture(&mut self.arena.shell(&load));
    }

    fn aurae(&self, words: &[&str]) -> Command {
        let mut client = Command::new(self.binaries.join("aurae"));
        self.node.address(&mut client).args(words);
        client
    }

    /// The client, in a script.
    fn client(&self) -> String {
        let run = self.node.socket();
        let run = run.parent().unwrap_or(Path::new("/")).display();
        let aurae = self.binaries.join("aurae");
        let aurae = aurae.display();
        format!("env AURAE_CONFIG={run}/client.toml AURAE_NODE=bench {aurae}")
    }

    /// podman with crun, in a script.
    fn podman(&self) -> String {
        let folder = self.folder.0.display();
        format!(
            "env CONTAINERS_CONF={folder}/podman.conf podman --root {folder}/podman \
             --runroot {folder}/podman-run --cgroup-manager=cgroupfs --runtime crun"
        )
    }

    /// containerd's client, in a script.
    fn ctr(&self) -> String {
        match &self.containerd {
            Ok(containerd) => exec::shown(&containerd.ctr(&[])),
            Err(error) => format!("echo '{error:#}' >&2; false"),
        }
    }

    /// From a cached image to a running program, and to its exit and removal.
    /// `aurae run -d` looks for a moment whether its program ends at once; with `-o name` it
    /// leaves as the others' commands do.
    fn start_rows(&self, rounds: usize, rows: &mut Vec<Row>) {
        let (aurae, podman, ctr) = (self.client(), self.podman(), self.ctr());
        let alone = "--network none --pull never";
        let through = [
            Contender::new("ours", format!("{aurae} run --rm {IMAGE} true")),
            Contender::new("podman", format!("{podman} run --rm {alone} {IMAGE} true")),
            Contender::new("containerd", format!("{ctr} run --rm {IMAGE} through true")),
        ];
        let taken = self.arena.turns(rounds, &through);
        let row = "containers, run to exit and removal";
        beside(
            row,
            &taken,
            &[("podman", "<= 0.3"), ("containerd", "<= 0.1")],
            rows,
        );
        let sleep = "sleep 1000000";
        let running = [
            Contender::new(
                "ours",
                format!("{aurae} run -d -o name --name up {IMAGE} {sleep}"),
            )
            .then(format!("{aurae} rm -f up")),
            Contender::new(
                "podman",
                format!("{podman} run -d --name up {alone} {IMAGE} {sleep}"),
            )
            .then(format!("{podman} rm -f -t 0 up")),
            Contender::new("containerd", format!("{ctr} run -d {IMAGE} up {sleep}"))
                .then(format!("{ctr} task rm -f up; {ctr} container rm up")),
        ];
        let taken = self.arena.turns(rounds, &running);
        let row = "containers, cached image to running";
        beside(
            row,
            &taken,
            &[("podman", "<= 0.3"), ("containerd", "<= 0.1")],
            rows,
        );
    }

    /// The OCI runtimes on one bundle. Where crun may not raise a limit that its device rules need,
    /// the second row is what is left to compare.
    fn oci_rows(&self, rounds: usize, rows: &mut Vec<Row>) {
        let bundle = self.folder.0.join("bundle");
        let bundle = bundle.display();
        let ours = self.folder.0.join("aurae-oci");
        let link = std::os::unix::fs::symlink(self.binaries.join("auraed"), &ours);
        if let Err(error) = link {
            return rows.push(Row::failed("containers, oci", "native", &error.into()));
        }
        let ours = ours.display().to_string();
        let cycle = |name: &'static str, runtime: &str| {
            let script = format!(
                "{runtime} create --bundle {bundle} {name} </dev/null && {runtime} start {name} && \
                 {runtime} delete --force {name}"
            );
            Contender::new(name, script)
        };
        let whole = [
            cycle("ours", &ours),
            cycle("crun", "crun"),
            cycle("runc", "runc"),
        ];
        let taken = self.arena.turns(rounds, &whole);
        let row = "containers, oci create+start+delete";
        beside(row, &taken, &[("crun", "<= 1"), ("runc", "")], rows);
        let none = "--cgroup-manager=disabled";
        let bare = [
            cycle("ours", &format!("{ours} {none}")),
            cycle("crun", &format!("crun {none}")),
        ];
        let taken = self.arena.turns(rounds, &bare);
        let row = "containers, oci create+start+delete without a cgroup";
        beside(row, &taken, &[("crun", "<= 1")], rows);
    }

    /// A pod of two containers, to both ready.
    fn sandbox(&self, rounds: usize, rows: &mut Vec<Row>) {
        let (aurae, podman) = (self.client(), self.podman());
        let pod = self.folder.0.join("pod.yaml");
        let pod = pod.display();
        let contenders = [
            Contender::new("ours", format!("{aurae} pod run -f {pod} --wait ready"))
                .then(format!("{aurae} pod rm -f two")),
            Contender::new("podman", format!("{podman} play kube --network none {pod}"))
                .then(format!("{podman} pod rm -f -t 0 two")),
        ];
        let taken = self.arena.turns(rounds, &contenders);
        let row = "containers, pod of two to both ready";
        beside(row, &taken, &[("podman", "<= 0.15")], rows);
    }
}

/// A row of ours beside each peer; what couldn't be measured is one with the reason.
fn beside(row: &str, taken: &Result<Taken>, peers: &[(&str, &str)], rows: &mut Vec<Row>) {
    let compared = |peer: &str, goal: &str| -> Result<Row> {
        let taken = taken
            .as_ref()
            .map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let (ours, theirs) = (taken.median("ours")?, taken.median(peer)?);
        let alone = Row::alone(&format!("{row}, beside {peer}"), "native", "ms", ours, goal);
        Ok(alone.beside((peer, theirs)))
    };
    rows.extend(peers.iter().map(|(peer, goal)| {
        compared(peer, goal)
            .unwrap_or_else(|error| Row::failed(&format!("{row}, beside {peer}"), "native", &error))
    }));
}

/// The image as an archive that every engine reads, and a bundle of the same files.
fn image(folder: &Path) -> Result<()> {
    let at = |name: &str| folder.join(name).display().to_string();
    let (layout, root) = (at("layout"), folder.join("bundle/rootfs"));
    let umoci = |words: &[&str]| exec::read(Command::new("umoci").args(words)).map(drop);
    let tag = format!("{layout}:1");
    umoci(&["init", "--layout", &layout])?;
    umoci(&["new", "--image", &tag])?;
    umoci(&["unpack", "--image", &tag, &at("bundle")])?;
    fs::create_dir_all(root.join("bin"))?;
    let busybox = exec::read(Command::new("sh").args(["-c", "command -v busybox"]))?;
    fs::copy(busybox.trim(), root.join("bin/busybox")).context("busybox")?;
    for applet in APPLETS {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(applet))?;
    }
    umoci(&["repack", "--image", &tag, &at("bundle")])?;
    let archive = format!("docker-archive:{}:{IMAGE}", at("image.tar"));
    let from = format!("oci:{tag}");
    exec::read(Command::new("skopeo").args(["copy", "--insecure-policy", &from, &archive]))?;
    // What umoci has written of limits and mounts is one document for all runtimes.
    let config = folder.join("bundle/config.json");
    let mut spec: serde_json::Value = serde_json::from_slice(&fs::read(&config)?)?;
    let changes = [
        ("/process/terminal", serde_json::json!(false)),
        ("/process/args", serde_json::json!(["true"])),
        ("/process/rlimits", serde_json::json!([])),
    ];
    for (pointer, value) in changes {
        let place = spec.pointer_mut(pointer);
        *place.with_context(|| format!("the bundle has no {pointer}"))? = value;
    }
    fs::write(config, spec.to_string())?;
    Ok(())
}
