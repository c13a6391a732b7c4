// SPDX-License-Identifier: Apache-2.0
//! The editors' server with real neovim, which starts it by the configuration in `editors/neovim`
//! and does what a person does. This program is the server too: with the argument [`SERVE`].

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that can't go on says why"
)]

use std::fs;
use std::io::{self, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use language::check::Environment;
use serde_json::Value;
use testkit::stories::Told;

/// Set to do without neovim where there is none: the test then says so and passes.
const WITHOUT: &str = "AURAE_TESTS_WITHOUT_NEOVIM";

/// The argument that makes this program the server.
const SERVE: &str = "serve-neovim";

const STORIES: &[(&str, fn())] = &[("neovim_works_with_the_server", neovim_works_with_the_server)];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(SERVE) {
        serve();
        return ExitCode::SUCCESS;
    }
    testkit::stories::run(STORIES, || Ok(()), |_, story| Told::by(story))
}

fn serve() {
    let environment = Arc::new(Environment::new(language::declare::aurae_d_ts().unwrap()));
    let input = BufReader::new(io::stdin());
    let setup = language::lsp::Setup {
        environment,
        cache: std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")),
        typescript: false,
    };
    language::lsp::serve(setup, input, io::stdout()).unwrap();
}

fn neovim_works_with_the_server() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("aurae.json"), "{}").unwrap();
    let file = folder.path().join("main.ts");
    let text = "const s = await runtime.Lst({ pageSize: 3 })\nconst list = s.objects;\nprint(list.length)\n";
    fs::write(&file, text).unwrap();
    let result = folder.path().join("result.json");
    let mut nvim = Command::new("nvim");
    nvim.args(["--headless", "-u", "NONE", "-i", "NONE", "-c"])
        .arg(format!(
            "luafile {}",
            here.join("tests/neovim/drive.lua").display()
        ))
        .env("AURAE_TEST_EDITOR", here.join("../../editors/neovim"))
        .env("AURAE_TEST_SERVER", std::env::current_exe().unwrap())
        .env("AURAE_TEST_FILE", &file)
        .env("AURAE_TEST_RESULT", &result)
        .env("HOME", folder.path());
    let output = match nvim.output() {
        Ok(output) => output,
        Err(error) if std::env::var_os(WITHOUT).is_some() => {
            eprintln!("without neovim: {error}");
            return;
        }
        Err(error) => panic!("nvim (Debian's neovim; {WITHOUT}=1 to do without): {error}"),
    };
    let Ok(told) = fs::read_to_string(&result) else {
        panic!("neovim told nothing: {output:?}");
    };
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["failed"], Value::Null, "{told}");
    assert_eq!(told["findings"][0]["code"], "unknown-method", "{told}");
    assert_eq!(told["repair"], "Change to `List`");
    assert_eq!(
        told["repaired"],
        "const s = await runtime.List({ pageSize: 3 })"
    );
    let declared = told["declared"].as_str().unwrap();
    let declared = fs::read_to_string(declared.strip_prefix("file://").unwrap()).unwrap();
    assert!(declared.contains("declare namespace runtime"), "{told}");
    let completed = told["completed"].as_array().unwrap();
    assert!(completed.contains(&Value::from("RunCell")), "{told}");
    assert!(
        told["hover"].as_str().unwrap().contains("runtime"),
        "{told}"
    );
    let wanted = "const s = await runtime.List({ pageSize: 3 });\nconst answer = s.objects;\n\
                  print(answer.length);";
    assert_eq!(told["text"].as_str().unwrap().trim_end(), wanted);
}
