// SPDX-License-Identifier: Apache-2.0
//! A thousand files of a hundred lines, as a platform team would have them: modules that import one
//! another and make cells and executables, and a program that imports them all. Made anew for each
//! run.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// How many there are.
pub(super) const FILES: usize = 1000;
/// How long each is.
pub(super) const LINES: usize = 100;
/// How many import one another in a row.
const ROW: usize = 10;
/// The program.
const MAIN: &str = "main.ts";
/// Lines that make one service.
const SERVICE: usize = 8;

/// The folder that holds them; gone with it.
pub(super) struct Workspace {
    folder: tempfile::TempDir,
}

impl Workspace {
    pub(super) fn make() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for number in 0..FILES {
            fs::write(folder.path().join(name(number)), text(number))?;
        }
        let imports = (0..FILES).map(|number| format!("import \"./{}\";\n", name(number)));
        fs::write(folder.path().join(MAIN), imports.collect::<String>())?;
        Ok(Self { folder })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The program that imports all of them.
    pub(super) fn main(&self) -> PathBuf {
        self.folder().join(MAIN)
    }

    /// The path of one of them.
    pub(super) fn file(&self, number: usize) -> PathBuf {
        self.folder().join(name(number % FILES))
    }
}

fn name(number: usize) -> String {
    format!("module-{number}.ts")
}

/// The file's text: an import of the one before, services, and lines of plain code to the end.
pub(super) fn text(number: usize) -> String {
    let mut text = String::from("// SPDX-License-Identifier: Apache-2.0\n");
    match number.checked_sub(1) {
        Some(before) if !number.is_multiple_of(ROW) => {
            let _ = writeln!(
                text,
                "import {{ count as before }} from \"./{}\";",
                name(before)
            );
        }
        _ => text.push_str("const before = 0;\n"),
    }
    text.push_str("export const count: number = before + 1;\n");
    let mut lines = 3;
    while lines + SERVICE <= LINES {
        text.push_str(&service(number, lines));
        lines += SERVICE;
    }
    for line in lines..LINES {
        let _ = writeln!(
            text,
            "export const filler{line}: string = `file ${{count}} line {line}`;"
        );
    }
    text
}

fn service(number: usize, line: usize) -> String {
    format!(
        "export async function start{line}(replicas: number): Promise<void> {{
  for (let replica = 0; replica < replicas; replica++) {{
    const name = `service-{number}-{line}-${{replica}}`;
    const cell = new Cell({{ name, resources: {{ memory: {{ max: 268435456 }} }} }});
    await runtime.Run([cell]);
    await runtime.Run(new Executable({{ name: `${{name}}/main`, argv: [\"/bin/sleep\", \"60\"] }}));
  }}
}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_as_long_as_said() {
        for number in [0, 1, FILES - 1] {
            assert_eq!(text(number).lines().count(), LINES, "{}", text(number));
        }
    }
}
