// SPDX-License-Identifier: Apache-2.0
//! The daemon of the stories: the runtime itself behind a plain socket.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use identity::permit::Permit;
use model::error::{Error, Reason};
use model::hook::{Hook, Moment};
use model::name::{Tenant, Uid};
use model::object::ObjectRef;
use model::observe::LogMessage;
use model::request::{
    AttachFrom, AttachStart, Filter, ListQuery, Remove, RunCell, RunExecutable, Scope, SendSignal,
    Stop, UpdateCell, WaitFor, WatchQuery,
};
use model::selector::Selector;
use model::status::Object;
use model::update::Mask;
use observe::{LogKey, LogReader, Logs, LogsConfig, ReadOptions};
use runtime::ports::{Attach, Hooks, Neighbours, Networks, NewContainer, NodeNames};
use runtime::{NodeInit, Runtime, Settings};
use store::Store;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::client::{Answer, Ask};

pub(crate) fn run(dir: &str, fd: &str) {
    let fd = kernel::inherit::take(fd.parse().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    runtime.block_on(serve(Path::new(dir), fd));
}

async fn serve(dir: &Path, fd: std::os::fd::OwnedFd) {
    std::fs::write(dir.join("daemon.pid"), std::process::id().to_string()).unwrap();
    let store = Store::open(&dir.join("state")).unwrap();
    let (node, welcome) = NodeInit::connect(fd, "stories").await.unwrap();
    let own = kernel::cgroup::find::own_path().unwrap();
    let base = kernel::cgroup::Cgroup::open(own.parent().unwrap()).unwrap();
    let root = base.ensure("tenants").unwrap().path().to_owned();
    let mut settings = Settings::new(dir.join("run/cells"), root);
    if let Ok(timeout) = std::fs::read_to_string(dir.join("timeout")) {
        settings.init_timeout = Duration::from_millis(timeout.parse().unwrap());
        settings.ending_timeout = settings.init_timeout;
    }
    if let Ok(age) = std::fs::read_to_string(dir.join("finished_age")) {
        settings.bounds.finished_age = Duration::from_millis(age.parse().unwrap());
        settings.ageing = Duration::from_millis(100);
    }
    let logs = Logs::start(&dir.join("state/logs"), LogsConfig::default()).unwrap();
    // Bounds of nothing: the stories of quotas are the API's.
    let capacity = model::quota::Capacity {
        whole: std::collections::BTreeMap::new(),
        reserve: 100,
    };
    let state = dir.join("state");
    let tenants = tenants::Tenants::start(store.clone(), &state, capacity);
    let tenants = tenants.await.unwrap();
    let begun = std::time::Instant::now();
    let neighbours = Neighbours {
        logs: Arc::new(logs.clone()),
        archive: Arc::new(crate::slow::Hindered {
            store,
            dir: dir.to_owned(),
        }),
        networks: Arc::new(NoNetwork),
        hooks: Arc::new(NoHooks),
    };
    let (runtime, adoption) = Runtime::start(settings, node.clone(), &welcome, tenants, neighbours)
        .await
        .unwrap();
    eprintln!("adopted in {:?}: {adoption:?}", begun.elapsed());
    let control = dir.join("control");
    let _ = std::fs::remove_file(&control);
    let listener = UnixListener::bind(&control).unwrap();
    node.ready().await;
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(converse(stream, runtime.clone(), logs.clone()));
    }
}

async fn converse(stream: UnixStream, runtime: Runtime, logs: Logs) {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let ask: Ask = serde_json::from_str(&line).unwrap();
        let answer = answer(&runtime, &logs, ask)
            .await
            .unwrap_or_else(|e| Answer::Error {
                reason: e.reason.to_string(),
                message: format!("{} {}", e.message, e.hint.clone().unwrap_or_default()),
                errno: e.errno,
            });
        let mut line = serde_json::to_string(&answer).unwrap();
        line.push('\n');
        if writer.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn tenant() -> Tenant {
    "acme".parse().unwrap()
}

fn target(path: &str) -> ObjectRef {
    ObjectRef::new(tenant(), path.parse().unwrap())
}

fn wait_for(wait: bool) -> WaitFor {
    if wait {
        WaitFor::Exited
    } else {
        WaitFor::Started
    }
}

fn everything() -> Filter {
    Filter {
        scope: Scope::Tenant(tenant()),
        selector: Selector::default(),
        kinds: BTreeSet::new(),
        below: None,
    }
}

async fn answer(runtime: &Runtime, logs: &Logs, ask: Ask) -> Result<Answer, Error> {
    let permit = Permit::for_tests("runtime.Test", tenant()).unwrap();
    let object = match ask {
        Ask::RunCell {
            path,
            spec,
            id,
            wait,
        } => {
            let request = RunCell {
                tenant: tenant(),
                path: path.parse().unwrap(),
                labels: Default::default(),
                spec: spec.try_into()?,
                request_id: id.map(|id| id.parse().unwrap()),
                wait_for: wait_for(wait),
                annex: None,
                for_a_member: false,
            };
            runtime.run_cell(permit, request).await?
        }
        Ask::Run {
            path,
            spec,
            own_cell,
            id,
            wait,
        } => {
            let request = RunExecutable {
                tenant: tenant(),
                path: path.parse().unwrap(),
                labels: Default::default(),
                spec: spec.try_into()?,
                request_id: id.map(|id| id.parse().unwrap()),
                wait_for: wait_for(wait),
                own_cell: own_cell.map(TryInto::try_into).transpose()?,
                attach_follows: false,
            };
            runtime.run_executable(permit, request).await?
        }
        Ask::Get { path } => runtime.get(permit, &target(&path)).await?,
        Ask::Wait { path, uid } => {
            runtime
                .wait(
                    permit,
                    &ObjectRef {
                        uid: Some(uid),
                        ..target(&path)
                    },
                )
                .await?
        }
        Ask::Signal { path, signal, all } => {
            let signal = signal.parse()?;
            let request = SendSignal {
                target: target(&path),
                signal,
                all_processes: all,
            };
            runtime.signal(permit, request).await?
        }
        Ask::Stop { path, grace_ms } => {
            let grace = grace_ms.map(Duration::from_millis);
            runtime
                .stop(
                    permit,
                    Stop {
                        target: target(&path),
                        grace,
                    },
                )
                .await?
        }
        Ask::Freeze { path, frozen: true } => runtime.freeze_cell(permit, &target(&path)).await?,
        Ask::Freeze {
            path,
            frozen: false,
        } => runtime.thaw_cell(permit, &target(&path)).await?,
        Ask::Update {
            path,
            spec,
            mask,
            generation,
        } => {
            let request = UpdateCell {
                target: target(&path),
                spec: spec.try_into()?,
                labels: Default::default(),
                mask: Mask::new(mask.iter().map(String::as_str))?,
                expected_generation: generation,
            };
            runtime.update_cell(permit, request).await?
        }
        other => return plain(runtime, logs, permit, other).await,
    };
    Ok(Answer::Object(Box::new((*object).clone())))
}

async fn plain(runtime: &Runtime, logs: &Logs, permit: Permit, ask: Ask) -> Result<Answer, Error> {
    match ask {
        Ask::List => {
            let query = ListQuery {
                filter: everything(),
                running_only: false,
                failed_within: None,
                page_size: 1000,
                page_token: None,
            };
            let page = runtime.list(&permit, &query).await?;
            let objects = page
                .objects
                .iter()
                .map(|object| (**object).clone())
                .collect();
            Ok(Answer::Objects(objects, page.resume_token))
        }
        Ask::Remove {
            path,
            recursive,
            force,
        } => {
            let request = Remove {
                target: target(&path),
                recursive,
                force,
            };
            runtime.remove(permit, request).await.map(Answer::Removed)
        }
        Ask::Watch { token, events } => {
            let query = WatchQuery {
                filter: everything(),
                resume_token: token,
            };
            let mut watcher = runtime.watch(permit, query)?;
            let mut seen = Vec::new();
            let mut token = String::new();
            while seen.len() < events {
                let event = watcher.next().await;
                let what = event
                    .object
                    .as_ref()
                    .map_or_else(String::new, |o| format!("{} {}", o.meta().path, o.state()));
                seen.push((format!("{:?}", event.kind), what));
                token = event.resume_token;
            }
            Ok(Answer::Events(seen, token))
        }
        Ask::Log { uid } => {
            let key = LogKey {
                tenant: tenant(),
                uid,
            };
            let bytes = output(logs.read(&key, ReadOptions::default())?).await?;
            Ok(Answer::Log(bytes))
        }
        Ask::Attach { path, input } => attach(runtime, logs, permit, &path, input).await,
        other => unreachable!("{other:?}"),
    }
}

/// Attaches, types, and tells all output and how it ended.
async fn attach(
    runtime: &Runtime,
    logs: &Logs,
    permit: Permit,
    path: &str,
    input: String,
) -> Result<Answer, Error> {
    let start = AttachStart {
        target: target(path),
        stdin: !input.is_empty(),
        from: AttachFrom::Offset(0),
    };
    let mut attached = runtime.attach(permit, &start).await?;
    if let Some(stdin) = &mut attached.input {
        stdin.write(input.as_bytes()).await?;
        let second = Permit::for_tests("runtime.Attach", tenant()).unwrap();
        let refused = runtime.attach(second, &start).await.err().unwrap();
        assert_eq!(refused.reason, Reason::StdinTaken);
        stdin.close().await?;
    }
    let key = LogKey {
        tenant: tenant(),
        uid: attached.object.meta().uid,
    };
    let follow = ReadOptions {
        follow: true,
        ..ReadOptions::default()
    };
    let bytes = output(logs.read(&key, follow)?).await?;
    let ended = attached.end.wait().await?;
    let Object::Executable(ended) = &*ended else {
        unreachable!()
    };
    Ok(Answer::Attached(
        bytes,
        format!("{:?}", ended.exit.unwrap().how),
    ))
}

async fn output(mut reader: LogReader) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some((message, _)) = reader.next().await? {
        match message {
            LogMessage::Data(data) => bytes.extend(data.data),
            LogMessage::Gap(gap) => panic!("{gap:?}"),
            LogMessage::End => break,
        }
    }
    Ok(bytes)
}

/// Of a node that has none: the API's stories have one.
struct NoNetwork;

impl Networks for NoNetwork {
    fn adopted(&self, _: Uid, _: OwnedFd) {}

    fn absent(
        &self,
        _: &model::network::Network,
    ) -> BoxFuture<'static, Option<model::error::Error>> {
        let reason = model::error::Reason::Unsupported;
        let error = model::error::Error::new(reason, "this node has no network of cells");
        Box::pin(std::future::ready(Some(error)))
    }

    fn attach(
        &self,
        _: Attach,
    ) -> BoxFuture<'static, Result<model::network::Attached, model::error::Error>> {
        let error = model::error::Error::internal("nothing asks for what is absent");
        Box::pin(std::future::ready(Err(error)))
    }

    fn detach(&self, _: model::name::Uid) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn attached(&self, _: model::name::Uid) -> Option<model::network::Attached> {
        None
    }

    fn names(&self) -> NodeNames {
        NodeNames::default()
    }
}

/// No container of these tests has hooks.
struct NoHooks;

impl Hooks for NoHooks {
    fn made(&self, _: NewContainer) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn of(&self, _: Uid, _: Moment) -> Vec<Hook> {
        Vec::new()
    }

    fn started(&self, _: Uid, _: Option<u32>) {}

    fn gone(&self, _: Uid) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}
