// SPDX-License-Identifier: Apache-2.0
//! Units over a connection that is held: from the call until the answer that the job is done. The
//! units are those that `./x bench machine` has put on the disk; systemd's times for the same are
//! taken there.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use api::schedule::v0 as schedule;
use api::schedule::v0::units_client::UnitsClient;
use futures_util::future::try_join_all;
use tonic::transport::Channel;

use crate::stats::Samples;
use crate::subject::{Subject, micros};

/// A service that does nothing.
const ONE: &str = "bench-one.service";
/// The same with a usual sandbox.
const BOXED: &str = "bench-boxed.service";

/// Prints names and numbers, a line each.
pub(crate) async fn print(subject: &Subject, rounds: usize, many: usize) -> Result<()> {
    let units = UnitsClient::new(subject.node().channel());
    let over = Units(units);
    for (unit, start, stop) in [
        (ONE, "held_start_us", "held_stop_us"),
        (BOXED, "held_boxed_us", "held_boxed_stop_us"),
    ] {
        let (mut starts, mut stops) = (Samples::default(), Samples::default());
        over.start(unit).await?;
        over.stop(unit).await?;
        for _ in 0..rounds {
            starts.add(over.start(unit).await?);
            stops.add(over.stop(unit).await?);
        }
        println!(
            "{start} {:.0}\n{stop} {:.0}",
            starts.median(),
            stops.median()
        );
    }
    let mut reloads = Samples::default();
    for _ in 0..rounds.min(5) {
        let begin = Instant::now();
        let request = schedule::ReloadUnitFilesRequest {};
        over.0.clone().reload_unit_files(request).await?;
        reloads.add(micros(begin));
    }
    println!("held_reload_us {:.0}", reloads.median());
    let names: Vec<String> = (1..=many)
        .map(|it| format!("bench-many@{it}.service"))
        .collect();
    let begin = Instant::now();
    try_join_all(names.iter().map(|it| over.start(it))).await?;
    println!("held_many_us {:.0}", micros(begin));
    let begin = Instant::now();
    try_join_all(names.iter().map(|it| over.stop(it))).await?;
    println!("held_many_stop_us {:.0}", micros(begin));
    Ok(())
}

struct Units(UnitsClient<Channel>);

impl Units {
    async fn start(&self, unit: &str) -> Result<f64> {
        let begin = Instant::now();
        let answer = self.0.clone().start_unit(request(unit)).await;
        done(unit, answer.with_context(|| format!("StartUnit {unit}"))?)?;
        Ok(micros(begin))
    }

    async fn stop(&self, unit: &str) -> Result<f64> {
        let begin = Instant::now();
        let answer = self.0.clone().stop_unit(request(unit)).await;
        done(unit, answer.with_context(|| format!("StopUnit {unit}"))?)?;
        Ok(micros(begin))
    }
}

fn request(unit: &str) -> schedule::UnitJobRequest {
    schedule::UnitJobRequest {
        name: unit.to_owned(),
        ..Default::default()
    }
}

fn done(unit: &str, answer: tonic::Response<schedule::UnitJob>) -> Result<()> {
    let job = answer.into_inner();
    ensure!(job.result == "done", "{unit}: its job is {}", job.result);
    Ok(())
}
