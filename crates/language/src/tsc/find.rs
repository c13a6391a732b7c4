// SPDX-License-Identifier: Apache-2.0
//! Which compiler there is: the one that `AURAE_TSC` names, else the nearest in a `node_modules`
//! above the program, else the one on `PATH`. npm's package holds a script for Node.js and, in a
//! package beside it, the native program, which is taken where it is: no Node.js is needed.
//!
//! A user who can write a `node_modules` above a program (`/tmp/node_modules` above `/tmp/a/b.ts`)
//! would choose what is executed here. So one is passed over unless it and what it holds belong to
//! the caller or to root, and no other user may write there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Compiler, OLDEST, VARIABLE, watch};

/// How long it may take to say its version.
const VERSION_WITHIN: Duration = Duration::from_secs(10);

/// Why there is no compiler to ask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// None is named, above the program, or on `PATH`.
    #[error("there is no tsc in node_modules above the program, on PATH, or named by {VARIABLE}")]
    Nowhere,
    /// The nearest one is older than those that can be asked.
    #[error("{program} is TypeScript {version}; {OLDEST} or newer is needed")]
    TooOld {
        /// The file.
        program: String,
        /// What it says.
        version: String,
    },
    /// What was found can't be run, or doesn't say its version.
    #[error("can't ask {program} for its version: {why}")]
    Broken {
        /// The file.
        program: String,
        /// What happened.
        why: String,
    },
}

/// The compiler for a program in `folder`. An older one is named and not asked: its defaults are
/// others, and what it says of right programs may be wrong.
///
/// # Errors
/// There is none that can be asked.
pub fn find(folder: &Path) -> Result<Compiler, NotFound> {
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    if let Some(named) = named {
        return checked(PathBuf::from(named));
    }
    let above = folder.ancestors().map(|above| above.join("node_modules"));
    for modules in above.filter(|modules| modules.is_dir()) {
        if let Some(program) = in_modules(&modules) {
            return checked(program);
        }
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A relative part of PATH is the working directory's: a program's folder would choose again.
    let mut folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let on_path = folders.find_map(|folder| {
        let program = folder.join("tsc");
        program.is_file().then_some(program)
    });
    match on_path {
        Some(program) => checked(native_of(&program).unwrap_or(program)),
        None => Err(NotFound::Nowhere),
    }
}

/// The compiler that npm put there.
fn in_modules(modules: &Path) -> Option<PathBuf> {
    let package = modules.join("typescript");
    let program = native_beside(&package).or_else(|| {
        let script = modules.join(".bin/tsc");
        script.is_file().then_some(script)
    })?;
    (is_ours(modules) && is_ours(&program)).then_some(program)
}

/// `typescript/bin/tsc` is a script; the program is in a package beside `typescript`.
fn native_of(script: &Path) -> Option<PathBuf> {
    let script = fs::canonicalize(script).ok()?;
    native_beside(script.parent()?.parent()?)
}

fn native_beside(package: &Path) -> Option<PathBuf> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let name = format!("@typescript/typescript-linux-{arch}/lib/tsc");
    let package = fs::canonicalize(package).ok()?;
    // npm installs it beside `typescript`, or within where versions differ.
    let places = [
        package.parent()?.join(&name),
        package.join("node_modules").join(&name),
    ];
    places.into_iter().find(|place| place.is_file())
}

/// Whether a file, and the folder that holds it, can be changed by the caller and root alone.
fn is_ours(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let safe = |path: &Path| {
        fs::metadata(path).is_ok_and(|it| [0, own].contains(&it.uid()) && it.mode() & 0o002 == 0)
    };
    let Ok(real) = fs::canonicalize(path) else {
        return false;
    };
    safe(&real) && real.parent().is_some_and(safe_unless_sticky)
}

/// Also a folder such as `/tmp`, where only owners replace what is theirs.
fn safe_unless_sticky(folder: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::metadata(folder).is_ok_and(|it| {
        let closed = it.mode() & 0o002 == 0 || it.mode() & 0o1000 != 0;
        [0, own].contains(&it.uid()) && closed
    })
}

fn checked(program: PathBuf) -> Result<Compiler, NotFound> {
    let name = program.display().to_string();
    let broken = |why: String| NotFound::Broken {
        program: name.clone(),
        why,
    };
    let mut command = Command::new(&program);
    command.arg("--version").stdin(Stdio::null());
    let output =
        watch::output(command, VERSION_WITHIN).map_err(|problem| broken(problem.to_string()))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let Some(version) = said.strip_prefix("Version ") else {
        return Err(broken(format!("it says {said:?}")));
    };
    let major = version.split('.').next().unwrap_or_default().parse::<u32>();
    match major {
        Ok(major) if major >= OLDEST => Ok(Compiler {
            version: version.to_owned(),
            program,
        }),
        _ => Err(NotFound::TooOld {
            program: name,
            version: version.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A `node_modules` with a script that says that version.
    fn installed(below: &Path, version: &str) -> PathBuf {
        let bin = below.join("node_modules/.bin");
        fs::create_dir_all(&bin).unwrap();
        let program = bin.join("tsc");
        let text = format!("#!/bin/sh\necho Version {version}\n");
        testkit::program(&program, &text).unwrap();
        program
    }

    #[test]
    fn the_nearest_compiler_above_a_program_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("apps/web");
        fs::create_dir_all(&inner).unwrap();
        let far = installed(folder.path(), "7.1.0");
        assert_eq!(find(&inner).unwrap().program(), far);
        let near = installed(&inner, "8.0.0-dev");
        let found = find(&inner).unwrap();
        assert_eq!((found.program(), found.version()), (&*near, "8.0.0-dev"));
    }

    #[test]
    fn an_older_compiler_is_named_and_not_asked() {
        let folder = tempfile::tempdir().unwrap();
        let program = installed(folder.path(), "6.0.2");
        let said = find(folder.path()).unwrap_err();
        let version = "6.0.2".to_owned();
        let program = program.display().to_string();
        assert_eq!(said, NotFound::TooOld { program, version });
    }

    /// A user who may write there would choose what the caller executes.
    #[test]
    fn a_compiler_that_others_may_change_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let program = installed(folder.path(), "7.1.0");
        assert!(in_modules(&folder.path().join("node_modules")).is_some());
        fs::set_permissions(&program, fs::Permissions::from_mode(0o757)).unwrap();
        assert_eq!(in_modules(&folder.path().join("node_modules")), None);
    }
}
