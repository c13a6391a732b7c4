// SPDX-License-Identifier: Apache-2.0
//! `./x dist`: what is shipped. The static binaries, the Debian package of them, and two images
//! that are Debian with that package: one for containers, one for machines.

mod disk;
mod oci;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;
use testkit::deb::{Compression, Package};
use testkit::exec;

use crate::build;

/// Make what is shipped: binaries, package, images.
#[derive(Args)]
#[command(after_help = "Examples:
  ./x dist                all of it, below target/dist-out; the images as root
  ./x dist deb            the binaries and the package
  ./x dist deb --dev      the same of binaries that are quick to build, to try it out

SOURCE_DATE_EPOCH is the date of everything; otherwise the last commit's.")]
pub(crate) struct Dist {
    /// `deb`, `oci`, `disk`; none: all of them
    #[arg(value_parser = ["deb", "oci", "disk"])]
    what: Option<String>,
    /// Binaries of the profile for development
    #[arg(long)]
    dev: bool,
    /// The package's version, instead of the project's
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

/// Where everything is made, and of which date it is.
struct Place {
    folder: PathBuf,
    version: String,
    epoch: u64,
}

/// Runs the command.
pub(crate) fn run(dist: &Dist) -> Result<ExitCode> {
    let built = match dist.dev {
        true => build::binaries(build::Profile::Dev)?,
        false => build::build(build::Profile::Dist, &["-p", "auraed", "-p", "aurae"])?,
    };
    let folder = build::target()?.join("dist-out");
    fs::create_dir_all(&folder)?;
    let place = Place {
        folder: folder.canonicalize()?,
        version: match &dist.version {
            Some(version) => version.clone(),
            None => env!("CARGO_PKG_VERSION").to_owned(),
        },
        epoch: epoch()?,
    };
    let daemon = ship(&built.join("auraed"), &place.folder)?;
    let client = ship(&built.join("aurae"), &place.folder)?;
    let package = Package {
        version: place.version.clone(),
        daemon,
        client,
        epoch: place.epoch,
        compression: match dist.dev {
            true => Compression::Quick,
            false => Compression::Small,
        },
    };
    let package = package.make(&place.folder)?;
    tell(&package)?;
    let wanted = |name: &str| dist.what.as_deref().is_none_or(|it| it == name);
    if wanted("oci") {
        tell(&oci::make(&place, &package)?)?;
    }
    if wanted("disk") {
        tell(&disk::make(&place, &package)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A binary without symbols, which must be static.
fn ship(binary: &Path, folder: &Path) -> Result<PathBuf> {
    let file = folder.join(binary.file_name().context("a binary has a name")?);
    exec::read(Command::new("strip").arg("-o").arg(&file).arg(binary))?;
    let headers = exec::read(Command::new("readelf").arg("-l").arg(&file))?;
    ensure!(
        !headers.contains("INTERP"),
        "{} isn't static: it asks for an interpreter",
        file.display()
    );
    tell(&file)?;
    Ok(file)
}

fn tell(file: &Path) -> Result<()> {
    let bytes = fs::metadata(file)?.len();
    #[expect(clippy::cast_precision_loss, reason = "a size for people")]
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    println!("{mebibytes:6.1} MiB  {}", file.display());
    Ok(())
}

/// Seconds since 1970.
fn epoch() -> Result<u64> {
    if let Ok(set) = std::env::var("SOURCE_DATE_EPOCH") {
        return set
            .parse()
            .context("SOURCE_DATE_EPOCH: a number of seconds");
    }
    let mut ask = Command::new("git");
    ask.current_dir(build::root()?)
        .args(["log", "-1", "--format=%ct"]);
    let said =
        exec::read(&mut ask).context("the date of the last commit; or set SOURCE_DATE_EPOCH")?;
    Ok(said.trim().parse()?)
}

/// mmdebstrap for this machine's Debian, with the package in it.
fn debian(place: &Place, package: &Path, packages: &[&str]) -> Result<Command> {
    let mut make = Command::new("mmdebstrap");
    make.env("SOURCE_DATE_EPOCH", place.epoch.to_string());
    make.args(["--quiet", "--variant=minbase"]);
    make.arg(format!("--include={}", packages.join(",")));
    let package = package.display();
    make.arg(format!("--customize-hook=copy-in {package} /tmp"));
    make.arg(
        "--customize-hook=chroot \"$1\" sh -c 'dpkg -i /tmp/aurae_*.deb' && \
         rm \"$1\"/tmp/aurae_*.deb",
    );
    // Nothing of this machine's, and what each machine has for itself.
    make.arg(
        "--customize-hook=: > \"$1/etc/machine-id\"; echo node > \"$1/etc/hostname\"; \
         rm -f \"$1/etc/resolv.conf\" \"$1\"/etc/ssh/ssh_host_*",
    );
    Ok(make)
}

/// Where mmdebstrap takes packages from: this machine's release and archives.
fn from(make: &mut Command, target: &Path) -> Result<()> {
    make.arg(testkit::disk::suite()?)
        .arg(target)
        .args(testkit::disk::sources()?);
    exec::read(make).map(drop)
}
