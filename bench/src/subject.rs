// SPDX-License-Identifier: Apache-2.0
//! The node that is measured, over one warm connection.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::runtime::v0 as runtime;
use client::{Node, Target};

use crate::system;

/// What a user's folder of credentials has.
pub(crate) const CA: &str = "ca.pem";
/// See [`CA`].
pub(crate) const CERTIFICATE: &str = "user.pem";
/// See [`CA`].
pub(crate) const KEY: &str = "user.key";
/// What a bench may wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A connected node.
#[derive(Clone)]
pub(crate) struct Subject {
    target: Target,
    node: Node,
    pub(crate) state: PathBuf,
}

impl Subject {
    pub(crate) async fn connect(socket: &Path, pki: &Path, state: &Path) -> Result<Self> {
        let target = Target {
            address: client::Address::Unix(socket.to_owned()),
            ca: pki.join("ca.pem"),
            certificate: pki.join("admin.pem"),
            key: pki.join("admin.key"),
            ..Target::local()
        };
        let node = Node::connect(&target).await?.with_deadline(TIMEOUT);
        Ok(Self {
            target,
            node,
            state: state.to_owned(),
        })
    }

    /// As the user whose certificate, key and CA lie in this folder.
    pub(crate) async fn connect_user(socket: &Path, folder: &Path) -> Result<Self> {
        let target = Target {
            address: client::Address::Unix(socket.to_owned()),
            ca: folder.join(CA),
            certificate: folder.join(CERTIFICATE),
            key: folder.join(KEY),
            ..Target::local()
        };
        let node = Node::connect(&target).await?.with_deadline(TIMEOUT);
        Ok(Self {
            target,
            node,
            state: PathBuf::new(),
        })
    }

    /// The node's socket.
    pub(crate) fn socket(&self) -> Result<&Path> {
        match &self.target.address {
            client::Address::Unix(socket) => Ok(socket),
            client::Address::Tcp { .. } => {
                anyhow::bail!("only a node of this machine can be measured")
            }
        }
    }

    /// A new connection, as after the daemon's death.
    pub(crate) async fn reconnect(&mut self) -> Result<()> {
        self.node = Node::connect(&self.target).await?.with_deadline(TIMEOUT);
        Ok(())
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// The daemon's process and its init's.
    pub(crate) fn processes(&self) -> Result<(u32, u32)> {
        let stream = UnixStream::connect(self.socket()?)?;
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        let daemon = peer.pid.as_raw_nonzero().get().unsigned_abs();
        Ok((daemon, system::parent(daemon)?))
    }

    /// Makes a cell; returns the microseconds until the answer.
    pub(crate) async fn make_cell(&self, path: &str) -> Result<f64> {
        self.make_cell_as(named(path), runtime::CellSpec::default())
            .await
    }

    /// The same, as specified.
    pub(crate) async fn make_cell_as(
        &self,
        one: runtime::ObjectRef,
        spec: runtime::CellSpec,
    ) -> Result<f64> {
        let path = one.path.clone();
        let cell = runtime::Cell {
            r#ref: Some(one),
            spec: Some(spec),
            ..Default::default()
        };
        let request = runtime::RunCellRequest {
            cell: Some(cell),
            ..Default::default()
        };
        let started = Instant::now();
        let answer = self.node.runtime().run_cell(self.node.unary(request)).await;
        answer.with_context(|| format!("RunCell {path}"))?;
        Ok(micros(started))
    }

    /// Starts a program whose output is kept so.
    pub(crate) async fn start_logged(
        &self,
        path: &str,
        words: &[String],
        logs: runtime::LogPolicy,
    ) -> Result<runtime::ExecutableStatus> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut executable = executable(path, &words);
        if let Some(spec) = executable.spec.as_mut() {
            spec.logs = Some(logs);
        }
        let request = runtime::RunExecutableRequest {
            executable: Some(executable),
            ..Default::default()
        };
        let answer = self
            .node
            .runtime()
            .run_executable(self.node.unary(request))
            .await;
        Ok(answer
            .with_context(|| format!("RunExecutable {path}"))?
            .into_inner())
    }

    /// Runs a program in a cell; answers when it has started, or has ended.
    pub(crate) async fn run(
        &self,
        path: &str,
        words: &[&str],
        wait_for: runtime::WaitFor,
    ) -> Result<f64> {
        let request = runtime::RunExecutableRequest {
            executable: Some(executable(path, words)),
            wait_for: wait_for.into(),
            ..Default::default()
        };
        let started = Instant::now();
        let answer = self
            .node
            .runtime()
            .run_executable(self.node.unary(request))
            .await;
        answer.with_context(|| format!("RunExecutable {path}"))?;
        Ok(micros(started))
    }

    /// Stops a program by its own signal; returns the microseconds until it has ended.
    pub(crate) async fn stop(&self, path: &str) -> Result<f64> {
        let request = runtime::StopRequest {
            r#ref: Some(named(path)),
            ..Default::default()
        };
        let started = Instant::now();
        let answer = self.node.runtime().stop(self.node.unary(request)).await;
        answer.with_context(|| format!("Stop {path}"))?;
        Ok(micros(started))
    }

    /// Stops and removes it with all that is in it.
    pub(crate) async fn remove(&self, path: &str) -> Result<()> {
        let request = runtime::RemoveRequest {
            r#ref: Some(named(path)),
            recursive: true,
            force: true,
        };
        let answer = self.node.runtime().remove(self.node.unary(request)).await;
        answer.with_context(|| format!("Remove {path}"))?;
        Ok(())
    }

    /// Removes every cell at the top whose name begins so.
    pub(crate) async fn remove_all(&self, prefix: &str) -> Result<()> {
        for object in self.list(false).await? {
            let Some(runtime::object::Object::Cell(cell)) = object.object else {
                continue;
            };
            let path = cell.meta.and_then(|meta| meta.r#ref).map(|one| one.path);
            let ours = |path: &String| path.starts_with(prefix) && !path.contains('/');
            if let Some(path) = path.filter(ours) {
                self.remove(&path).await?;
            }
        }
        Ok(())
    }

    /// Every object of ours, page by page.
    pub(crate) async fn list(&self, running_only: bool) -> Result<Vec<runtime::Object>> {
        let mut objects = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = runtime::ListRequest {
                running_only,
                page_size: 1000,
                page_token,
                ..Default::default()
            };
            let answer = self
                .node
                .runtime()
                .list(self.node.unary(request))
                .await?
                .into_inner();
            objects.extend(answer.objects);
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                return Ok(objects);
            }
        }
    }
}

/// Names an object of ours.
pub(crate) fn named(path: &str) -> runtime::ObjectRef {
    runtime::ObjectRef {
        path: path.to_owned(),
        ..Default::default()
    }
}

fn executable(path: &str, words: &[&str]) -> runtime::Executable {
    let argv = words.iter().map(|&word| word.to_owned()).collect();
    runtime::Executable {
        r#ref: Some(named(path)),
        spec: Some(runtime::ExecutableSpec {
            argv,
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Since then.
pub(crate) fn micros(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e6
}
