// SPDX-License-Identifier: Apache-2.0
//! `aurae check` beside TypeScript's own compiler, of the version that the declarations are
//! held against, installed by npm below `target/` once; and `aurae fmt`. They need no node.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
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

/// A field that doesn't exist, which both see, and sums that the compiler alone sees.
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

/// Code, severity, line and column of each finding.
fn places(output: &Output) -> Vec<(String, String, u64, u64)> {
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |one: &serde_json::Value, key: &str| one[key].as_str().unwrap().to_owned();
    let number = |one: &serde_json::Value, key: &str| one[key].as_u64().unwrap();
    let places = list.as_array().unwrap().iter().map(|one| {
        let (line, column) = (number(one, "line"), number(one, "column"));
        (text(one, "code"), text(one, "severity"), line, column)
    });
    places.collect()
}

fn place(code: &str, severity: &str, line: u64, column: u64) -> (String, String, u64, u64) {
    (code.to_owned(), severity.to_owned(), line, column)
}

#[test]
fn the_compiler_adds_what_it_alone_sees() {
    let Some(path) = compiler() else { return };
    let folder = folder();
    let ours = check(folder.path(), &path, &["--no-tsc", "-o", "json"]);
    let both = check(folder.path(), &path, &["-o", "json"]);
    let full = check(folder.path(), &path, &["--full", "-o", "json"]);
    for output in [&ours, &both, &full] {
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
    let field = place("unknown-field", "error", 1, 37);
    assert_eq!(places(&ours), std::slice::from_ref(&field));
    let sum = place("TS2362", "warning", 3, 22);
    assert_eq!(places(&both), [field, sum], "{both:?}");
    assert_eq!(places(&both), places(&full));
    let shown = check(folder.path(), &path, &[]);
    let shown = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(shown.contains("lib/wrong.ts:3:22"), "{shown}");
    let mut left: Vec<_> = fs::read_dir(folder.path().join("lib")).unwrap().collect();
    assert_eq!(left.pop().unwrap().unwrap().file_name(), "wrong.ts");
    assert!(left.is_empty(), "nothing is written beside a program");
}

/// A compiler that says what it is told to, in the program's `node_modules`.
fn pretender(folder: &Path, version: &str, says: &str) {
    let bin = folder.join("node_modules/.bin");
    fs::create_dir_all(&bin).unwrap();
    let text = format!(
        "#!/bin/sh\nif test \"$1\" = --version; then echo Version {version}; exit; fi\n{says}\n"
    );
    fs::write(bin.join("tsc"), text).unwrap();
    fs::set_permissions(bin.join("tsc"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// The program has a misspelt field of the API, which is certain, and a misspelt member of its
/// own, about which the compiler decides.
#[test]
fn what_the_compiler_does_not_confirm_is_dropped() {
    let folder = folder();
    let text =
        "const own = { size: 1 };\nprint(own.sise);\nnew Cell({ name: \"web\", memroy: 1 });\n";
    fs::write(folder.path().join("lib/wrong.ts"), text).unwrap();
    let nowhere = Path::new("/nowhere");
    let certain = place("unknown-field", "error", 3, 25);
    let own = place("unknown-field", "warning", 2, 11);
    let alone = check(folder.path(), nowhere, &["-o", "json"]);
    assert_eq!(places(&alone), [own.clone(), certain.clone()]);
    pretender(folder.path(), "7.9.0", "exit 0");
    let decided = check(folder.path(), nowhere, &["-o", "json"]);
    assert_eq!(
        places(&decided),
        std::slice::from_ref(&certain),
        "{decided:?}"
    );
    assert_eq!(decided.status.code(), Some(3));
    let says = "echo 'lib/wrong.ts(2,11): error TS2551: No.'; exit 2";
    pretender(folder.path(), "7.9.0", says);
    let confirmed = check(folder.path(), nowhere, &["-o", "json"]);
    assert_eq!(places(&confirmed), [own.clone(), certain.clone()]);
    for (version, says) in [("6.9.0", "exit 0"), ("7.9.0", "echo panic >&2; exit 9")] {
        pretender(folder.path(), version, says);
        let without = check(folder.path(), nowhere, &["-o", "json"]);
        assert_eq!(places(&without), [own.clone(), certain.clone()]);
        let said = String::from_utf8_lossy(&without.stderr).into_owned();
        assert!(said.contains("TypeScript was not asked: "), "{said}");
        let full = check(folder.path(), nowhere, &["--full"]);
        assert_eq!(full.status.code(), Some(1), "{full:?}");
    }
}

/// The one that the variable names is asked before the one beside the program.
#[test]
fn the_compiler_can_be_named() {
    let (folder, other) = (folder(), folder());
    pretender(folder.path(), "7.9.0", "echo nearest >&2; exit 9");
    pretender(other.path(), "7.9.0", "echo named >&2; exit 9");
    let mut check = Command::new(env!("CARGO_BIN_EXE_aurae"));
    let named = other.path().join("node_modules/.bin/tsc");
    check.args(["check", "--full", "lib/wrong.ts"]);
    check.current_dir(folder.path()).env_clear();
    check.env("PATH", "/usr/bin:/bin").env("AURAE_TSC", named);
    let output = check.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("it failed: named"), "{said}");
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
    for part in ["--full: there is no tsc", "npm install typescript@7"] {
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
