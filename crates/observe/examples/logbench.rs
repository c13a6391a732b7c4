// SPDX-License-Identifier: Apache-2.0
//! The mover alone, without a node around it: lines of 100 bytes, a write each, from one and from
//! eight writers, into the log store and into `cat > file`, in turn. For tuning; `./x bench logs`
//! measures the whole node.
//!
//! ```text
//! cargo run --release -p node --example logbench -- [LINES] [FOLDER]
//! ```

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use model::executable::LogPolicy;
use model::name::Uid;
use model::observe::Stream;
use observe::{LogKey, Logs, LogsConfig};

type Outcome<T> = Result<T, Box<dyn Error>>;

const LINE: usize = 100;
const ROUNDS: usize = 3;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, count] = arguments.as_slice()
        && flag == "--write"
    {
        return write_lines(count.parse()?);
    }
    let lines = arguments.first().map_or(Ok(2_000_000), |n| n.parse())?;
    let folder = arguments.get(1).map_or("/var/tmp", String::as_str);
    let root = Path::new(folder).join(format!("logbench-{}", std::process::id()));
    fs::create_dir(&root)?;
    let outcome = measure(lines, &root);
    fs::remove_dir_all(&root)?;
    outcome
}

/// A write per line, as a program does that flushes.
fn write_lines(count: usize) -> Outcome<()> {
    let mut line = [b'x'; LINE];
    line[LINE - 1] = b'\n';
    let mut out = File::from(rustix::io::dup(rustix::stdio::stdout())?);
    for _ in 0..count {
        out.write_all(&line)?;
    }
    Ok(())
}

fn measure(lines: usize, root: &Path) -> Outcome<()> {
    println!(
        "writers | ours klines/s | cat klines/s | ratio | mover us/line | disk/byte | lost bytes"
    );
    for writers in [1, 8] {
        for _ in 0..ROUNDS {
            let cat = through_cat(lines / writers, writers, root)?;
            let ours = through_logs(lines / writers, writers, root)?;
            println!(
                "{writers:7} | {:13.0} | {:12.0} | {:5.2} | {:13.3} | {:9.3} | {}",
                ours.rate / 1e3,
                cat / 1e3,
                ours.rate / cat,
                ours.mover_us,
                ours.disk_per_byte,
                ours.lost
            );
        }
    }
    Ok(())
}

struct Ours {
    rate: f64,
    mover_us: f64,
    disk_per_byte: f64,
    lost: u64,
}

fn writer(count: usize, to: Stdio) -> Outcome<Child> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.args(["--write", &count.to_string()]).stdout(to);
    Ok(command.spawn()?)
}

fn through_cat(each: usize, writers: usize, root: &Path) -> Outcome<f64> {
    let begun = Instant::now();
    let mut children = Vec::new();
    for number in 0..writers {
        let mut one = writer(each, Stdio::piped())?;
        let file = File::create(root.join(format!("cat-{number}")))?;
        let from = one.stdout.take().ok_or("no pipe")?;
        children.push(Command::new("cat").stdin(from).stdout(file).spawn()?);
        children.push(one);
    }
    for mut child in children {
        child.wait()?;
    }
    let rate = rate(each * writers, begun);
    for number in 0..writers {
        fs::remove_file(root.join(format!("cat-{number}")))?;
    }
    Ok(rate)
}

fn through_logs(each: usize, writers: usize, root: &Path) -> Outcome<Ours> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let logs = Logs::start(&root.join("logs"), LogsConfig::default())?;
        let begun = Instant::now();
        let mut children = Vec::new();
        let mut keys = Vec::new();
        for number in 0..writers {
            let mut one = writer(each, Stdio::piped())?;
            let from = OwnedFd::from(one.stdout.take().ok_or("no pipe")?);
            let key = LogKey {
                tenant: "bench".parse()?,
                uid: Uid([u8::try_from(number)?; 16]),
            };
            let sources = vec![(Stream::Stdout, from)];
            logs.attach(key.clone(), sources, &LogPolicy::default())
                .await?;
            children.push(one);
            keys.push(key);
        }
        for mut child in children {
            child.wait()?;
        }
        let mut stored = 0;
        for key in &keys {
            stored += logs.drained(key.uid).await?.stdout_bytes;
        }
        let rate = rate(each * writers, begun);
        let bytes = each * writers * LINE;
        let mover_us = mover_cpu()? * 1e6 / (each * writers) as f64;
        let mut on_disk = 0;
        for key in &keys {
            on_disk += logs.disk_bytes(key)?;
            logs.remove(key).await?;
        }
        logs.stop().await?;
        Ok(Ours {
            rate,
            mover_us,
            disk_per_byte: on_disk as f64 / bytes as f64,
            lost: bytes as u64 - stored,
        })
    })
}

fn rate(lines: usize, begun: Instant) -> f64 {
    lines as f64 / begun.elapsed().as_secs_f64()
}

/// Seconds of CPU of the mover's thread, which began with the measurement.
fn mover_cpu() -> Outcome<f64> {
    for task in fs::read_dir("/proc/self/task")? {
        let folder = task?.path();
        if fs::read_to_string(folder.join("comm"))?.trim() == "log-mover" {
            let stat = fs::read_to_string(folder.join("schedstat"))?;
            let nanoseconds = stat.split_whitespace().next().ok_or("an empty schedstat")?;
            return Ok(nanoseconds.parse::<f64>()? / 1e9);
        }
    }
    Err("there is no mover".into())
}
