// SPDX-License-Identifier: Apache-2.0
//! The root of a cell's files, for its creation: of the node, of nothing, or of an image; and the
//! descriptors that the spawner makes a container's root from (ADR 32, 34). The image was resolved
//! before; nothing of it is looked up here.
//!
//! What a container writes goes to a file system of its own: a tmpfs or, where the spec says so, a
//! disk ([`crate::disk`]). Either has a size, its pages are charged to the cell that writes them,
//! and it goes with the cell's last process, whatever becomes of the daemon.

use std::os::fd::OwnedFd;
use std::path::Path;

use ::init::protocol::{ImageRoot, Root};
use kernel::mount::{self, Attributes};
use kernel::{Context, Result as KernelResult};
use model::container::Container;
use model::error::Error;
use rustix::fs::{AtFlags, Gid, Mode, Uid};

use super::kernel_failed;
use crate::disk;
use crate::lsm;
use crate::ports::Layers;

/// What a container can't see: it says more of the machine than a container needs. Docker's list.
const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
];
/// What it can see and not write.
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

const QUIET: Attributes = Attributes::NO_SUID.and(Attributes::NO_DEV);

/// What the spawner is told and given.
pub(super) struct Rooted {
    pub(super) root: Root,
    pub(super) fds: Vec<OwnedFd>,
}

/// The root of a cell. `root_id`: the node's id of its root user; `layers`: of its image; `disks`:
/// the folder for one that is on the disk.
pub(super) async fn prepare(
    container: Option<&Container>,
    layers: Option<&Layers>,
    root_id: u32,
    disks: &Path,
) -> Result<Rooted, Error> {
    let fds = Vec::new();
    match (container, layers) {
        (None, _) => Ok(Rooted {
            root: Root::Node,
            fds,
        }),
        (Some(_), None) => Ok(Rooted {
            root: Root::Bare,
            fds,
        }),
        (Some(container), Some(layers)) => of_image(container, layers, root_id, disks).await,
    }
}

async fn of_image(
    container: &Container,
    layers: &Layers,
    root_id: u32,
    disks: &Path,
) -> Result<Rooted, Error> {
    let failed =
        |e: kernel::Error| kernel_failed("the root of the container could not be prepared", &e);
    lsm::check_files(container)?;
    let mut fds = vec![mount::copy_tree(&layers.folder, false).map_err(failed)?];
    let bytes = container.effective_root_bytes();
    if bytes > 0 {
        let made = match container.root_on_disk {
            false => mount::tmpfs(bytes, 0o700, QUIET).map_err(failed)?,
            true => on_disk(disks, bytes).await?,
        };
        upper(&made, root_id).map_err(failed)?;
        fds.push(made);
    }
    let texts = |usual: &[&str], own: &[String]| {
        let usual = usual.iter().filter(|_| !container.unmasked);
        let usual = usual.map(|path| path.as_bytes().to_vec());
        let own = own.iter().map(|path| path.clone().into_bytes());
        usual.chain(own).collect()
    };
    let paths = layers.paths.iter();
    let root = Root::Image(ImageRoot {
        layers: paths.map(|path| path.clone().into_bytes()).collect(),
        writable: bytes > 0,
        masked: texts(&MASKED, &container.masked_paths),
        read_only: texts(&READ_ONLY, &container.read_only_paths),
        shared_memory_bytes: container.effective_shared_memory_bytes(),
        own_groups: container.delegate_cgroup,
        file_label: container.selinux_file_label.clone(),
    });
    Ok(Rooted { root, fds })
}

/// Made by a thread that may wait for the disk.
async fn on_disk(folder: &Path, bytes: u64) -> Result<OwnedFd, Error> {
    let folder = folder.to_owned();
    let made = tokio::task::spawn_blocking(move || disk::make(&folder, bytes, "")).await;
    let made = made.unwrap_or_else(|e| Err(Error::internal(format!("a disk: {e}"))));
    made.map_err(|e| e.field("cell.spec.container.root_on_disk"))
}

/// Where the container writes: `upper`, which belongs to its root, and `work`, overlayfs' own.
fn upper(made: &OwnedFd, root_id: u32) -> KernelResult<()> {
    for name in ["upper", "work"] {
        let mode = Mode::from_raw_mode(0o755);
        rustix::fs::mkdirat(made, name, mode).call_on("mkdir", Path::new(name))?;
    }
    let (uid, gid) = (Uid::from_raw(root_id), Gid::from_raw(root_id));
    rustix::fs::chownat(made, "upper", Some(uid), Some(gid), AtFlags::empty())
        .call_on("chown", Path::new("upper"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cell_without_a_container_has_the_nodes_root_and_one_without_an_image_none() {
        let none = prepare(None, None, 0, Path::new("/")).await.unwrap();
        assert_eq!((none.root, none.fds.len()), (Root::Node, 0));
        let empty = Container::default();
        let bare = prepare(Some(&empty), None, 0, Path::new("/"))
            .await
            .unwrap();
        assert_eq!((bare.root, bare.fds.len()), (Root::Bare, 0));
    }
}
