// SPDX-License-Identifier: Apache-2.0
//! Generators (systemd.generator(7)): programs of packages that write units from other files, such
//! as systemd's own for `/etc/fstab`. All are run at once, as they are, with the three folders that
//! they write to; once a boot, and again when all files are read again. Called by the manager
//! before it reads any file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use model::executable::DEFAULT_PATH;
use tokio::process::Command;
use tokio::task::JoinSet;
use units::condition::Facts;

use super::facts::{Machine, architecture};

/// How long generators may take; what takes longer is killed.
const TIME: Duration = Duration::from_secs(90);
/// The folders of programs, the first one wins (systemd.generator(7)).
const PROGRAMS: [&str; 5] = [
    "/run/systemd/system-generators",
    "/etc/systemd/system-generators",
    "/usr/local/lib/systemd/system-generators",
    "/lib/systemd/system-generators",
    "/usr/lib/systemd/system-generators",
];
/// What they write to: the folders of ordinary, of strong and of weak units.
const OUTPUTS: [&str; 3] = [
    "/run/systemd/generator",
    "/run/systemd/generator.early",
    "/run/systemd/generator.late",
];

/// Where generators are, where they write, and what says that they have been run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Generators {
    /// Folders of programs, the first one wins.
    pub programs: Vec<PathBuf>,
    /// Normal, early, late: emptied before.
    pub outputs: [PathBuf; 3],
    /// A file that is gone with the boot.
    pub mark: PathBuf,
}

impl Generators {
    /// The machine's, with a mark in this folder.
    pub fn of_machine(run: &Path) -> Generators {
        Generators {
            programs: PROGRAMS.map(PathBuf::from).to_vec(),
            outputs: OUTPUTS.map(PathBuf::from),
            mark: run.join("generated"),
        }
    }

    /// The programs to run: of each name the first one, unless that is masked or no program.
    fn find(&self) -> Vec<PathBuf> {
        let mut found: Vec<(std::ffi::OsString, PathBuf)> = Vec::new();
        for folder in &self.programs {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if !found.iter().any(|(it, _)| *it == name) {
                    found.push((name, entry.path()));
                }
            }
        }
        found.sort();
        let runs = |path: &Path| {
            let meta = fs::metadata(path);
            meta.is_ok_and(|it| {
                it.is_file() && it.len() > 0 && it.permissions().mode() & 0o111 != 0
            })
        };
        let programs = found.into_iter().map(|(_, path)| path);
        programs.filter(|path| runs(path)).collect()
    }

    /// The folders, empty.
    fn clear(&self) -> std::io::Result<()> {
        for output in &self.outputs {
            match fs::remove_dir_all(output) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => fs::create_dir_all(output)?,
            }
        }
        Ok(())
    }

    /// Runs all of them, where it wasn't done in this boot, or `again`. What fails is told of, and
    /// the others count.
    pub(crate) async fn run(&self, again: bool) {
        if self.mark.exists() && !again {
            return;
        }
        let own = self.clone();
        let prepared = tokio::task::spawn_blocking(move || {
            own.clear()?;
            Ok::<_, std::io::Error>((own.find(), told(&Machine).into()))
        });
        let (programs, told): (_, Arc<[_]>) = match prepared.await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return tracing::error!(%error, "the folders of generators"),
            Err(error) => return tracing::error!(%error, "the folders of generators"),
        };
        let count = programs.len();
        let mut running = JoinSet::new();
        for program in programs {
            running.spawn(one(program, self.outputs.clone(), told.clone()));
        }
        running.join_all().await;
        if let Err(error) = fs::write(&self.mark, "") {
            tracing::warn!(%error, "generators will be run by the next daemon again");
        }
        tracing::info!(count, "generators were run");
    }
}

/// What generators are told of the machine (systemd.generator(7), "Environment").
fn told(machine: &impl Facts) -> Vec<(&'static str, String)> {
    let number = |is: bool| u8::from(is).to_string();
    let mut all = vec![
        ("PATH", DEFAULT_PATH.to_owned()),
        ("SYSTEMD_SCOPE", "system".to_owned()),
        ("SYSTEMD_IN_INITRD", number(false)),
        (
            "SYSTEMD_FIRST_BOOT",
            number(machine.first_boot() == Some(true)),
        ),
        ("SYSTEMD_ARCHITECTURE", architecture().to_owned()),
    ];
    if let Some(Some(found)) = machine.virtualization() {
        let kind = if found.container { "container" } else { "vm" };
        all.push(("SYSTEMD_VIRTUALIZATION", format!("{kind}:{}", found.name)));
    }
    all
}

async fn one(program: PathBuf, outputs: [PathBuf; 3], told: Arc<[(&'static str, String)]>) {
    let mut command = Command::new(&program);
    command
        .args(outputs)
        .current_dir("/")
        .env_clear()
        .envs(told.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(TIME, command.status()).await;
    let program = program.display();
    match ended {
        Ok(Ok(status)) if status.success() => {}
        Ok(Ok(status)) => tracing::warn!(%program, %status, "a generator failed"),
        Ok(Err(error)) => tracing::warn!(%program, %error, "a generator can't be run"),
        Err(_) => tracing::warn!(%program, ?TIME, "a generator took too long"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(folder: &Path, name: &str, text: &str) {
        fs::create_dir_all(folder).unwrap();
        testkit::program(&folder.join(name), text).unwrap();
    }

    #[tokio::test]
    async fn generators_are_run_once_and_the_first_of_a_name_counts() {
        let top = std::env::temp_dir().join(format!("aurae-generate-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        let (first, second) = (top.join("first"), top.join("second"));
        let outputs = ["normal", "early", "late"].map(|it| top.join(it));
        let writes =
            |text: &str| format!("#!/bin/sh\necho {text} $# $SYSTEMD_SCOPE >> $1/a.service\n");
        script(&first, "one", &writes("first"));
        script(&second, "one", &writes("second"));
        script(&second, "fails", "#!/bin/sh\nexit 3\n");
        script(&second, "masked", &writes("masked"));
        std::os::unix::fs::symlink("/dev/null", first.join("masked")).unwrap();
        let generators = Generators {
            programs: vec![first, second],
            outputs: outputs.clone(),
            mark: top.join("mark"),
        };
        let made = || fs::read_to_string(outputs[0].join("a.service")).unwrap();
        generators.run(false).await;
        assert_eq!(made(), "first 3 system\n");
        fs::write(outputs[2].join("old.service"), "").unwrap();
        generators.run(false).await;
        assert!(outputs[2].join("old.service").exists(), "run twice");
        // A reload begins with empty folders.
        generators.run(true).await;
        assert_eq!(made(), "first 3 system\n");
        assert!(!outputs[2].join("old.service").exists());
        fs::remove_dir_all(top).unwrap();
    }
}
