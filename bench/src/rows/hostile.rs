// SPDX-License-Identifier: Apache-2.0
//! The hostile tenant of row `neighbour`: what its cell has, how an attack is started in it again
//! and again, and whether it goes on. What the attacks are is `attack`'s.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::runtime::v0::{self as runtime, WaitFor};
use tokio::time::interval;

use crate::attack::{Attack, CELL, Told};
use crate::subject::Subject;

pub(super) const WORST: &str = "bench-worst";
/// Before an attack that has ended, or was refused, is started again.
const AGAIN: Duration = Duration::from_millis(50);
/// An attack that tells nothing for so long doesn't run: beside a fork bomb its thread waits for a
/// processor.
const SILENCE: Duration = Duration::from_secs(30);
/// Where the hostile cell finds the program, its user's credentials, the node's socket and a disk.
const PROGRAMS: &str = "/run/bench";
const USER: &str = "/run/bench-user";
const NODE: &str = "/run/bench-node";
const DISK: &str = "/run/bench-disk";
/// Who owns on disk what the hostile cell writes there.
const NOBODY: u32 = 65534;

/// Who ends by its own attack, or is refused, is started anew.
pub(super) async fn attack_again_and_again(worst: Subject, attack: Attack, words: Vec<String>) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let path = format!("{CELL}/{}", attack.name());
    let (mut again, mut said) = (interval(AGAIN), false);
    loop {
        again.tick().await;
        let outcome = worst.run(&path, &words, WaitFor::Exited).await;
        if let Err(error) = outcome
            && !said
        {
            // Under an attack that is normal; where it never starts, this is why.
            eprintln!("aurae-bench: neighbour: refused: {error:#}");
            said = true;
        }
    }
}

/// Folders of the node that the hostile cell sees; gone when dropped.
pub(super) struct Scratch {
    pub(super) users: PathBuf,
    disk: PathBuf,
}

impl Scratch {
    pub(super) fn make(state: &Path) -> Result<Self> {
        let beside = state.parent().context("the state's folder")?;
        let users = std::env::temp_dir().join("aurae-bench-users");
        let disk = beside.join("aurae-bench-disk");
        for folder in [&users, &disk] {
            if folder.exists() {
                fs::remove_dir_all(folder)?;
            }
            fs::create_dir(folder)?;
        }
        chown(&disk, Some(NOBODY), Some(NOBODY))?;
        Ok(Self { users, disk })
    }

    /// What an administrator gives the hostile tenant, which may mount nothing by itself.
    pub(super) fn cell(&self, socket: &Path) -> Result<runtime::CellSpec> {
        let read = |source: &Path, target: &str| runtime::Mount {
            source: source.display().to_string(),
            target: target.into(),
            access: runtime::mount::Access::Read.into(),
            ..Default::default()
        };
        let program = std::env::current_exe()?.canonicalize()?;
        let programs = program.parent().context("our folder")?;
        let disk = runtime::Mount {
            access: runtime::mount::Access::Write.into(),
            owner_uid: Some(NOBODY),
            ..read(&self.disk, DISK)
        };
        let node = socket.parent().context("the socket's folder")?;
        let mounts = vec![
            read(programs, PROGRAMS),
            read(&self.users.join(WORST), USER),
            read(node, NODE),
            disk,
        ];
        Ok(runtime::CellSpec {
            mounts,
            ..Default::default()
        })
    }

    /// The attack's command line in the cell.
    pub(super) fn words(&self, attack: Attack) -> Result<Vec<String>> {
        let program = std::env::current_exe()?.canonicalize()?;
        let name = program.file_name().context("our name")?.to_string_lossy();
        let program = format!("{PROGRAMS}/{name}");
        let folder = if attack == Attack::Io { DISK } else { "/tmp" };
        let socket = format!("{NODE}/aurae.sock");
        let evidence = format!("{DISK}/{}", evidence(attack));
        let words = [
            &program,
            "--attack",
            attack.name(),
            "--folder",
            folder,
            "--user",
            USER,
            "--socket",
            &socket,
            "--evidence",
            &evidence,
        ];
        Ok(words.iter().map(|&word| word.to_owned()).collect())
    }

    /// What was told of this attack before doesn't count.
    pub(super) fn forget(&self, attack: Attack) -> Result<()> {
        match fs::remove_file(self.disk.join(evidence(attack))) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits until it has done something, so that no run is measured before it is felt. One that
    /// does nothing is found by [`Self::check`].
    pub(super) async fn begins(&self, attack: Attack) -> Result<()> {
        let begun = |told: &[Told]| told.iter().all(|one| one.done > 0);
        self.comes_to(&[attack], begun).await?;
        Ok(())
    }

    /// Whether each of these has done something and one still runs. Not each: who was killed may
    /// find no place for a process beside the forks.
    ///
    /// # Errors
    /// It is not so; the message names the attack.
    pub(super) async fn check(&self, attacks: &[Attack]) -> Result<()> {
        let told = self.told(attacks)?;
        for (attack, Told { lines, done }) in attacks.iter().zip(&told) {
            let name = attack.name();
            ensure!(*lines > 0, "the attack {name} never ran");
            ensure!(*done > 0, "the attack {name} ran and did nothing");
            eprintln!("aurae-bench: neighbour: {name} has done {done}");
        }
        ensure!(
            self.tells_more(attacks, &told).await?,
            "no attack ran any more for {SILENCE:?}"
        );
        Ok(())
    }

    /// Whether one of them tells more than this before [`SILENCE`] is over.
    async fn tells_more(&self, attacks: &[Attack], before: &[Told]) -> Result<bool> {
        let more = |told: &[Told]| {
            let mut both = told.iter().zip(before);
            both.any(|(now, had)| now.lines > had.lines)
        };
        self.comes_to(attacks, more).await
    }

    /// Whether what these have told is so before [`SILENCE`] is over.
    async fn comes_to(&self, attacks: &[Attack], is_so: impl Fn(&[Told]) -> bool) -> Result<bool> {
        let (since, mut again) = (Instant::now(), interval(AGAIN));
        while since.elapsed() < SILENCE {
            again.tick().await;
            if is_so(&self.told(attacks)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn told(&self, attacks: &[Attack]) -> Result<Vec<Told>> {
        let files = attacks.iter().map(|one| self.disk.join(evidence(*one)));
        files.map(|file| Told::read(&file)).collect()
    }
}

/// The file in the disk's folder that an attack tells what it has done.
fn evidence(attack: Attack) -> String {
    format!("{}.done", attack.name())
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for folder in [&self.users, &self.disk] {
            if let Err(error) = fs::remove_dir_all(folder) {
                eprintln!("aurae-bench: {} stays behind: {error}", folder.display());
            }
        }
    }
}
