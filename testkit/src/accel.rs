// SPDX-License-Identifier: Apache-2.0
//! Finds out whether KVM boots an ordinary kernel here.
//!
//! A `/dev/kvm` that opens isn't enough: some hosts offer one that runs only guests made for it. So
//! a kernel is booted on it, with nothing to run, and has to get as far as its panic within a
//! deadline. The verdict is kept.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::kernel::Kernel;
use crate::machine::{Accel, Console, Machine, Spec};

/// A processor needs about one second for it.
const DEADLINE: Duration = Duration::from_secs(8);
/// Overrides the verdict: `kvm` or `tcg`.
const OVERRIDE: &str = "AURAE_VM_ACCEL";

/// What to run machines with. The verdict is kept in `folder`, for this host's kernel.
///
/// # Errors
/// When the override is neither `kvm` nor `tcg`, or the verdict can't be kept.
pub fn choose(folder: &Path, kernel: &Kernel) -> Result<Accel> {
    match std::env::var(OVERRIDE).as_deref() {
        Ok("kvm") => return Ok(Accel::Kvm),
        Ok("tcg") => return Ok(Accel::Tcg),
        Ok(other) => bail!("{OVERRIDE}={other}: it is kvm or tcg"),
        Err(_) => {}
    }
    if fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_err()
    {
        return Ok(Accel::Tcg);
    }
    let host = fs::read_to_string("/proc/sys/kernel/osrelease").context("osrelease")?;
    let verdict = folder.join("accel");
    let case = format!("{} under {}", kernel.version, host.trim());
    if let Ok(kept) = fs::read_to_string(&verdict) {
        match kept.strip_prefix(&case).map(str::trim) {
            Some("kvm") => return Ok(Accel::Kvm),
            Some("tcg") => return Ok(Accel::Tcg),
            _ => {}
        }
    }
    let accel = if boots(kernel)? {
        Accel::Kvm
    } else {
        Accel::Tcg
    };
    if accel == Accel::Tcg {
        println!("vm: /dev/kvm boots no stock kernel within {DEADLINE:?}: QEMU translates instead");
    }
    fs::write(&verdict, format!("{case} {}\n", accel.name()))?;
    Ok(accel)
}

/// Boots the kernel on KVM without anything to run: it panics, reboots, and so ends the machine.
fn boots(kernel: &Kernel) -> Result<bool> {
    let scratch = tempfile::tempdir()?;
    let console = scratch.path().join("console");
    let mut machine = Machine::start(&Spec {
        accel: Accel::Kvm,
        kernel: kernel.image.clone(),
        initramfs: None,
        disk: None,
        append: "console=ttyS0 panic=-1".into(),
        cpus: 1,
        memory_mib: 256,
        console: Console::File(console.clone()),
        agent: None,
        monitor: None,
        forward: None,
    })?;
    if machine.wait(DEADLINE)?.is_none() {
        machine.kill()?;
        return Ok(false);
    }
    let said = fs::read(&console).unwrap_or_default();
    Ok(String::from_utf8_lossy(&said).contains("Kernel panic - not syncing"))
}
