// SPDX-License-Identifier: Apache-2.0
//! `aurae check --full` with TypeScript's own compiler, of the version that the declarations are
//! held against, installed by npm below `target/` once; and `aurae fmt`. They need no node.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Set to do without TypeScript where there is no npm: the test then says so and passes.
const WITHOUT: &str = "AURAE_TESTS_WITHOUT_NPM";

/// The folder with `tsc`.
fn compiler() -> Option<PathBuf> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tsc");
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/language/tests/tsc");
    fs::create_dir_all(&home).unwrap();
    // The tests of the language install it there, too.
    let lock = File::create(home.join("lock")).unwrap();
    lock.lock().unwrap();
    let folder = home.join("node_modules/.bin");
    if folder.join("tsc").exists() {
        return Some(folder);
    }
    for file in ["package.json", "package-lock.json"] {
        fs::copy(pinned.join(file), home.join(file)).unwrap();
    }
    let arguments = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
    let installed = Command::new("npm")
        .args(arguments)
        .current_dir(&home)
        .output();
    if installed
        .as_ref()
        .is_ok_and(|output| output.status.success())
    {
        return Some(folder);
    }
    assert!(
        std::env::var_os(WITHOUT).is_some(),
        "npm could not install TypeScript (set {WITHOUT}=1 to do without it): {installed:?}"
    );
    println!("without npm: TypeScript was not asked");
    None
}

/// A field that nobody has, which both see, and sums that the compiler alone sees.
const WRONG: &str = r#"const web = new Cell({ name: "web", memroy: 1 });
// 𝒳 takes two of the compiler's columns
const size = /* 𝒳 */ web.name * 2;
print(size);
"#;

fn check(folder: &Path, path: &Path, arguments: &[&str]) -> Output {
    let mut check = Command::new(env!("CARGO_BIN_EXE_aurae"));
    check.arg("check").args(arguments).arg("lib/wrong.ts");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", path.display());
    check.current_dir(folder).env_clear().env("PATH", path);
    check.output().unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lib")).unwrap();
    fs::write(folder.path().join("aurae.json"), "{}").unwrap();
    fs::write(folder.path().join("lib/wrong.ts"), WRONG).unwrap();
    folder
}

#[test]
fn the_compiler_adds_what_it_alone_sees() {
    let Some(path) = compiler() else { return };
    let folder = folder();
    let ours = check(folder.path(), &path, &["-o", "json"]);
    let both = check(folder.path(), &path, &["--full", "-o", "json"]);
    for output in [&ours, &both] {
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
    let places = |output: &Output| -> Vec<(String, u64, u64)> {
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let places = list.as_array().unwrap().iter().map(|one| {
            let code = one["code"].as_str().unwrap().to_owned();
            (
                code,
                one["line"].as_u64().unwrap(),
                one["column"].as_u64().unwrap(),
            )
        });
        places.collect()
    };
    let field = ("unknown-field".to_owned(), 1, 37);
    assert_eq!(places(&ours), std::slice::from_ref(&field));
    let sum = ("typescript".to_owned(), 3, 22);
    assert_eq!(places(&both), [field, sum], "{both:?}");
    let shown = check(folder.path(), &path, &["--full"]);
    let shown = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(shown.contains("lib/wrong.ts:3:22"), "{shown}");
}

#[test]
fn without_a_compiler_the_flag_says_what_to_install() {
    let folder = folder();
    let mut check = Command::new(env!("CARGO_BIN_EXE_aurae"));
    check.args(["check", "--full", "lib/wrong.ts"]);
    check
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", "/nowhere");
    let output = check.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    for part in ["--full: can't run tsc", "npm install --global typescript@7"] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
}

#[test]
fn no_more_is_formatted_than_a_program_may_be_long() {
    for file in ["-", "/dev/zero"] {
        let mut fmt = Command::new(env!("CARGO_BIN_EXE_aurae"));
        fmt.args(["fmt", file]).env_clear();
        let output = fmt
            .stdin(File::open("/dev/zero").unwrap())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("is longer than 4194304 bytes"), "{said}");
    }
}
