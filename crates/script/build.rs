// SPDX-License-Identifier: Apache-2.0
//! Compiles what every evaluator starts with, its host surface and the friendly layer, into the
//! engine's bytecode: reading it takes a tenth of compiling it. The engine that compiles is the one
//! that will read, built for the machine that builds; its bytecode is the same on every 64-bit
//! machine of little-endian order, and the engine refuses that of another version.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use rquickjs::{CatchResultExt, Context, Module, Runtime, WriteOptions};

/// Of the surface: functions, each of which becomes the default export of a module.
const SURFACE: &str = "src/evaluator/js";
const FUNCTIONS: [&str; 5] = ["inspect", "plan", "runtime", "typed", "values"];

/// The layer, a module already. `language` keeps it true to its sources by a test.
const LAYER: &str = "../language/prelude/prelude.js";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SURFACE}");
    println!("cargo::rerun-if-changed={LAYER}");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for name in FUNCTIONS {
        let text = fs::read_to_string(Path::new(SURFACE).join(format!("{name}.js")))?;
        // On the first line, so that all others keep their numbers.
        let code = format!("export default {text}");
        fs::write(out.join(name), compile(&format!("aurae:{name}"), &code)?)?;
    }
    let layer = fs::read_to_string(LAYER)?;
    fs::write(out.join("prelude"), compile("aurae:prelude", &layer)?)?;
    Ok(())
}

/// The module's bytecode: with its functions' names and lines, without its text.
fn compile(name: &str, code: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let context = Context::full(&runtime)?;
    context.with(|ctx| {
        let options = WriteOptions {
            strip_source: true,
            ..WriteOptions::default()
        };
        let written = Module::declare(ctx.clone(), name, code).and_then(|it| it.write(options));
        written
            .catch(&ctx)
            .map_err(|caught| format!("{name}: {caught}").into())
    })
}
