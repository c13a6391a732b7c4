// SPDX-License-Identifier: Apache-2.0
//! Row `logs`: two million lines of a hundred bytes, a write each, from one and from eight writers,
//! against `cat > file` fed by the same writers on the same disk.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use api::runtime::v0::{self as runtime, object::Object as Kind};

use super::Bench;
use crate::stats::{Figure, Goal, Samples};
use crate::subject::named;
use crate::system;

const LINES: usize = 2_000_000;
const LINE: usize = 100;
/// How often each is done.
const TURNS: usize = 3;
const CELL: &str = "bench-logs";
/// A mount may lie where a cell has a folder of its own.
const MOUNTED: &str = "/run/bench";
/// More than all lines.
const KEEP_BYTES: u64 = 1 << 30;

/// What came of one time.
struct Turn {
    /// Lines stored per second.
    rate: f64,
    /// The daemon's, per line.
    cpu_us: f64,
    /// Bytes per byte.
    on_disk: f64,
    /// Bytes that were written and aren't in the log.
    lost: f64,
}

/// Writes so many lines, each in a write of its own.
pub(crate) fn write_lines(count: usize) -> Result<()> {
    let mut line = [b'x'; LINE];
    if let Some(last) = line.last_mut() {
        *last = b'\n';
    }
    for _ in 0..count {
        let wrote = rustix::io::write(rustix::stdio::stdout(), &line)?;
        ensure!(wrote == LINE, "a pipe took {wrote} bytes of a line");
    }
    Ok(())
}

impl Bench {
    pub(super) async fn logs(&self, figures: &mut Vec<Figure>) -> Result<()> {
        let program = std::env::current_exe()?.canonicalize()?;
        let folder = program
            .parent()
            .context("our folder")?
            .display()
            .to_string();
        let mount = runtime::Mount {
            source: folder,
            target: MOUNTED.into(),
            access: runtime::mount::Access::Read.into(),
            ..Default::default()
        };
        let spec = runtime::CellSpec {
            mounts: vec![mount],
            ..Default::default()
        };
        self.subject.make_cell_as(named(CELL), spec).await?;
        for writers in [1, 8] {
            figures.extend(self.writers(&program, writers).await?);
        }
        self.subject.remove(CELL).await
    }

    /// In turns with the reference, so that both see the same machine.
    async fn writers(&self, program: &Path, writers: usize) -> Result<Vec<Figure>> {
        let each = LINES / writers;
        let mut turns = Vec::new();
        for _ in 0..TURNS {
            let cat = self.cat(program, writers, each)?;
            turns.push((cat, self.turn(program, writers, each).await?));
        }
        let of = |what: &dyn Fn(&(f64, Turn)) -> f64| turns.iter().map(what).collect::<Samples>();
        let ratios = of(&|(cat, turn)| turn.rate / cat);
        let row = |what: &str| format!("logs, {writers} writers, {what}");
        let alone = |what: &str, unit, value, goal| Figure::alone(&row(what), unit, value, goal);
        let cpu = of(&|(_, turn)| turn.cpu_us).median();
        let on_disk = of(&|(_, turn)| turn.on_disk).median();
        let lost = turns.iter().map(|(_, turn)| turn.lost).sum();
        Ok(vec![
            Figure {
                row: row("lines stored per second"),
                unit: "1/s",
                ours: of(&|(_, turn)| turn.rate).median(),
                reference: Some(of(&|(cat, _)| *cat).median()),
                against: "cat > file".into(),
                spread: Some((ratios.percentile(0.0), ratios.percentile(1.0))),
                goal: Goal::AtLeast(0.5),
                error: None,
            },
            alone("CPU of the daemon per line", "us", cpu, Goal::None),
            alone("bytes on disk per byte", "", on_disk, Goal::AtMost(1.05)),
            alone("bytes lost", "", lost, Goal::AtMost(0.0)),
        ])
    }

    async fn turn(&self, program: &Path, writers: usize, each: usize) -> Result<Turn> {
        let (daemon, _) = self.subject.processes()?;
        let cpu = system::cpu_seconds(daemon)?;
        let started = Instant::now();
        let statuses = self.subject_writes(program, writers, each).await?;
        let rate = count(LINES) / started.elapsed().as_secs_f64();
        let cpu = system::cpu_seconds(daemon)? - cpu;
        let stored: u64 = statuses.iter().map(|status| status.stdout_bytes).sum();
        let mut on_disk = 0;
        for status in &statuses {
            on_disk += self.on_disk(status)?;
        }
        for writer in 0..writers {
            self.subject.remove(&path(writers, writer)).await?;
        }
        Ok(Turn {
            rate,
            cpu_us: cpu / count(LINES) * 1e6,
            on_disk: count(usize::try_from(on_disk)?) / count(LINES * LINE),
            lost: count(LINES * LINE) - count(usize::try_from(stored)?),
        })
    }

    async fn subject_writes(
        &self,
        program: &Path,
        writers: usize,
        each: usize,
    ) -> Result<Vec<runtime::ExecutableStatus>> {
        let name = program.file_name().context("our name")?.to_string_lossy();
        let words = [
            format!("{MOUNTED}/{name}"),
            "--write-lines".into(),
            each.to_string(),
        ];
        let mut refs = Vec::new();
        for writer in 0..writers {
            let path = path(writers, writer);
            let logs = runtime::LogPolicy {
                max_bytes: Some(KEEP_BYTES),
                ..Default::default()
            };
            let status = self.subject.start_logged(&path, &words, logs).await?;
            let one = status.meta.and_then(|meta| meta.r#ref);
            refs.push(one.unwrap_or_else(|| named(&path)));
        }
        let mut statuses = Vec::new();
        for one in refs {
            let node = self.subject.node();
            let request = runtime::WaitRequest { r#ref: Some(one) };
            let answer = node.runtime().wait(node.unary(request)).await?.into_inner();
            if let Some(Kind::Executable(status)) = answer.object {
                statuses.push(status);
            }
        }
        Ok(statuses)
    }

    /// Lines per second of the same writers into `cat > file`.
    fn cat(&self, program: &Path, writers: usize, each: usize) -> Result<f64> {
        let folder = self.subject.state.join("bench-cat");
        fs::create_dir_all(&folder)?;
        let started = Instant::now();
        let mut cats = Vec::new();
        for writer in 0..writers {
            let file = File::create(folder.join(writer.to_string()))?;
            let mut feed = Command::new(program)
                .args(["--write-lines", &each.to_string()])
                .stdout(Stdio::piped())
                .spawn()?;
            let pipe = feed.stdout.take().context("a writer's stdout")?;
            cats.push((Command::new("cat").stdin(pipe).stdout(file).spawn()?, feed));
        }
        for (mut cat, mut feed) in cats {
            ensure!(
                feed.wait()?.success() && cat.wait()?.success(),
                "cat > file failed"
            );
        }
        let rate = count(LINES) / started.elapsed().as_secs_f64();
        fs::remove_dir_all(&folder)?;
        Ok(rate)
    }

    /// Bytes that the executable's log takes on disk.
    fn on_disk(&self, status: &runtime::ExecutableStatus) -> Result<u64> {
        let one = status
            .meta
            .as_ref()
            .and_then(|meta| meta.r#ref.as_ref())
            .context("a ref")?;
        let folder = self
            .subject
            .state
            .join("logs")
            .join(&one.tenant)
            .join(&one.uid);
        let mut bytes = 0;
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            bytes += entry?.metadata()?.blocks() * 512;
        }
        Ok(bytes)
    }
}

fn path(writers: usize, writer: usize) -> String {
    format!("{CELL}/writer-{writers}-{writer}")
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn count(number: usize) -> f64 {
    number as f64
}
