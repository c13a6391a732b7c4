// SPDX-License-Identifier: Apache-2.0
//! Row `pull`: images from one local registry to files that a container can be made of, by our
//! node and by containerd, in turns, on the same disk. Everything runs as a child of this process,
//! with state of its own, and is gone afterwards.
//!
//! What containerd does is `ctr images pull`: its own client's pull, which fetches and unpacks for
//! overlayfs, as ours does. What is read into the page cache before is the same for both.

mod images;
pub(super) mod memory;
pub(crate) mod peers;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use testkit::exec;

use super::native::Service;
use super::table::Row;
use crate::build;
use images::Shape;
use memory::Peak;
use peers::{Containerd, Registry};

/// Megabytes of files, and layers. The last one has the goals of memory.
const SHAPES: [Shape; 4] = [
    Shape::new(100, 10),
    Shape::new(100, 100),
    Shape::new(1000, 10),
    Shape::new(1000, 100),
];
/// How often each image is pulled by each; the median counts.
const ROUNDS: usize = 3;
/// Of containerd's time.
const GOAL: &str = "<= 0.7";
/// MiB of the daemon and its unpackers.
const GOAL_MEMORY: &str = "<= 64";

/// What one pull took.
struct Taken {
    seconds: f64,
    peak_mib: f64,
}

/// Measures every shape; one that fails is in the table with its reason.
pub(super) fn measure(binaries: &Path) -> Vec<Row> {
    let mut rows = Vec::new();
    let bed = match Bed::start(binaries) {
        Ok(bed) => bed,
        Err(error) => return vec![Row::failed("pull", "native", &error)],
    };
    for shape in SHAPES {
        if let Err(error) = bed.shape(shape, &mut rows) {
            eprintln!("bench: pull, {shape}: {error:#}");
            rows.push(Row::failed(&format!("pull, {shape}"), "native", &error));
        }
    }
    rows
}

/// All that runs.
struct Bed {
    folder: Folder,
    binaries: PathBuf,
    registry: Registry,
    containerd: Containerd,
    node: Service,
}

/// Removed with what is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is removed by the next run.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Bed {
    fn start(binaries: &Path) -> Result<Self> {
        for program in ["docker-registry", "containerd", "ctr", "skopeo", "tar"] {
            ensure!(
                exec::is_there(program),
                "there is no {program}: apt-get install containerd docker-registry skopeo"
            );
        }
        // On the disk that the project is on.
        let folder = Folder(build::target()?.join("bench-pull"));
        if folder.0.exists() {
            std::fs::remove_dir_all(&folder.0)?;
        }
        std::fs::create_dir_all(&folder.0)?;
        let registry = Registry::start(&folder.0)?;
        let hosts = folder.0.join("registries.toml");
        let host = registry.host();
        std::fs::write(&hosts, format!("[host.\"{host}\"]\nplain_http = true\n"))?;
        let hosts = format!("images.registries={}", hosts.display());
        // However full the disk is, nothing is collected meanwhile.
        let (high, low) = ("images.high_threshold=100", "images.low_threshold=100");
        let node = ["--set", &hosts, "--set", high, "--set", low];
        Ok(Self {
            containerd: Containerd::start(&folder.0)?,
            node: Service::start_with(binaries, &node)?,
            binaries: binaries.to_owned(),
            folder,
            registry,
        })
    }

    fn shape(&self, shape: Shape, rows: &mut Vec<Row>) -> Result<()> {
        eprintln!("bench: pull, {shape}: the image is made");
        let name = images::push(&self.folder.0, &self.registry.host(), shape)?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let (our, their) = (self.ours(&name)?, self.theirs(&name)?);
            eprintln!(
                "bench: pull, {shape}, {}: {:.2} s, containerd {:.2} s",
                round + 1,
                our.seconds,
                their.seconds
            );
            ours.push(our);
            theirs.push(their);
        }
        let (our, their) = (median(&mut ours)?, median(&mut theirs)?);
        let row = format!("pull, {shape}");
        let against = "ctr images pull";
        rows.push(Row::alone(&row, "native", "s", our, GOAL).beside((against, their)));
        let row = format!("pull, {shape}, most memory");
        let (our, their) = (most(&ours), most(&theirs));
        let alone = Row::alone(&row, "native", "MiB", our, GOAL_MEMORY);
        let row = format!("pull, {shape}, most memory beside containerd");
        let beside = Row::alone(&row, "native", "MiB", our, "");
        rows.extend([alone, beside.beside((against, their))]);
        Ok(())
    }

    fn ours(&self, name: &str) -> Result<Taken> {
        let aurae = |words: &[&str]| {
            let mut client = Command::new(self.binaries.join("aurae"));
            self.node.address(&mut client).args(words);
            client
        };
        let pull = aurae(&["image", "pull", "--policy", "always", name]);
        let taken = timed(pull, self.node.process())?;
        exec::read(&mut aurae(&["image", "rm", name]))?;
        exec::read(&mut aurae(&["image", "prune"]))?;
        Ok(taken)
    }

    fn theirs(&self, name: &str) -> Result<Taken> {
        let pull = self
            .containerd
            .ctr(&["images", "pull", "--plain-http", name]);
        let taken = timed(pull, self.containerd.process())?;
        let remove = &mut self.containerd.ctr(&["images", "rm", "--sync", name]);
        exec::read(remove)?;
        Ok(taken)
    }
}

/// Runs a client, and looks at the memory of who works for it.
fn timed(mut client: Command, process: u32) -> Result<Taken> {
    // What earlier ones have written is on the disk.
    rustix::fs::sync();
    let peak = Peak::watch(process);
    let begun = Instant::now();
    exec::read(&mut client)?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Taken {
        seconds,
        peak_mib: peak.mib()?,
    })
}

fn median(taken: &mut [Taken]) -> Result<f64> {
    taken.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let middle = taken.get(taken.len() / 2).context("no round")?;
    Ok(middle.seconds)
}

fn most(taken: &[Taken]) -> f64 {
    taken.iter().map(|it| it.peak_mib).fold(0.0, f64::max)
}
