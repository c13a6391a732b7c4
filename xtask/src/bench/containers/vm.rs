// SPDX-License-Identifier: Apache-2.0
//! The same rows on a node of the test bed, by this program itself: there a root may raise limits,
//! which crun needs for its device rules, and groups have controllers. Called by `./x bench`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::disk::{self, Copy};
use testkit::node::{Bed, Options};

use super::super::table::{self, Row};
use super::super::{Bench, MEMORY_MIB};

/// Where the machine has what is measured and what measures.
const BINARIES: &str = "/srv/bench";
/// For all rows together: the processor is emulated.
const TIMEOUT: Duration = Duration::from_secs(2 * 3600);

/// Measures every part; where none could be measured, a row says why.
pub(in super::super) fn measure(bed: &Bed, bench: &Bench, binaries: &Path, rows: &mut Vec<Row>) {
    eprintln!("bench: containers on a node of the test bed");
    match measured(bed, bench, binaries) {
        Ok(measured) => rows.extend(measured),
        Err(error) => rows.push(Row::failed("containers", "vm", &error)),
    }
}

fn measured(bed: &Bed, bench: &Bench, binaries: &Path) -> Result<Vec<Row>> {
    let place = Path::new(BINARIES);
    let mut copies = vec![Copy::new(std::env::current_exe()?, place.join("x"))];
    for program in ["auraed", "aurae"] {
        copies.push(Copy::new(binaries.join(program), place.join(program)));
    }
    let options = Options {
        memory_mib: MEMORY_MIB,
        disk: Some(disk::debian_with_engines(&bed.folder)?),
        copies,
        ..Options::default()
    };
    let node = bed.boot(&options).context("a node with engines")?;
    let script = format!(
        "AURAE_BINARIES={BINARIES} CARGO_TARGET_DIR=/var/tmp/bench {BINARIES}/x bench containers \
         --only native -o json --rounds {} --pods {}",
        bench.rounds, bench.pods
    );
    let finished = node.start(&script)?.finish_within(TIMEOUT)?;
    let figures = String::from_utf8_lossy(&finished.out);
    // A missed goal is a status, too.
    let said = String::from_utf8_lossy(&finished.err);
    ensure!(figures.trim_start().starts_with('['), "no rows: {said}");
    let rows = table::read(&figures, "vm")?;
    node.shutdown()?;
    Ok(rows)
}
