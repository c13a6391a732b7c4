// SPDX-License-Identifier: Apache-2.0
//! What is needed to boot nodes, and how one is booted: kernel, Debian, fresh binaries, and the
//! machine that they make. The node that comes of it is [`crate::node::Node`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::disk::{self, Copy};
use crate::machine::{Accel, Console, Disk, Forward, Spec};
use crate::{accel, deb, exec, initramfs, kernel::Kernel, servers};

/// The agent's path on a node of the test bed.
pub const AGENT: &str = "/usr/local/lib/aurae-testbed/node-agent";

/// Everything that is needed to boot nodes: kernel, Debian, fresh binaries.
#[derive(Clone, Debug)]
pub struct Bed {
    /// Where images are kept.
    pub folder: PathBuf,
    /// The kernel to boot.
    pub kernel: Kernel,
    /// How machines are run.
    pub accel: Accel,
    daemon: PathBuf,
    client: PathBuf,
    agent: Copy,
    debian: PathBuf,
    /// Held while an image is made, which the next node may want, too.
    making: Arc<Mutex<()>>,
}

/// How a node is booted.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of virtual processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// A kernel instead of Debian's.
    pub kernel: Option<PathBuf>,
    /// A disk instead of Debian's; the files are put into a copy of it.
    pub disk: Option<PathBuf>,
    /// Debian with services instead, as an installer leaves it.
    pub services: bool,
    /// That with PostgreSQL, Redis and HAProxy instead.
    pub servers: bool,
    /// Nothing of Aurae is on the disk but two versions of its package, in [`deb::PACKAGES`]. The
    /// agent is a unit.
    pub package: bool,
    /// Files that are copied onto the root disk.
    pub copies: Vec<Copy>,
    /// Words on top of the kernel's command line.
    pub append: String,
    /// Whether the disk's units are run; otherwise the node has nothing but what a story begins.
    pub units: bool,
    /// What the node runs once it serves; empty: nothing.
    pub run: String,
    /// True: [`crate::node::Node::comes_back`] boots the node again after its reboot, on the disk
    /// it left.
    pub reboots: bool,
    /// The script that switches the node off.
    pub off: String,
    /// Another node, which is booted first and stays as long as this one. `BESIDE` in `append` is
    /// where this one reaches its port 7443.
    pub beside: Option<Box<Options>>,
    /// A port of the host that leads to one of the node.
    pub forward: Option<Forward>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cpus: 2,
            memory_mib: 1024,
            kernel: None,
            disk: None,
            services: false,
            servers: false,
            package: false,
            copies: Vec::new(),
            append: String::new(),
            units: false,
            run: AGENT.into(),
            reboots: false,
            off: "exec aurae node shutdown".into(),
            beside: None,
            forward: None,
        }
    }
}

impl Bed {
    /// Prepares kernel and disk below `target`, with the `auraed`, `aurae` and `node-agent` of
    /// `binaries`.
    ///
    /// # Errors
    /// When one of them can't be had.
    pub fn new(target: &Path, binaries: &Path) -> Result<Self> {
        let folder = target.join("vm");
        fs::create_dir_all(&folder)?;
        let folder = folder.canonicalize()?;
        let kernel = Kernel::obtain(&folder.join("kernel"))?;
        let accel = accel::choose(&folder, &kernel)?;
        let debian = disk::debian(&folder)?;
        let daemon = stripped(&folder, &binaries.join("auraed"))?;
        let client = stripped(&folder, &binaries.join("aurae"))?;
        let agent = Copy::new(stripped(&folder, &binaries.join("node-agent"))?, AGENT);
        Ok(Self {
            folder,
            kernel,
            accel,
            daemon,
            client,
            agent,
            debian,
            making: Arc::default(),
        })
    }

    /// The package in two versions, and what else is in [`deb::PACKAGES`].
    ///
    /// # Errors
    /// When it can't be made.
    pub fn packages(&self) -> Result<Vec<Copy>> {
        deb::of_a_bed(&self.folder, &self.daemon, &self.client)
    }

    /// What is put on a node's disk.
    fn files(&self, options: &Options) -> Result<Vec<Copy>> {
        let mut files = vec![self.agent.clone()];
        if options.package {
            files.extend(deb::agent_unit(&self.folder)?);
            files.extend(self.packages()?);
        } else {
            files.push(Copy::new(&self.daemon, "/usr/sbin/auraed"));
            files.push(Copy::new(&self.client, "/usr/local/bin/aurae"));
        }
        files.extend(options.copies.iter().cloned());
        Ok(files)
    }

    /// The machine that these options describe.
    ///
    /// # Errors
    /// When a file isn't there or an image can't be written.
    pub fn machine(&self, options: &Options, console: Console) -> Result<Spec> {
        // An image that a thread has failed to make isn't there.
        let _one_at_a_time = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = match &options.kernel {
            Some(image) => Kernel::at(image, &self.kernel)?,
            None => self.kernel.clone(),
        };
        let files = self.files(options)?;
        let base = match &options.disk {
            Some(disk) => disk.clone(),
            None if options.servers => servers::debian_with_servers(&self.folder)?,
            None if options.services => disk::debian_with_services(&self.folder)?,
            None => self.debian.clone(),
        };
        let disk = disk::with_files(&self.folder, &base, &files)?;
        let initramfs = initramfs::cached(&self.folder, &self.daemon, &kernel)?;
        let mode = if options.services || options.servers {
            "ro"
        } else {
            "rw"
        };
        let mut append = format!("console=ttyS0 root=/dev/vda {mode} quiet panic=1");
        if !options.run.is_empty() {
            append.push_str(&format!(" aurae.boot.run={}", options.run));
        }
        if !options.units {
            append.push_str(" aurae.units.enabled=false");
        }
        append.push(' ');
        append.push_str(&options.append);
        Ok(Spec {
            accel: self.accel,
            kernel: kernel.image,
            initramfs: Some(initramfs),
            disk: Some(Disk::Fresh(disk)),
            append,
            cpus: options.cpus,
            memory_mib: options.memory_mib,
            console,
            agent: None,
            monitor: None,
            forward: options.forward,
        })
    }

    /// A copy of the disk that outlives the machine's end, and not the node.
    pub(crate) fn disk_of_its_own(&self, disk: &Path) -> Result<tempfile::TempPath> {
        let own = tempfile::Builder::new()
            .prefix("reboots.")
            .tempfile_in(&self.folder)?
            .into_temp_path();
        disk::copy(disk, &own)?;
        Ok(own)
    }
}

/// A copy without symbols, which a translated kernel unpacks and reads in half the time; made when
/// the binary has changed.
fn stripped(folder: &Path, binary: &Path) -> Result<PathBuf> {
    let name = binary
        .file_name()
        .context("a binary has a name")?
        .to_string_lossy();
    let (copy, recipe) = (folder.join(&*name), folder.join(format!("{name}.recipe")));
    let wanted = disk::fingerprint(binary)?;
    if !copy.is_file() || !fs::read_to_string(&recipe).is_ok_and(|had| had == wanted) {
        exec::read(Command::new("strip").arg("-o").arg(&copy).arg(binary))?;
        fs::write(&recipe, wanted)?;
    }
    Ok(copy)
}
