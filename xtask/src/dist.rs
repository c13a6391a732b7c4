// SPDX-License-Identifier: Apache-2.0
//! `./x dist`: the static binaries to ship, and how big they are.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use testkit::exec;

use crate::build;

/// Runs the command.
pub(crate) fn run() -> Result<ExitCode> {
    let built = build::build(build::Profile::Dist, &["-p", "auraed", "-p", "aurae"])?;
    let folder = build::target()?.join("dist-out");
    fs::create_dir_all(&folder)?;
    for name in ["auraed", "aurae"] {
        let file = folder.join(name);
        fs::copy(built.join(name), &file)?;
        let bytes = fs::metadata(&file)?.len();
        #[expect(clippy::cast_precision_loss, reason = "a size for people")]
        let mebibytes = bytes as f64 / f64::from(1 << 20);
        println!("{mebibytes:6.1} MiB  {}", file.display());
        let headers = exec::read(Command::new("readelf").arg("-l").arg(&file))?;
        ensure!(
            !headers.contains("INTERP"),
            "{name} isn't static: it asks for an interpreter"
        );
    }
    println!("both static; units for systemd are dist/auraed.service and dist/aurae-cells.service");
    Ok(ExitCode::SUCCESS)
}
