// SPDX-License-Identifier: Apache-2.0
//! Pressure stall information of the whole machine: how much of the last 10 s something waited for
//! CPU, memory or I/O.

use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};

/// Shares of the last 10 s in which at least one task waited, in hundredths of a per cent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    /// For a CPU.
    pub cpu: u32,
    /// For memory to be reclaimed.
    pub memory: u32,
    /// For a block device.
    pub io: u32,
}

/// Reads `/proc/pressure`.
///
/// # Errors
/// `ENOENT`, `EOPNOTSUPP`: the kernel was built or booted without (`psi=1`). `EINVAL`: a file says
/// something else than the kernel documents.
pub fn read() -> Result<Pressure> {
    Ok(Pressure {
        cpu: some("cpu")?,
        memory: some("memory")?,
        io: some("io")?,
    })
}

fn some(resource: &str) -> Result<u32> {
    let path = format!("/proc/pressure/{resource}");
    let mut text = String::new();
    let read =
        std::fs::File::open(&path).and_then(|file| file.take(4096).read_to_string(&mut text));
    read.map_err(|e| Error::from_io("read", &e).on(Path::new(&path)))?;
    let unknown = || Error::invalid("read", "no line of pressure as the kernel documents it");
    parse(&text).ok_or_else(unknown)
}

/// `some avg10=1.23 avg60=…` is 123.
fn parse(text: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let share = line
        .split_whitespace()
        .find_map(|it| it.strip_prefix("avg10="))?;
    let (whole, hundredths) = share.split_once('.')?;
    let hundredths: u32 = hundredths.get(..2)?.parse().ok()?;
    whole
        .parse::<u32>()
        .ok()?
        .checked_mul(100)?
        .checked_add(hundredths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read_and_nothing_else() {
        let text = "some avg10=12.34 avg60=1.00 avg300=0.50 total=1\nfull avg10=0.00\n";
        assert_eq!(parse(text), Some(1234));
        assert_eq!(parse("some avg10=0.00"), Some(0));
        for bad in ["", "some avg60=1.00", "some avg10=x.00", "some avg10=1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
