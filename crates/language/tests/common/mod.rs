// SPDX-License-Identifier: Apache-2.0
//! Real TypeScript for tests: of the version in `tests/tsc/package.json`, installed by npm below
//! `target/` once.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on says why"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set to do without TypeScript where there is no npm: the tests that need it then say so and pass.
pub const WITHOUT: &str = "AURAE_TESTS_WITHOUT_NPM";

/// One error of the compiler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Error {
    /// Relative to the project.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in UTF-16 units.
    pub column: u32,
    /// `TS2322`.
    pub code: String,
    /// The first line.
    pub message: String,
}

/// The compiler's program; none where the tests are told to do without.
pub fn tsc() -> Option<PathBuf> {
    installed("tsc").map(|home| home.join("node_modules/.bin/tsc"))
}

/// A folder below `target/` where npm has installed what `tests/NAME/package-lock.json` pins; none
/// where the tests are told to do without.
pub fn installed(name: &str) -> Option<PathBuf> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&home).unwrap();
    // Other test programs may install at the same time.
    let lock = File::create(home.join("lock")).unwrap();
    lock.lock().unwrap();
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name);
    let installed = fs::read(home.join("package-lock.json")).ok();
    let wanted = fs::read(pinned.join("package-lock.json")).unwrap();
    // npm writes it at the end.
    let done = home.join("node_modules/.package-lock.json");
    if done.exists() && installed.as_ref() == Some(&wanted) {
        return Some(home);
    }
    for file in ["package.json", "package-lock.json"] {
        fs::copy(pinned.join(file), home.join(file)).unwrap();
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
        .current_dir(&home);
    let result = npm.output();
    if result.as_ref().is_ok_and(|output| output.status.success()) {
        return Some(home);
    }
    assert!(
        std::env::var_os(WITHOUT).is_some(),
        "npm could not install {name} (set {WITHOUT}=1 to do without it): {result:?}"
    );
    eprintln!("without npm: nothing was held against {name}");
    None
}

/// All errors that the compiler has for the project in that folder (with a `tsconfig.json`).
pub fn errors(tsc: &Path, project: &Path) -> Vec<Error> {
    let mut command = Command::new(tsc);
    command
        .args(["--pretty", "false", "-p"])
        .arg(project)
        .current_dir(project);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found: Vec<_> = text.lines().filter_map(error).collect();
    assert_eq!(found.is_empty(), output.status.success(), "{text}");
    found
}

/// `a.ts(1,10): error TS2741: Property …`
fn error(line: &str) -> Option<Error> {
    let (place, said) = line.split_once(": error ")?;
    let (file, place) = place.strip_suffix(')')?.rsplit_once('(')?;
    let (line, column) = place.split_once(',')?;
    let (code, message) = said.split_once(": ")?;
    Some(Error {
        file: file.to_owned(),
        line: line.parse().ok()?,
        column: column.parse().ok()?,
        code: code.to_owned(),
        message: message.to_owned(),
    })
}

/// What `aurae types` writes, in a folder below `target/` that is made anew.
pub fn project(name: &str) -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("projects")
        .join(name);
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).unwrap();
    let types = language::declare::aurae_d_ts().unwrap();
    fs::write(home.join("aurae.d.ts"), types).unwrap();
    fs::write(home.join("tsconfig.json"), language::declare::TSCONFIG).unwrap();
    home
}

/// Copies all files of a folder with that ending, and of folders in it.
pub fn copy(from: &Path, to: &Path, ending: &str) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target, ending);
        } else if path.to_string_lossy().ends_with(ending) {
            fs::copy(&path, &target).unwrap();
        }
    }
}
