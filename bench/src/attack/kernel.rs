// SPDX-License-Identifier: Apache-2.0
//! Attacks by system calls alone.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::Result;

use super::Attack;
use super::evidence::Done;

/// What is taken at a time.
const PIECE: usize = 1 << 20;
/// Threads per processor.
const THREADS: usize = 4;
/// Written before it is synced and begun anew.
const FILE: usize = 64;
/// Turns of the loop that count as one.
const SPINS: usize = 1 << 16;

/// Every process starts processes that do the same, and tries again where it is refused. Those that
/// the first one starts, or is refused, count.
pub(super) fn forks(done: &Done) -> Result<()> {
    loop {
        let started = Command::new("/proc/self/exe")
            .args(["--attack", Attack::Forks.name()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(_) => done.one(),
            Err(error) => {
                if error.kind() == ErrorKind::WouldBlock {
                    done.one();
                }
                thread::yield_now();
            }
        }
    }
}

/// Ends by the OOM killer; who started it starts it again. What it has touched counts.
pub(super) fn memory(done: &Done) -> Result<()> {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(PIECE).is_ok() {
            piece.resize(PIECE, 1);
            taken.push(piece);
            done.one();
        }
    }
}

pub(super) fn cpu(done: &Done) -> Result<()> {
    let processors = thread::available_parallelism()?.get();
    for _ in 1..processors * THREADS {
        thread::spawn(|| {
            loop {
                spin();
            }
        });
    }
    loop {
        spin();
        done.one();
    }
}

fn spin() {
    for _ in 0..SPINS {
        std::hint::spin_loop();
    }
}

/// Fills the file system, empties it, and fills it again.
pub(super) fn fill(folder: &Path, done: &Done) -> Result<()> {
    let piece = vec![1; PIECE];
    let path = folder.join("full");
    loop {
        let mut file = File::create(&path)?;
        while file.write_all(&piece).is_ok() {
            done.one();
        }
        fs::remove_file(&path)?;
    }
}

/// Writes a file and has it synced, again and again.
pub(super) fn write(folder: &Path, done: &Done) -> Result<()> {
    let piece = vec![1; PIECE];
    let path = folder.join("written");
    loop {
        let mut file = File::create(&path)?;
        for _ in 0..FILE {
            file.write_all(&piece)?;
            done.one();
        }
        file.sync_all()?;
    }
}
