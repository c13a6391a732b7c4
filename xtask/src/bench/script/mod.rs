// SPDX-License-Identifier: Apache-2.0
//! Row `script`: what the language takes, beside Node.js doing the same. Natively, on a node of its
//! own. Each figure stands alone: where the command or the peer isn't there, it says so.

mod editor;
mod peer;
mod workspace;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::exec;

use super::native::Service;
use super::table::Row;
use crate::build;
use editor::Editor;
use peer::NodeJs;
use workspace::Workspace;

/// How often each is started, in turns with the peer.
const STARTS: usize = 40;
/// The same of what takes long.
const TURNS: usize = 5;
/// Completions that are asked for.
const COMPLETIONS: usize = 300;
/// A program that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Measures everything that there is to this row.
pub(super) fn measure(binaries: &Path) -> Vec<Row> {
    let aurae = binaries.join("aurae");
    let mut rows = Vec::new();
    let peer = NodeJs::obtain();
    let mut take = |name: &str, measured: Result<Vec<Row>>| {
        rows.extend(measured.unwrap_or_else(|error| vec![Row::failed(name, "native", &error)]));
    };
    take(
        "script, file to first RPC",
        first(binaries, &aurae, peer.as_ref()),
    );
    take("script, loops", loops(&aurae, peer.as_ref()));
    match Workspace::make() {
        Ok(workspace) => {
            take("script, check", check(&aurae, &workspace));
            take("script, language server", lsp(&aurae, &workspace));
        }
        Err(error) => take("script, check and language server", Err(error)),
    }
    rows
}

/// From the start of the program to the answer of its first call.
fn first(binaries: &Path, aurae: &Path, peer: Result<&NodeJs, &anyhow::Error>) -> Result<Vec<Row>> {
    let service = Service::start(binaries)?;
    let file = build::root()?.join("bench/script/first.ts");
    let ours = || {
        let mut ours = Command::new(aurae);
        service.address(&mut ours).arg(&file);
        answered(&mut ours)
    };
    let theirs = || match peer {
        Ok(peer) => answered(&mut peer.first(&service)?).map(Some),
        Err(_) => Ok(None),
    };
    ours().context("aurae FILE.ts")?;
    theirs().context("node with @grpc/grpc-js")?;
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        our_times.push(ours()?);
        their_times.extend(theirs()?);
    }
    let name = format!("script, file to first RPC p50 (n={STARTS})");
    let row = Row::alone(&name, "native", "ms", median(our_times.clone()), "<= 10");
    let beside = Row::alone(
        "script, file to first RPC beside node",
        "native",
        "ms",
        median(our_times),
        "",
    );
    Ok(vec![
        row,
        with_peer(beside, "node with @grpc/grpc-js", their_times, peer),
    ])
}

/// A program that only computes, from its start to its end.
fn loops(aurae: &Path, peer: Result<&NodeJs, &anyhow::Error>) -> Result<Vec<Row>> {
    let file = build::root()?.join("bench/script/loop.ts");
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        our_times.push(answered(Command::new(aurae).arg(&file))?);
        if let Ok(peer) = peer {
            their_times.push(answered(&mut peer.run(&file)?)?);
        }
    }
    let row = Row::alone(
        "script, loops, strings and sorting",
        "native",
        "ms",
        median(our_times),
        "",
    );
    Ok(vec![with_peer(
        row,
        "node, the same file",
        their_times,
        peer,
    )])
}

fn with_peer(row: Row, name: &str, times: Vec<f64>, peer: Result<&NodeJs, &anyhow::Error>) -> Row {
    match peer {
        Ok(_) => row.beside((name, median(times))),
        Err(error) => Row {
            against: format!("{name}: {error:#}"),
            ..row
        },
    }
}

fn check(aurae: &Path, workspace: &Workspace) -> Result<Vec<Row>> {
    let mut times = Vec::new();
    for _ in 0..TURNS {
        let mut check = Command::new(aurae);
        check.arg("check").arg(workspace.main());
        let started = Instant::now();
        exec::read(&mut check)?;
        times.push(started.elapsed().as_secs_f64());
    }
    let name = format!(
        "script, check of {} files of {} lines",
        workspace::FILES,
        workspace::LINES
    );
    Ok(vec![Row::alone(
        &name,
        "native",
        "s",
        median(times),
        "<= 0.5",
    )])
}

fn lsp(aurae: &Path, workspace: &Workspace) -> Result<Vec<Row>> {
    let mut editor = Editor::start(aurae, workspace)?;
    let mut times = Vec::new();
    for turn in 0..COMPLETIONS {
        times.push(editor.complete(workspace, turn)?);
    }
    let memory = editor.memory()?;
    times.sort_by(f64::total_cmp);
    let p99 = times
        .get(times.len() * 99 / 100)
        .copied()
        .context("no completions")?;
    let name = format!("script, completion p99 (n={COMPLETIONS})");
    Ok(vec![
        Row::alone(&name, "native", "ms", p99, "<= 20"),
        Row::alone("script, memory of aurae lsp", "native", "MiB", memory, ""),
    ])
}

/// Milliseconds until it has printed a line; it has to end well, too.
fn answered(command: &mut Command) -> Result<f64> {
    use std::io::{BufRead, BufReader, Read};
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().context("its stdout")?);
    out.read_line(&mut line)?;
    let time = started.elapsed();
    let mut said = String::new();
    child
        .stderr
        .take()
        .context("its stderr")?
        .read_to_string(&mut said)?;
    let status = child.wait()?;
    ensure!(
        status.success() && !line.is_empty(),
        "`{}` ended with {status}: {}",
        exec::shown(command),
        exec::last_lines(&said, 5)
    );
    ensure!(time < TIMEOUT, "`{}` took {time:?}", exec::shown(command));
    Ok(time.as_secs_f64() * 1e3)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
