// SPDX-License-Identifier: Apache-2.0
//! `./x judge`: programs that others have written decide whether a node does what it should. Apart
//! from `./x test` for what they need of a machine and for their minutes.
//!
//! * [`applications`]: servers and inits of Debian as images, each through its own client.
//! * [`packages`]: Debian's servers, by apt on a machine whose PID 1 is auraed.
//! * [`execute`]: the units by which systemd tests how it executes programs.
//! * [`systemd`]: the scripts by which systemd tests itself as PID 1, on a machine of ours.
//! * [`fstab`]: the tables by which systemd tests its generator of mount units.
//! * [`podman`]: Debian's podman on a node, with `auraed oci` as its only runtime.
//! * [`runc`]: runc's own suite of tests, with `auraed oci` in runc's place.
//! * [`nix`]: Nix on the flake and the NixOS module.

mod applications;
pub(crate) mod archive;
mod execute;
mod fstab;
mod images;
mod machine;
mod nix;
mod packages;
mod podman;
mod runc;
mod systemd;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

/// Have others' programs decide: servers and inits of Debian, run as images or installed by apt;
/// units by which systemd tests itself; podman, with auraed as its runtime; runc's own tests; Nix.
#[derive(Args)]
#[command(after_help = "Examples:
  ./x judge applications                 all of them, as root; minutes for the image, once
  ./x judge applications postgres s6     two of them
  ./x judge packages                     Debian's servers on a booted node; half an hour and more
  ./x judge packages redis-server tor    two of them
  ./x judge execute                      Debian's test-execute units, as root
  ./x judge systemd                      systemd's own scripts about PID 1; an hour and more
  ./x judge systemd 03 23                two of them
  ./x judge fstab                        systemd's tables for its generator of mounts
  ./x judge podman                       on nodes under QEMU, with systemd and without
  ./x judge podman systemd               on one of them
  ./x judge runc                         runc's suite; AURAE_RUNC is a checkout, prepared; hours
  ./x judge runc root cgroups update     two files of it as root; `rootless`: an ordinary user
  ./x judge nix                          Nix on dist/nix; AURAE_NIXPKGS is a folder with nixpkgs")]
pub(crate) struct Judge {
    /// `applications`, `packages`, `execute`, `systemd`, `fstab`, `podman`, `runc`, `nix`
    #[arg(value_parser = [
        "applications", "packages", "execute", "systemd", "fstab", "podman", "runc", "nix",
    ])]
    judge: String,
    /// Which; none: all
    names: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(judge: &Judge) -> Result<ExitCode> {
    match judge.judge.as_str() {
        "execute" => execute::run(),
        "systemd" => systemd::run(&judge.names),
        "fstab" => fstab::run(),
        "nix" => nix::run(),
        "runc" => runc::run(&judge.names),
        "podman" => podman::run(&judge.names),
        "packages" => packages::run(&judge.names),
        _ => applications::run(&judge.names),
    }
}
