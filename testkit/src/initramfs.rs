// SPDX-License-Identifier: Apache-2.0
//! The initramfs of a node: the daemon's binary as `/init` and the modules that reach the root
//! disk.
//!
//! What happens on it is the business of auraed's init role: it loads the files that
//! `/lib/modules/aurae.load` names, in this order, mounts what `root=` says, and goes on as the
//! `auraed` of that disk.

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cpio::Archive;
use crate::kernel::Kernel;

/// What the node's hardware needs, in the order in which it is wanted: bus, disk, network, the
/// agent's channel.
pub const MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "virtio_net", "virtio_console"];

/// What a disk's units may ask of the kernel: automounts, an interface that comes and goes; and a
/// watchdog without hardware, which counts once its device is opened.
const UNITS: [&str; 3] = ["autofs4", "dummy", "softdog"];

/// The file system of containers' roots, and what makes a disk of a file.
const CONTAINERS: [&str; 2] = ["overlay", "loop"];

/// What the network of cells needs: the node has no modprobe that the kernel could call.
pub const CELL_NETWORK: [&str; 19] = [
    "bridge",
    "veth",
    "nf_tables",
    "nf_conntrack",
    "nf_nat",
    "nft_ct",
    "nft_nat",
    "nft_masq",
    "nft_redir",
    "nft_fib_inet",
    "nft_reject_inet",
    "nft_reject_bridge",
    "nft_chain_nat",
    "nft_meta_bridge",
    "nft_connlimit",
    "nf_conntrack_netlink",
    "inet_diag",
    "tcp_diag",
    "udp_diag",
];

/// The list of modules to load, one path a line.
const LOAD_LIST: &str = "lib/modules/aurae.load";

/// Writes an initramfs with `init` as its `/init`.
///
/// # Errors
/// When a file can't be read or written, or a module isn't there.
pub fn write(to: &Path, init: &Path, kernel: &Kernel) -> Result<()> {
    let modules =
        kernel.modules(&[&MODULES[..], &CELL_NETWORK[..], &UNITS[..], &CONTAINERS[..]].concat())?;
    let out = fs::File::create(to).with_context(|| format!("initramfs {}", to.display()))?;
    let mut archive = Archive::new(BufWriter::new(out));
    for folder in ["dev", "proc", "sys", "lib", "lib/modules"] {
        archive.folder(folder, 0o755)?;
    }
    // The kernel opens it as init's stdio before anything is mounted.
    archive.device("dev/console", 0o600, (5, 1))?;
    archive.file("init", 0o755, &content(init)?)?;
    let mut load = String::new();
    for path in &modules {
        let name = path
            .file_name()
            .context("a module without a name")?
            .to_string_lossy();
        let name = format!("lib/modules/{name}");
        archive.file(&name, 0o644, &content(path)?)?;
        load.push_str(&format!("/{name}\n"));
    }
    archive.file(LOAD_LIST, 0o644, load.as_bytes())?;
    archive.finish()?;
    Ok(())
}

/// An initramfs in `folder`, written only when the daemon or the kernel has changed.
///
/// # Errors
/// Those of [`write`].
pub fn cached(folder: &Path, init: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let file = folder.join("initramfs.cpio");
    let recipe = folder.join("initramfs.recipe");
    let wanted = format!(
        "{} {} {} {} {} {}\n",
        kernel.version,
        MODULES.join(","),
        CELL_NETWORK.join(","),
        UNITS.join(","),
        CONTAINERS.join(","),
        crate::disk::fingerprint(init)?
    );
    if file.is_file() && fs::read_to_string(&recipe).is_ok_and(|had| had == wanted) {
        return Ok(file);
    }
    let scratch = folder.join(format!("initramfs.{}", std::process::id()));
    write(&scratch, init, kernel)?;
    fs::rename(&scratch, &file)?;
    fs::write(&recipe, wanted)?;
    Ok(file)
}

fn content(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}
