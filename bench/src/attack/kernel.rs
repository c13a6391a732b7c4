// SPDX-License-Identifier: Apache-2.0
//! Attacks by system calls alone.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::Result;

use super::Attack;

/// What is taken at a time.
const PIECE: usize = 1 << 20;
/// Threads per processor.
const THREADS: usize = 4;
/// Written before it is synced and begun anew.
const FILE: usize = 64;

/// Every process starts processes that do the same, and tries again where it is refused.
pub(super) fn forks() -> Result<()> {
    loop {
        let started = Command::new("/proc/self/exe")
            .args(["--attack", Attack::Forks.name()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if started.is_err() {
            thread::yield_now();
        }
    }
}

/// Ends by the OOM killer; who started it starts it again.
pub(super) fn memory() -> Result<()> {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(PIECE).is_ok() {
            piece.resize(PIECE, 1);
            taken.push(piece);
        }
    }
}

pub(super) fn cpu() -> Result<()> {
    let processors = thread::available_parallelism()?.get();
    let spin = || {
        loop {
            std::hint::spin_loop();
        }
    };
    let threads: Vec<_> = (0..processors * THREADS)
        .map(|_| thread::spawn(spin))
        .collect();
    for one in threads {
        let _ = one.join();
    }
    Ok(())
}

/// Fills the file system, empties it, and fills it again.
pub(super) fn fill(folder: &Path) -> Result<()> {
    let piece = vec![1; PIECE];
    let path = folder.join("full");
    loop {
        let mut file = File::create(&path)?;
        while file.write_all(&piece).is_ok() {}
        fs::remove_file(&path)?;
    }
}

/// Writes a file and has it synced, again and again.
pub(super) fn write(folder: &Path) -> Result<()> {
    let piece = vec![1; PIECE];
    let path = folder.join("written");
    loop {
        let mut file = File::create(&path)?;
        for _ in 0..FILE {
            file.write_all(&piece)?;
        }
        file.sync_all()?;
    }
}
