// SPDX-License-Identifier: Apache-2.0
//! The image for machines: Debian with its own kernel, the package, and cloud-init, which reads a
//! seed (`NoCloud`) for keys, users and network. It boots by BIOS and by UEFI: GRUB behind the
//! partition table, and once more in a partition of firmware's.
//!
//! Nothing is mounted but what mmdebstrap mounts, and no boot loader is installed by its own
//! scripts: they would look at this machine's disks.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use testkit::exec;

use super::{Place, debian, from};
use crate::build;

/// What a machine has that is reached by ssh and told by a seed what to be.
const PACKAGES: [&str; 20] = [
    "ca-certificates",
    "cloud-guest-utils",
    "cloud-init",
    "curl",
    "dbus",
    "e2fsprogs",
    "fdisk",
    "ifupdown",
    "initramfs-tools",
    "iproute2",
    "isc-dhcp-client",
    "kmod",
    "linux-image-cloud-amd64",
    "mount",
    "openssh-server",
    "procps",
    "sudo",
    "systemd-sysv",
    "udev",
    "vim-tiny",
];
const FSTAB: &str = "LABEL=aurae / ext4 errors=remount-ro 0 1\n";
/// Seeds on a disk named CIDATA or in /var/lib/cloud/seed; without one the machine comes up bare.
/// There are no locales to make, and apt's sources are right as they are.
const CLOUD: &str = "datasource_list: [NoCloud, None]\nlocale: false\n\
    apt:\n  preserve_sources_list: true\n";
/// GRUB asks by label, so that the disk may be any.
const SEARCH: &str = "search --no-floppy --label --set=root aurae\n\
    set prefix=($root)/boot/grub\nconfigfile ($root)/boot/grub/grub.cfg\n";
const MODULES: [&str; 13] = [
    "part_msdos",
    "part_gpt",
    "ext2",
    "fat",
    "search",
    "search_label",
    "linux",
    "normal",
    "configfile",
    "serial",
    "terminal",
    "echo",
    "test",
];
const SECTOR: u64 = 512;
const MEBIBYTE: u64 = 1 << 20;
/// Where the partitions begin, and how big firmware's is.
const FIRST: u64 = MEBIBYTE;
const FIRMWARE: u64 = 32 * MEBIBYTE;
/// Of the root's file system; cloud-init grows it to the disk.
const ROOT: u64 = 2048 * MEBIBYTE;
/// The code of the first sector, before the disk's number and the table.
const CODE: usize = 440;

/// Makes `aurae_VERSION.raw`.
pub(super) fn make(place: &Place, package: &Path) -> Result<PathBuf> {
    let scratch = tempfile::tempdir_in(&place.folder)?;
    let at = |name: &str| scratch.path().join(name);
    root(place, package, scratch.path(), &at("root"))?;
    firmware(scratch.path(), &at("firmware"))?;
    let disk = at("disk");
    let mut file = File::create_new(&disk)?;
    file.set_len(FIRST + FIRMWARE + ROOT + MEBIBYTE)?;
    table(&disk)?;
    put(&mut file, FIRST, &at("firmware"))?;
    put(&mut file, FIRST + FIRMWARE, &at("root"))?;
    loader(scratch.path(), &mut file)?;
    file.sync_all()?;
    let there = place.folder.join(format!("aurae_{}.raw", place.version));
    fs::rename(disk, &there)?;
    Ok(there)
}

/// The root's file system, made in place of mmdebstrap's output: nothing is mounted for it.
fn root(place: &Place, package: &Path, scratch: &Path, to: &Path) -> Result<()> {
    let mut make = debian(place, package, &PACKAGES)?;
    for (name, text, there) in [
        ("fstab", FSTAB, "/etc"),
        ("90-aurae.cfg", CLOUD, "/etc/cloud/cloud.cfg.d"),
    ] {
        let file = scratch.join(name);
        fs::write(&file, text)?;
        make.arg(format!(
            "--customize-hook=copy-in {} {there}",
            file.display()
        ));
    }
    let menu = build::root()?.join("dist/grub.cfg");
    make.arg("--customize-hook=mkdir -p \"$1/boot/grub\"");
    make.arg(format!(
        "--customize-hook=copy-in {} /boot/grub",
        menu.display()
    ));
    make.arg(
        "--customize-hook=printf 'auto lo\\niface lo inet loopback\\nsource interfaces.d/*\\n' \
         > \"$1/etc/network/interfaces\"",
    );
    let tree = scratch.join("root.tar");
    from(make.arg("--format=tar"), &tree)?;
    let folder = scratch.join("tree");
    fs::create_dir(&folder)?;
    let mut unpack = Command::new("tar");
    unpack
        .args(["--numeric-owner", "--xattrs", "-C"])
        .arg(&folder);
    exec::read(unpack.arg("-xf").arg(&tree))?;
    fs::remove_file(&tree)?;
    let mut format = Command::new("mke2fs");
    format.args([
        "-q",
        "-t",
        "ext4",
        "-L",
        "aurae",
        "-E",
        "root_owner=0:0",
        "-d",
    ]);
    format.arg(&folder).arg(to);
    exec::read(format.arg(format!("{}k", ROOT / 1024)))?;
    fs::remove_dir_all(&folder)?;
    Ok(())
}

fn grub(form: &str, scratch: &Path, to: &Path, more: &[&str]) -> Result<()> {
    let search = scratch.join("search.cfg");
    fs::write(&search, SEARCH)?;
    let mut make = Command::new("grub-mkimage");
    make.args(["-O", form, "-p", "/boot/grub", "-c"])
        .arg(&search);
    exec::read(make.arg("-o").arg(to).args(MODULES).args(more)).map(drop)
}

/// The partition of UEFI's, with GRUB where firmware looks on a disk that it doesn't know.
fn firmware(scratch: &Path, to: &Path) -> Result<()> {
    let image = scratch.join("bootx64.efi");
    grub("x86_64-efi", scratch, &image, &[])?;
    File::create_new(to)?.set_len(FIRMWARE)?;
    exec::read(Command::new("mkfs.vfat").args(["-n", "FIRMWARE"]).arg(to))?;
    for folder in ["::EFI", "::EFI/BOOT"] {
        exec::read(Command::new("mmd").arg("-i").arg(to).arg(folder))?;
    }
    let mut copy = Command::new("mcopy");
    exec::read(
        copy.arg("-i")
            .arg(to)
            .arg(image)
            .arg("::EFI/BOOT/BOOTX64.EFI"),
    )
    .map(drop)
}

/// A table that both kinds of firmware read.
fn table(disk: &Path) -> Result<()> {
    let (firmware, root) = (FIRST / SECTOR, (FIRST + FIRMWARE) / SECTOR);
    let script = format!(
        "label: dos\nlabel-id: 0x61757261\n\
         start={firmware}, size={}, type=ef\nstart={root}, size={}, type=83, bootable\n",
        FIRMWARE / SECTOR,
        ROOT / SECTOR
    );
    let mut write = Command::new("sfdisk");
    let mut child = write.arg("-q").arg(disk).stdin(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("sfdisk's input")?;
    input.write_all(script.as_bytes())?;
    drop(input);
    ensure!(child.wait()?.success(), "sfdisk failed");
    Ok(())
}

/// BIOS's way: the first sector's code reads what follows it, before the first partition.
fn loader(scratch: &Path, disk: &mut File) -> Result<()> {
    let core = scratch.join("core.img");
    grub("i386-pc", scratch, &core, &["biosdisk"])?;
    let size = fs::metadata(&core)?.len();
    ensure!(size < FIRST - SECTOR, "GRUB is too big: {size} bytes");
    let mut first = [0; CODE];
    File::open("/usr/lib/grub/i386-pc/boot.img")?.read_exact(&mut first)?;
    disk.seek(SeekFrom::Start(0))?;
    disk.write_all(&first)?;
    put(disk, SECTOR, &core)
}

/// Writes a file into the disk, without its holes.
fn put(disk: &mut File, at: u64, from: &Path) -> Result<()> {
    let mut from = File::open(from)?;
    let (mut part, mut place) = (vec![0; 1 << 20], at);
    loop {
        let count = from.read(&mut part)?;
        let bytes = part.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.iter().any(|byte| *byte != 0) {
            disk.seek(SeekFrom::Start(place))?;
            disk.write_all(bytes)?;
        }
        place += count as u64;
    }
}
