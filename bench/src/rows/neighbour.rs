// SPDX-License-Identifier: Apache-2.0
//! Row `neighbour`: what a tenant at its worst does to another one.
//!
//! Two tenants with the default quotas. The hostile one's cell runs the attacks (`attack`), each
//! alone and then all of them; who ends is started again. Meanwhile the fair tenant's user runs a
//! program, one after the other: the tail of that is beside the tail that it had while nothing else
//! ran and the node, its inits and this process had half of the processors. Natively only the
//! attacks through the API run: a host may have no controllers, and is used by others.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::identity::v0 as identity;
use api::runtime::v0::{self as runtime, WaitFor};
use client::credentials::NewKey;
use tokio::task::JoinSet;
use tokio::time::interval;

use super::Bench;
use crate::attack::{Attack, CELL};
use crate::reference::PROGRAM;
use crate::stats::{Figure, Goal, Samples};
use crate::subject::{CA, CERTIFICATE, KEY, Subject, named};
use crate::system::{self, Processors};

const WORST: &str = "bench-worst";
const FAIR: &str = "bench-fair";
/// Runs beside an attack that are not measured: it needs a while to be at its worst.
const BEFORE: usize = 30;
/// Runs between two looks at the daemon's memory.
const LOOK: usize = 10;
/// An attack that makes so much of all runs impossible isn't measured any longer.
const LONGEST: Duration = Duration::from_secs(240);
/// Before an attack that has ended, or was refused, is started again.
const AGAIN: Duration = Duration::from_millis(50);
/// Where the hostile cell finds the program, its user's credentials, the node's socket and a disk.
const PROGRAMS: &str = "/run/bench";
const USER: &str = "/run/bench-user";
const NODE: &str = "/run/bench-node";
const DISK: &str = "/run/bench-disk";
/// Who owns on disk what the hostile cell writes there.
const NOBODY: u32 = 65534;
const MIB: f64 = 1_048_576.0;

/// What came of a number of runs.
#[derive(Default)]
struct Runs {
    times: Samples,
    refused: Vec<String>,
    /// The daemon's at its most, in bytes.
    memory: f64,
}

impl Bench {
    pub(super) async fn neighbour(&self, figures: &mut Vec<Figure>) -> Result<()> {
        let scratch = Scratch::make(&self.subject.state)?;
        let fair = self.user(FAIR, &scratch.users).await?;
        let worst = self.user(WORST, &scratch.users).await?;
        fair.make_cell(FAIR).await?;
        let outcome = self.attacks(&scratch, &fair, &worst, figures).await;
        fair.remove(FAIR).await?;
        self.dismiss(FAIR).await?;
        self.dismiss(WORST).await?;
        outcome
    }

    async fn attacks(
        &self,
        scratch: &Scratch,
        fair: &Subject,
        worst: &Subject,
        figures: &mut Vec<Figure>,
    ) -> Result<()> {
        let quiet = self.quiet_at_half(fair).await?;
        ensure!(quiet.refused.is_empty(), "quiet: {:?}", quiet.refused);
        let fits = |one: &&Attack| match self.only.as_slice() {
            [] => self.vm || one.is_by_calls(),
            only => only.contains(one),
        };
        let attacks: Vec<Attack> = Attack::ALL.iter().filter(fits).copied().collect();
        let mut turns: Vec<_> = attacks.iter().map(|one| (one.name(), vec![*one])).collect();
        if attacks.len() > 1 {
            turns.push(("all", attacks));
        }
        let (mut refused, mut memory) = (Vec::new(), quiet.memory);
        for (name, attacks) in turns {
            let started = Instant::now();
            let runs = self.beside(scratch, fair, worst, &attacks).await?;
            eprintln!("aurae-bench: neighbour, {name}: {:.0?}", started.elapsed());
            figures.push(Figure {
                row: format!("neighbour, {name}, run p99 (n={})", runs.times.len()),
                unit: "us",
                ours: runs.times.percentile(0.99),
                reference: Some(quiet.times.percentile(0.99)),
                against: "quiet, at half of the machine".into(),
                spread: None,
                goal: Goal::AtMost(2.0),
            });
            memory = memory.max(runs.memory);
            refused.extend(runs.refused);
        }
        if let Some(first) = refused.first() {
            eprintln!("aurae-bench: neighbour: the first refusal: {first}");
        }
        #[expect(clippy::cast_precision_loss, reason = "a count of runs")]
        let count = refused.len() as f64;
        let most = "neighbour, PSS of the daemon at its most";
        figures.extend([
            Figure::alone("neighbour, runs refused", "", count, Goal::AtMost(0.0)),
            Figure::alone(most, "MiB", memory / MIB, Goal::AtMost(64.0)),
        ]);
        Ok(())
    }

    /// With the node, its inits and us on half of the processors.
    async fn quiet_at_half(&self, fair: &Subject) -> Result<Runs> {
        let (_, init) = self.subject.processes()?;
        let processes = || system::with_children(init);
        let all = Processors::all()?;
        let mut pinned = processes()?;
        pinned.push(std::process::id());
        all.half().allow(&pinned)?;
        self.runs(fair, BEFORE).await?;
        let runs = self.runs(fair, self.runs).await;
        let mut pinned = processes()?;
        pinned.push(std::process::id());
        all.allow(&pinned)?;
        runs
    }

    /// Beside these attacks.
    async fn beside(
        &self,
        scratch: &Scratch,
        fair: &Subject,
        worst: &Subject,
        attacks: &[Attack],
    ) -> Result<Runs> {
        let place = runtime::ObjectRef {
            tenant: WORST.into(),
            ..named(CELL)
        };
        let cell = scratch.cell(self.subject.socket()?)?;
        self.subject.make_cell_as(place.clone(), cell).await?;
        let mut assault = JoinSet::new();
        for attack in attacks {
            assault.spawn(attack_again_and_again(
                worst.clone(),
                *attack,
                scratch.words(*attack)?,
            ));
        }
        let mut first = self.runs(fair, BEFORE).await?;
        let measured = self.runs(fair, self.runs).await?;
        assault.shutdown().await;
        let request = runtime::RemoveRequest {
            r#ref: Some(place),
            recursive: true,
            force: true,
        };
        let node = self.subject.node();
        let removed = node.runtime().remove(node.unary(request)).await;
        removed.context("removing the hostile cell")?;
        first.refused.extend(measured.refused);
        Ok(Runs {
            times: measured.times,
            refused: first.refused,
            memory: first.memory.max(measured.memory),
        })
    }

    /// So many runs of the fair tenant's.
    async fn runs(&self, fair: &Subject, count: usize) -> Result<Runs> {
        let mut runs = Runs::default();
        let (started, path) = (Instant::now(), format!("{FAIR}/one"));
        for number in 0..count {
            match fair.run(&path, &[PROGRAM, "true"], WaitFor::Exited).await {
                Ok(micros) => runs.times.add(micros),
                Err(error) => runs.refused.push(format!("{error:#}")),
            }
            if number % LOOK == 0 {
                let (daemon, _) = self.subject.processes()?;
                runs.memory = runs.memory.max(system::pss(daemon)?);
            }
            if started.elapsed() > LONGEST {
                break;
            }
        }
        let seen = runs.times.len();
        ensure!(
            seen > 0,
            "no run of {count} succeeded: {:?}",
            runs.refused.first()
        );
        Ok(runs)
    }

    /// A user of a tenant of the same name, and a connection of its own.
    async fn user(&self, tenant: &str, folder: &Path) -> Result<Subject> {
        let node = self.subject.node();
        let create = identity::CreateUserRequest {
            tenant: tenant.into(),
            name: tenant.into(),
            ..Default::default()
        };
        if node
            .identity()
            .create_user(node.unary(create))
            .await
            .is_err()
        {
            // Of an earlier measurement on this node.
            let enable = identity::EnableUserRequest {
                tenant: tenant.into(),
                name: tenant.into(),
            };
            let enabled = node.identity().enable_user(node.unary(enable)).await;
            enabled.with_context(|| format!("the user of {tenant}"))?;
        }
        let key = NewKey::generate()?;
        let issue = identity::IssueRequest {
            tenant: tenant.into(),
            name: tenant.into(),
            csr_pem: key.signing_request(tenant)?,
            ..Default::default()
        };
        let issued = node.identity().issue(node.unary(issue)).await;
        let issued = issued.context("a certificate")?.into_inner();
        let folder = folder.join(tenant);
        fs::create_dir(&folder)?;
        fs::write(folder.join(CA), issued.ca_pem)?;
        fs::write(folder.join(CERTIFICATE), issued.certificate_pem)?;
        fs::write(folder.join(KEY), key.to_pem())?;
        Subject::connect_user(self.subject.socket()?, &folder).await
    }

    /// The user is refused from now on.
    async fn dismiss(&self, tenant: &str) -> Result<()> {
        let node = self.subject.node();
        let request = identity::DisableUserRequest {
            tenant: tenant.into(),
            name: tenant.into(),
        };
        node.identity().disable_user(node.unary(request)).await?;
        Ok(())
    }
}

/// Who ends by its own attack, or is refused, is started anew.
async fn attack_again_and_again(worst: Subject, attack: Attack, words: Vec<String>) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let path = format!("{CELL}/{}", attack.name());
    let mut again = interval(AGAIN);
    loop {
        again.tick().await;
        let _ = worst.run(&path, &words, WaitFor::Exited).await;
    }
}

/// Folders of the node that the hostile cell sees; gone when dropped.
struct Scratch {
    users: PathBuf,
    disk: PathBuf,
}

impl Scratch {
    fn make(state: &Path) -> Result<Self> {
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
    fn cell(&self, socket: &Path) -> Result<runtime::CellSpec> {
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
    fn words(&self, attack: Attack) -> Result<Vec<String>> {
        let program = std::env::current_exe()?.canonicalize()?;
        let name = program.file_name().context("our name")?.to_string_lossy();
        let program = format!("{PROGRAMS}/{name}");
        let folder = if attack == Attack::Io { DISK } else { "/tmp" };
        let socket = format!("{NODE}/aurae.sock");
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
        ];
        Ok(words.iter().map(|&word| word.to_owned()).collect())
    }
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
