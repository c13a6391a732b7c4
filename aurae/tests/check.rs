// SPDX-License-Identifier: Apache-2.0
//! `aurae check` beside TypeScript's own compiler, of the version that the declarations are
//! held against, installed by npm below `target/` once; `aurae check` of files of values and of
//! data; and `aurae fmt`. They need no node.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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
    testkit::program(&bin.join("tsc"), &text).unwrap();
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

/// A program that says what its values are, and one thing about them that no type says.
const SETTINGS: &str = r#"
interface Host { name: string; port: number }
interface Settings { copies: number; tier: "small" | "large"; hosts: Host[] }
print("a check prints nothing of a program's own");
const settings: Settings = values({ copies: 1, tier: "small", hosts: [] });
if (settings.copies > 9) throw new Error("too many copies");
if (nodes("role=web").length === 0) throw new Error("no node");
await runtime.Run(new Cell({ name: "web" }));
throw new Error("a check goes no further than the first call of a node");
"#;

/// `aurae check` in that folder, without a configuration and with this on standard input.
fn checked(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut check = Command::new(env!("CARGO_BIN_EXE_aurae"));
    check.args(["check", "--no-tsc"]).args(arguments);
    check.current_dir(folder).env_clear().stdin(Stdio::piped());
    check.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = check.spawn().unwrap();
    // One that doesn't read it may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// The only finding of a check with `-o json`: its code, file, line and column, and its message.
fn only(output: &Output) -> (String, String) {
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let [one] = list.as_array().unwrap().as_slice() else {
        panic!("one finding: {list}")
    };
    assert_eq!(one["severity"], "error", "{one}");
    let text = |key: &str| one[key].as_str().unwrap().to_owned();
    let place = format!("{} {}:{}", text("code"), text("file"), one["line"]);
    (format!("{place}:{}", one["column"]), text("message"))
}

fn assert_silent(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

/// Checks the program with these values.
fn laid(folder: &Path, values: &str) -> Output {
    fs::write(folder.join("prod.yaml"), values).unwrap();
    let arguments = ["-o", "json", "--values", "prod.yaml", "lib/settings.ts"];
    checked(folder, &arguments, "")
}

#[test]
fn values_are_checked_without_a_node() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("lib/settings.ts"), SETTINGS).unwrap();
    let right = "{ \"copies\": 2, \"hosts\": [{ \"name\": \"a\", \"port\": 1 }] }";
    fs::write(folder.join("prod.json"), right).unwrap();
    let program = ["--values", "prod.json", "lib/settings.ts"];
    assert_silent(&checked(folder, &program, ""));
    // The path within the file, the place, what is allowed and what is there: as of a plan.
    for (values, place, message) in [
        (
            "copies: two\n",
            "wrong-value prod.yaml:1:1",
            "copies is a number, got text",
        ),
        (
            "copies: 2\ntier: lage\n",
            "wrong-value prod.yaml:2:1",
            "tier is \"small\" or \"large\", got \"lage\"; did you mean \"large\"?",
        ),
        (
            "coipes: 2\n",
            "wrong-value prod.yaml:1:1",
            "coipes is no value of this program; did you mean copies?",
        ),
        (
            "hosts:\n- name: a\n",
            "wrong-value prod.yaml:2:3",
            "hosts.0 lacks port",
        ),
    ] {
        let found = only(&laid(folder, values));
        assert_eq!(found, (place.to_owned(), message.to_owned()));
    }
    let shown = checked(
        folder,
        &["--values", "-", "lib/settings.ts"],
        "copies: two\n",
    );
    let shown = String::from_utf8_lossy(&shown.stderr).into_owned();
    for part in ["copies is a number, got text", "<stdin>:1:1", "1 error"] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
}

#[test]
fn what_no_type_says_of_values_is_found_without_a_node_too() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("lib/settings.ts"), SETTINGS).unwrap();
    let (place, message) = only(&laid(folder, "copies: 10\n"));
    assert!(place.starts_with("thrown lib/settings.ts:6:"), "{place}");
    assert_eq!(message, "Error: too many copies");
    let (place, message) = only(&laid(folder, "- 1\n"));
    assert!(
        place.starts_with("wrong-value lib/settings.ts:5:"),
        "{place}"
    );
    assert!(
        message.contains("prod.yaml: the whole is an object, got a list"),
        "{message}"
    );
    let (place, _) = only(&laid(folder, "copies: [\n"));
    assert!(place.starts_with("wrong-value prod.yaml:"), "{place}");
    // A program that is wrong is told alone, and one without values takes none.
    fs::write(folder.join("prod.yaml"), "copies: two\n").unwrap();
    let arguments = ["-o", "json", "--values", "prod.yaml", "lib/wrong.ts"];
    let (place, _) = only(&checked(folder, &arguments, ""));
    assert_eq!(place, "unknown-field lib/wrong.ts:1:37");
    fs::write(folder.join("lib/none.ts"), "print(1);\n").unwrap();
    let arguments = ["--values", "prod.yaml", "lib/none.ts"];
    let none = checked(folder, &arguments, "");
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let said = String::from_utf8_lossy(&none.stderr);
    assert!(said.contains("a program that calls values()"), "{said}");
}

/// Checks a file of data.
fn data(folder: &Path, name: &str, text: &str) -> (String, String) {
    fs::write(folder.join(name), text).unwrap();
    only(&checked(folder, &["-o", "json", name], ""))
}

#[test]
fn workloads_as_data_are_checked_without_a_node() {
    let folder = folder();
    let folder = folder.path();
    let json = r#"[{ "kind": "cell", "name": "d", "labels": { "app": "d" } },
  { "kind": "executable", "name": "d/a", "argv": ["sleep", "1000"] }]"#;
    fs::write(folder.join("web.json"), json).unwrap();
    let yaml = "kind: cell\nname: d\n---\nkind: executable\nname: d/a\nargv: [sleep, '1']\n";
    fs::write(folder.join("web.yaml"), yaml).unwrap();
    assert_silent(&checked(folder, &["web.json", "web.yaml"], ""));
    for (name, text, place, message) in [
        (
            "field.json",
            "[{\"kind\": \"cell\", \"name\": \"d\"},\n \
             {\"kind\": \"cell\", \"name\": \"e\", \"hostnam\": \"e\"}]",
            "wrong-data field.json:2:2",
            "item 2 (e): Cell has no field \"hostnam\"; did you mean \"hostname\"?",
        ),
        (
            "type.yaml",
            "kind: cell\nname: d\n---\nkind: cell\nname: front\nhostname: 3\n",
            "wrong-data type.yaml:4:1",
            "cell.spec.hostname: expected a string, got a number",
        ),
        (
            "missing.json",
            "{ \"kind\": \"cell\" }",
            "wrong-data missing.json:1:1",
            "it needs a name",
        ),
        (
            "kind.yaml",
            "- kind: machine\n  name: x\n",
            "wrong-data kind.yaml:1:3",
            "a declaration needs kind: ",
        ),
        (
            "empty.yaml",
            "",
            "wrong-data empty.yaml:1:1",
            "nothing is declared",
        ),
    ] {
        let (at, told) = data(folder, name, text);
        assert_eq!(at, place, "{told}");
        assert!(told.contains(message), "{told}");
    }
    let (at, _) = data(folder, "broken.json", "[\n  { \"kind\": }\n]\n");
    assert!(at.starts_with("wrong-data broken.json:2:"), "{at}");
    let arguments = ["--values", "web.yaml", "web.json"];
    let none = checked(folder, &arguments, "");
    assert_eq!(none.status.code(), Some(2), "{none:?}");
}
