// SPDX-License-Identifier: Apache-2.0
//! Gives a check every input that is kept for it in `fuzz/seeds`: what fuzzing has found, and a few
//! of each kind. The ordinary tests of the crates call it, so that no fuzzer is needed to see that
//! what was mended stays mended.

use std::path::Path;

/// Runs `check` on each file of `fuzz/seeds/TARGET`, in the order of their names.
pub(crate) fn replay(target: &str, check: fn(&[u8])) {
    let within = format!("fuzz/seeds/{target}");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|parent| parent.join(&within))
        .find(|folder| folder.is_dir())
        .expect("the repository has inputs for this target");
    let entries = folder.read_dir().unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{within} is empty");
    for file in files {
        // Shown where the check fails.
        println!("{}", file.display());
        check(&std::fs::read(&file).unwrap());
    }
}
