// SPDX-License-Identifier: Apache-2.0
//! Row `neighbour`: what a tenant at its worst does to another one.
//!
//! Two tenants with the default quotas. The hostile one's cell runs the attacks (`attack`), each
//! alone and then all of them; who ends is started again. Meanwhile the fair tenant's user runs a
//! program, one after the other: the tail of that is beside the tail that it had while nothing else
//! ran and the node, its inits and this process had half of the processors. After it, still beside
//! the attack, the bare kernel runs the program as often: what no node can be better than.
//! Natively only the attacks through the API run: a host may have no controllers, and is used by
//! others.
//!
//! An attack counts where its program, in the hostile cell, has told that it did something (forks
//! made or refused, pieces of memory touched, of files written, calls answered or refused for a
//! limit: `attack::evidence`), and tells still that it runs when the last run has been measured; of
//! all together each has to have done something, and one to run. Else the row has failed.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use api::identity::v0 as identity;
use api::runtime::v0::{self as runtime, WaitFor};
use client::credentials::NewKey;
use tokio::task::JoinSet;

use super::Bench;
use super::hostile::{Scratch, WORST, attack_again_and_again};
use crate::attack::{Attack, CELL};
use crate::reference::{PROGRAM, Reference};
use crate::stats::{Figure, Goal, Samples};
use crate::subject::{CA, CERTIFICATE, KEY, Subject, named};
use crate::system::{self, Processors};

const FAIR: &str = "bench-fair";
/// Runs beside an attack that are not measured: it needs a while to be at its worst.
const BEFORE: usize = 30;
/// Runs between two looks at the daemon's memory.
const LOOK: usize = 10;
/// An attack that makes so much of all runs impossible isn't measured any longer.
const LONGEST: Duration = Duration::from_secs(240);
const MIB: f64 = 1_048_576.0;
const MOST: &str = "PSS of the daemon at its most";

/// What came of a number of runs.
#[derive(Default)]
struct Runs {
    times: Samples,
    /// Of bare processes, after them.
    bare: Samples,
    refused: Vec<String>,
    /// The daemon's at its most, in bytes.
    memory: f64,
    /// Why there was no attack beside them.
    unproven: Option<Error>,
}

impl Runs {
    /// Beside the attack of this name, and beside those of a quiet node.
    fn figures(&self, name: &str, quiet: &Self) -> Vec<Figure> {
        if let Some(error) = &self.unproven {
            let row = format!("neighbour, {name}, run p99");
            return vec![Figure::failed(&row, error)];
        }
        let tail = |what, ours: &Samples, quiet: &Samples, goal| {
            let row = format!("neighbour, {name}, {what} p99 (n={})", ours.len());
            Figure::alone(&row, "us", ours.percentile(0.99), goal)
                .beside("quiet, at half of the machine", quiet.percentile(0.99))
        };
        let most = format!("neighbour, {name}, {MOST}");
        vec![
            tail("run", &self.times, &quiet.times, Goal::AtMost(2.0)),
            tail("bare process", &self.bare, &quiet.bare, Goal::None),
            Figure::alone(&most, "MiB", self.memory / MIB, Goal::None),
        ]
    }
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
        let mut reference = Reference::start()?;
        let quiet = self.quiet_at_half(fair, &mut reference).await?;
        ensure!(quiet.refused.is_empty(), "quiet: {:?}", quiet.refused);
        let fits = |one: &&Attack| match self.only.as_slice() {
            [] => self.vm || one.is_by_calls(),
            only => only.contains(one),
        };
        let attacks: Vec<Attack> = Attack::ALL.iter().filter(fits).copied().collect();
        let mut turns: Vec<_> = attacks.iter().map(|one| (one.name(), vec![*one])).collect();
        if attacks.len() > 1 {
            let by_calls = attacks.iter().all(|one| one.is_by_calls());
            turns.push((if by_calls { "all by calls" } else { "all" }, attacks));
        }
        let (mut refused, mut memory) = (Vec::new(), quiet.memory);
        for (name, attacks) in turns {
            let started = Instant::now();
            let runs = self.beside(scratch, fair, worst, &attacks, &mut reference);
            let runs = runs.await?;
            eprintln!("aurae-bench: neighbour, {name}: {:.0?}", started.elapsed());
            figures.extend(runs.figures(name, &quiet));
            memory = memory.max(runs.memory);
            refused.extend(runs.refused);
        }
        if let Some(first) = refused.first() {
            eprintln!("aurae-bench: neighbour: the first refusal: {first}");
        }
        #[expect(clippy::cast_precision_loss, reason = "a count of runs")]
        let count = refused.len() as f64;
        let most = format!("neighbour, {MOST}");
        figures.extend([
            Figure::alone("neighbour, runs refused", "", count, Goal::AtMost(0.0)),
            Figure::alone(&most, "MiB", memory / MIB, Goal::AtMost(64.0)),
        ]);
        Ok(())
    }

    /// With the node, its inits and us on half of the processors.
    async fn quiet_at_half(&self, fair: &Subject, reference: &mut Reference) -> Result<Runs> {
        let (_, init) = self.subject.processes()?;
        let us = [std::process::id(), reference.pid()];
        let processes = || system::with_children(init).map(|nodes| [nodes, us.into()].concat());
        let all = Processors::all()?;
        all.half().allow(&processes()?)?;
        self.runs(fair, BEFORE).await?;
        let runs = self.runs(fair, self.runs).await;
        let bare = reference.forks(self.runs);
        all.allow(&processes()?)?;
        Ok(Runs {
            bare: bare?,
            ..runs?
        })
    }

    /// Beside these attacks.
    async fn beside(
        &self,
        scratch: &Scratch,
        fair: &Subject,
        worst: &Subject,
        attacks: &[Attack],
        reference: &mut Reference,
    ) -> Result<Runs> {
        let place = runtime::ObjectRef {
            tenant: WORST.into(),
            ..named(CELL)
        };
        let cell = scratch.cell(self.subject.socket()?)?;
        self.subject.make_cell_as(place.clone(), cell).await?;
        let mut assault = JoinSet::new();
        // The forks come last: beside them others may find no place to start.
        let mut attacks = attacks.to_vec();
        attacks.sort_by_key(|one| *one == Attack::Forks);
        for attack in &attacks {
            scratch.forget(*attack)?;
            let words = scratch.words(*attack)?;
            assault.spawn(attack_again_and_again(worst.clone(), *attack, words));
            scratch.begins(*attack).await?;
        }
        let mut first = self.runs(fair, BEFORE).await?;
        let measured = self.runs(fair, self.runs).await?;
        let bare = reference.forks(measured.times.len())?;
        let unproven = scratch.check(&attacks).await.err();
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
            bare,
            refused: first.refused,
            memory: first.memory.max(measured.memory),
            unproven,
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
