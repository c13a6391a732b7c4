// SPDX-License-Identifier: Apache-2.0
//! `./x demo`: the main job as a story with visible steps, on a node of its own. Every step is
//! checked: a node that doesn't keep a promise breaks the story.

mod image;

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use testkit::disk::Copy;
use testkit::node::{Bed, Node, Options};

use crate::build;

const VISITS: usize = 60;
/// A line of the server's log.
const VISIT: &str = "GET /?visit=";

/// Runs the command.
pub(crate) fn run() -> Result<ExitCode> {
    println!("Building auraed and aurae");
    let binaries = build::binaries(build::Profile::Dev)?;
    let started = Instant::now();
    let bed = Bed::new(&build::target()?, &binaries)?;
    let files = build::root()?.join("xtask/demo");
    let mut copies = vec![Copy::new(files, "/srv/demo")];
    copies.extend(image::copies()?);
    let options = Options {
        copies,
        ..Options::default()
    };
    println!("Booting Debian's kernel with auraed as PID 1");
    let mut demo = Demo {
        node: bed.boot(&options)?,
        started,
    };
    println!("It serves ({:.1} s)", demo.seconds());
    demo.tell()?;
    demo.node
        .shutdown()
        .context("the node should power off by itself")?;
    println!(
        "\nThe story took {:.0} s, boot and all.",
        started.elapsed().as_secs_f64()
    );
    println!("{NEXT}");
    Ok(ExitCode::SUCCESS)
}

const NEXT: &str = "
What to try next:
  ./x vm                           the same node, and a shell on its console
  ./x vm --run SCRIPT              your own story; its exit status is the command's
  docs/guide                       cells, executables, logs, identity, one after the other
  ./x test                         everything that must hold";

struct Demo {
    node: Node,
    started: Instant,
}

impl Demo {
    fn tell(&mut self) -> Result<()> {
        self.cell()?;
        self.server()?;
        self.logs()?;
        self.death()?;
        self.end_of_cell()?;
        image::tell(self)?;
        self.step("The node powers off");
        Ok(())
    }

    fn cell(&self) -> Result<()> {
        self.step("The node, as its administrator sees it");
        self.shown("aurae node info")?;
        self.step("An isolated cell with limits. It shares no namespace");
        self.shown("aurae cell run web --read /srv/demo --memory 64M --cpus 0.5 --pids-limit 32")
    }

    fn server(&self) -> Result<()> {
        self.step("Debian's nginx in it");
        self.shown(
            "aurae run --cell web --name nginx -d -- nginx -e stderr -c /srv/demo/nginx.conf",
        )?;
        let up = "for try in $(seq 10); do \
            aurae run --cell web --name up --rm -- curl -sfo /dev/null http://localhost/ && exit; \
            done; exit 1";
        if let Err(error) = self.node.sh(up) {
            let log = self.node.sh("aurae logs web/nginx 2>&1")?;
            bail!("nginx should answer ({error:#}); its log says:\n{log}");
        }
        self.step("A page, over the cell's own loopback, by a second executable of the cell");
        self.shown("aurae run --cell web --name probe --rm -- curl -s http://localhost/")?;
        self.step("From outside of the cell there is no such server");
        let said = self.refused("curl -sS --max-time 5 http://localhost/", 7)?;
        ensure!(
            said.contains("refused") || said.contains("connect"),
            "curl said: {said}"
        );
        Ok(())
    }

    fn logs(&self) -> Result<()> {
        self.step("Its log, followed during a visit");
        self.shown(
            "aurae run --cell web --name guest -d -- /srv/demo/visitor 5
             aurae logs -f --tail 0 web/nginx & follower=$!
             aurae wait web/guest
             kill $follower",
        )?;
        self.step("What the cell uses");
        self.shown("aurae top --once")
    }

    fn death(&mut self) -> Result<()> {
        self.step("The daemon is killed with -9, in the middle of 60 more visits");
        let before = self.objects()?;
        let script = format!(
            "aurae run --cell web --name visitor -d -- /srv/demo/visitor {VISITS}
             pidof nginx
             pkill -KILL -f '[s]erve --init-fd'
             aurae wait web/visitor
             pidof nginx"
        );
        self.shown(&script)?;
        let after = self.objects()?;
        for (path, uid, pid) in &before {
            let same = after
                .iter()
                .any(|now| now.0 == *path && now.1 == *uid && now.2 == *pid);
            ensure!(same, "{path} (pid {pid}) isn't what it was: {after:?}");
        }
        self.step("Nothing was lost: the same processes, and every visit in the log, once");
        self.shown("aurae ps")?;
        let log = self.node.sh("aurae logs web/nginx")?;
        // The guest's five came before.
        let mut wanted = (1..=5).chain(1..=VISITS);
        for line in log.lines() {
            let Some((_, rest)) = line.split_once(VISIT) else {
                continue;
            };
            let visit = rest
                .split(' ')
                .next()
                .and_then(|number| number.parse().ok());
            ensure!(
                visit == wanted.next(),
                "a line of the log is lost or doubled:\n{line}"
            );
        }
        if let Some(lost) = wanted.next() {
            bail!("visit {lost} isn't in the log:\n{log}");
        }
        println!("  {} visits, {} lines", VISITS + 5, VISITS + 5);
        Ok(())
    }

    fn end_of_cell(&self) -> Result<()> {
        self.step("Stopped, with its exit status");
        self.shown("aurae stop web/nginx && aurae ps -a")?;
        self.shown("aurae rm -r --force web")
    }

    fn step(&self, what: &str) {
        println!("\n\x1b[1m{what}\x1b[0m  ({:.1} s)", self.seconds());
    }

    fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Runs it on the node for all to see; it has to succeed.
    fn shown(&self, script: &str) -> Result<()> {
        let status = self.run_shown(script)?;
        ensure!(
            status == 0,
            "`{script}` ended with {status} on the node\n{}",
            self.node.console()
        );
        Ok(())
    }

    /// Runs it for all to see; it has to fail with this status. Returns what it said.
    fn refused(&self, script: &str, status: i32) -> Result<String> {
        print_command(script);
        let said = self.node.sh_fails(script, status)?;
        print!("{}", indented(&said));
        Ok(said)
    }

    fn run_shown(&self, script: &str) -> Result<i32> {
        print_command(script);
        let running = self.node.start(script)?;
        let (mut out, mut err) = (Indent::new(stdout()), Indent::new(stderr()));
        running.stream(&mut out, &mut err)
    }

    /// Path, uid and pid of all that runs.
    fn objects(&self) -> Result<Vec<(String, String, u64)>> {
        let listed = self.node.sh("aurae ps -o json")?;
        let listed: serde_json::Value = serde_json::from_str(&listed).context("`ps -o json`")?;
        let mut objects = Vec::new();
        collect(&listed, &mut objects);
        ensure!(
            !objects.is_empty(),
            "`aurae ps -o json` shows nothing: {listed}"
        );
        Ok(objects)
    }
}

/// Finds the statuses wherever they are: what has a reference with a uid, and a pid.
fn collect(value: &serde_json::Value, into: &mut Vec<(String, String, u64)>) {
    if let Some(meta) = value.get("meta").and_then(|meta| meta.get("ref")) {
        let text = |key: &str| {
            meta.get(key)
                .and_then(|it| it.as_str())
                .unwrap_or("")
                .to_owned()
        };
        let pid = value
            .get("pid")
            .and_then(serde_json::Value::as_u64)
            .unwrap_or_default();
        into.push((text("path"), text("uid"), pid));
    }
    match value {
        serde_json::Value::Array(all) => all.iter().for_each(|one| collect(one, into)),
        serde_json::Value::Object(all) => all.values().for_each(|one| collect(one, into)),
        _ => {}
    }
}

fn print_command(script: &str) {
    for line in script.lines() {
        println!("  \x1b[36m# {}\x1b[0m", line.trim());
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// Puts spaces before each line.
struct Indent<W> {
    inner: W,
    at_start: bool,
}

impl<W: Write> Indent<W> {
    const fn new(inner: W) -> Self {
        Self {
            inner,
            at_start: true,
        }
    }
}

impl<W: Write> Write for Indent<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.at_start {
                self.inner.write_all(b"    ")?;
            }
            self.inner.write_all(piece)?;
            self.at_start = piece.ends_with(b"\n");
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
