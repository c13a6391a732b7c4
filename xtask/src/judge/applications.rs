// SPDX-License-Identifier: Apache-2.0
//! Real applications as images: each is pulled from a registry, run by `aurae run IMAGE`, asked by
//! its own client beside it, and stopped with its own signal, at which it must end as it says that
//! it does. Three of them are inits: s6's, which supervises, catatonit, which does nothing unless
//! it is PID 1, and Debian's systemd, which starts a service.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testkit::exec;

use super::images::Images;
use crate::bench::native::Service;
use crate::bench::pull::peers::Registry;
use crate::build::{self, Profile};

/// Until an application answers its client: a Java server begins slowly on a busy machine.
const READY: Duration = Duration::from_secs(120);
/// Between two questions: no application tells a process outside when it serves.
const LOOK: Duration = Duration::from_millis(200);

/// One application.
struct Application {
    name: &'static str,
    /// What its image says, as flags of `umoci config`.
    image: &'static [&'static str],
    /// Further flags of `aurae run`.
    flags: &'static [&'static str],
    /// Its client, run beside it in the container, again and again until it succeeds and prints
    /// `answer`.
    client: &'static str,
    answer: &'static str,
    /// How it ends when it is stopped.
    end: &'static str,
}

const APPLICATIONS: [Application; 8] = [
    Application {
        name: "nginx",
        image: &[
            "--config.entrypoint=nginx",
            "--config.cmd=-g",
            "--config.cmd=daemon off;",
            "--config.stopsignal=SIGQUIT",
            "--config.exposedports=80/tcp",
        ],
        flags: &[],
        client: "curl -sS http://localhost/",
        answer: "Welcome to nginx",
        end: "(0)",
    },
    Application {
        name: "postgres",
        image: &[
            "--config.user=postgres",
            "--config.entrypoint=/usr/lib/postgresql/15/bin/postgres",
            "--config.cmd=-D",
            "--config.cmd=/var/lib/postgresql/15/main",
            "--config.cmd=-c",
            "--config.cmd=config_file=/etc/postgresql/15/main/postgresql.conf",
            // Debian makes its folder at boot.
            "--config.cmd=-c",
            "--config.cmd=unix_socket_directories=/tmp",
            "--config.stopsignal=SIGINT",
        ],
        flags: &[],
        client: "psql -h /tmp -qtA -c 'drop table if exists t; create table t(a int); \
                 insert into t select generate_series(1, 1000); select sum(a) from t'",
        answer: "500500",
        end: "(0)",
    },
    Application {
        name: "redis",
        image: &[
            "--config.user=redis",
            "--config.workingdir=/var/lib/redis",
            "--config.entrypoint=redis-server",
            "--config.cmd=--appendonly",
            "--config.cmd=yes",
        ],
        flags: &[],
        client: "redis-cli set key value && redis-cli get key && redis-cli incr visits",
        answer: "OK\nvalue\n1",
        end: "(0)",
    },
    Application {
        name: "tomcat",
        image: &[
            "--config.user=tomcat",
            "--config.env=CATALINA_HOME=/usr/share/tomcat10",
            "--config.env=CATALINA_BASE=/var/lib/tomcat10",
            "--config.env=CATALINA_TMPDIR=/tmp",
            "--config.env=JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64",
            "--config.entrypoint=/usr/share/tomcat10/bin/catalina.sh",
            "--config.cmd=run",
        ],
        flags: &[],
        client: "curl -sSf http://localhost:8080/",
        answer: "It works !",
        // 128 and SIGTERM: what Java ends with when it has shut down in order.
        end: "(143)",
    },
    Application {
        name: "radicale",
        image: &[
            "--config.user=radicale",
            "--config.workingdir=/var/lib/radicale",
            "--config.entrypoint=radicale",
            "--config.cmd=--server-hosts",
            "--config.cmd=127.0.0.1:5232",
            "--config.cmd=--auth-type",
            "--config.cmd=none",
            // Debian's service is given its folder by systemd.
            "--config.cmd=--storage-filesystem-folder",
            "--config.cmd=/tmp/collections",
            "--config.cmd=--rights-type",
            "--config.cmd=authenticated",
        ],
        flags: &[],
        client: "printf 'BEGIN:VCALENDAR\\r\\nVERSION:2.0\\r\\nPRODID:x\\r\\nBEGIN:VEVENT\\r\\nUID:1\\r\\n\
                 DTSTART:20260101T000000Z\\r\\nDTSTAMP:20260101T000000Z\\r\\nSUMMARY:judged\\r\\n\
                 END:VEVENT\\r\\nEND:VCALENDAR\\r\\n' | curl -sSf -u judge: -X PUT \
                 -H 'Content-Type: text/calendar' --data-binary @- \
                 http://localhost:5232/judge/calendar/ && \
                 curl -sSf -u judge: http://localhost:5232/judge/calendar/",
        answer: "SUMMARY:judged",
        end: "(0)",
    },
    Application {
        name: "s6",
        image: &["--config.entrypoint=s6-svscan", "--config.cmd=/etc/s6"],
        flags: &[],
        client: "s6-svok /etc/s6/sleep && s6-svstat -o up /etc/s6/sleep && \
                 readlink /proc/1/exe",
        answer: "true\n/usr/bin/s6-svscan",
        end: "(0)",
    },
    Application {
        name: "catatonit",
        image: &[
            "--config.user=redis",
            "--config.workingdir=/tmp",
            "--config.entrypoint=catatonit",
            "--config.cmd=redis-server",
        ],
        flags: &[],
        client: "redis-cli ping && cat /proc/1/comm",
        answer: "PONG\ncatatonit",
        end: "(0)",
    },
    Application {
        name: "systemd",
        image: &[
            "--config.env=container=aurae",
            "--config.entrypoint=/sbin/init",
            "--config.cmd=--unit=basic.target",
            "--config.stopsignal=SIGRTMIN+3",
        ],
        flags: &[
            "--delegate-cgroup",
            "--tmpfs",
            "/run",
            "--tmpfs",
            "/run/lock",
            "--tmpfs",
            "/tmp",
        ],
        client: "systemctl start nginx && systemctl is-active nginx && \
                 curl -sSf http://localhost/ | grep -o 'Welcome to nginx' | head -n 1 && \
                 cat /proc/1/comm",
        answer: "active\nWelcome to nginx\nsystemd",
        end: "(0)",
    },
];

/// Runs those of these names; none: all.
pub(super) fn run(names: &[String]) -> Result<ExitCode> {
    let known = |name: &String| APPLICATIONS.iter().any(|it| it.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all = APPLICATIONS.map(|it| it.name).join(", ");
        bail!("no application {unknown}: there are {all}");
    }
    let binaries = build::binaries(Profile::Dev)?;
    let images = Images::make()?;
    let bed = Bed::start(binaries)?;
    let mut failed = 0;
    let wanted = |it: &&Application| names.is_empty() || names.iter().any(|one| one == it.name);
    for application in APPLICATIONS.iter().filter(wanted) {
        let begun = Instant::now();
        let outcome = bed.judge(&images, application);
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("{} ... ok ({seconds:.0} s)", application.name),
            Err(error) => {
                failed += 1;
                println!(
                    "{} ... FAILED ({seconds:.0} s)\n{error:#}",
                    application.name
                );
            }
        }
        bed.remove(application);
    }
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// A node as a service of this machine, and a registry.
struct Bed {
    binaries: PathBuf,
    node: Service,
    registry: Registry,
    _folder: tempfile::TempDir,
}

impl Bed {
    fn start(binaries: PathBuf) -> Result<Self> {
        let folder = tempfile::tempdir_in(build::target()?)?;
        let registry = Registry::start(folder.path())?;
        let hosts = folder.path().join("registries.toml");
        let host = registry.host();
        fs::write(&hosts, format!("[host.\"{host}\"]\nplain_http = true\n"))?;
        let hosts = format!("images.registries={}", hosts.display());
        // However full the disk is, nothing is collected meanwhile.
        let (high, low) = ("images.high_threshold=100", "images.low_threshold=100");
        let settings = ["--set", &hosts, "--set", high, "--set", low];
        Ok(Self {
            node: Service::start_with(&binaries, &settings)?,
            binaries,
            registry,
            _folder: folder,
        })
    }

    fn aurae(&self, words: &[&str]) -> Command {
        let mut client = Command::new(self.binaries.join("aurae"));
        self.node.address(&mut client).args(words);
        client
    }

    fn judge(&self, images: &Images, it: &Application) -> Result<()> {
        let image = images.push(&self.registry.host(), it.name, it.image)?;
        let run = ["run", "-d", "--name", it.name, "--net", "none"];
        let mut run = self.aurae(&run);
        exec::read(run.args(it.flags).arg(&image))?;
        self.ask(it).with_context(|| self.log(it))?;
        exec::read(&mut self.aurae(&["stop", "--timeout", "60s", &target(it)]))
            .with_context(|| self.log(it))?;
        let listed = exec::read(&mut self.aurae(&["ps", "-a"]))?;
        let of_it = |line: &&str| line.contains(&target(it));
        let line = listed.lines().find(of_it).unwrap_or_default();
        ensure!(
            line.contains(it.end),
            "it should have ended with {}: {line}\n{}",
            it.end,
            self.log(it)
        );
        Ok(())
    }

    /// Until its client has the answer.
    fn ask(&self, it: &Application) -> Result<()> {
        let begun = Instant::now();
        loop {
            let words = ["exec", &target(it), "sh", "-c", it.client];
            let output = exec::capture(&mut self.aurae(&words))?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && said.contains(it.answer) {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < READY,
                "its client got no such answer as {:?}: {said}{}",
                it.answer,
                String::from_utf8_lossy(&output.stderr)
            );
            // It tells no process outside when it serves.
            std::thread::sleep(LOOK);
        }
    }

    fn log(&self, it: &Application) -> String {
        let log = exec::capture(&mut self.aurae(&["logs", "--tail", "30", &target(it)]));
        let log = log.map(|log| [log.stdout, log.stderr].concat());
        String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()
    }

    /// Whatever came of it.
    fn remove(&self, it: &Application) {
        let _ = exec::capture(&mut self.aurae(&["rm", "-f", &target(it)]));
    }
}

/// What `aurae run` calls its program.
fn target(it: &Application) -> String {
    format!("{0}/{0}", it.name)
}
