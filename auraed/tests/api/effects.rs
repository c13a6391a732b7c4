// SPDX-License-Identifier: Apache-2.0
//! Every effect of a call is authorized before the first happens: a denial of one refuses the whole
//! call, also where the call is of another method, or names a cell around the denied path. The
//! table [`EFFECTS`] has each method of the contract with what it may do beside its own action; a
//! pair without a call in [`CALLS`] fails.

use std::pin::Pin;

use api::action::ACTIONS;
use api::identity::v0 as identity;
use api::observe::v0 as observe;
use api::pod::v0 as pod;
use api::pod::v0::pods_client::PodsClient;
use api::runtime::v0 as wire;
use api::schedule::v0 as schedule;
use api::status::{Reason, from_status};
use tonic::Status;

use crate::caller::Person;
use crate::node::TestNode;
use crate::requests::{cell, program};
use crate::table::Whom::Owner;
use crate::table::at;
use crate::units::units;

const RUN_CELL: &str = "runtime.RunCell";
const RUN_EXECUTABLE: &str = "runtime.RunExecutable";
const STOP: &str = "runtime.Stop";
const REMOVE: &str = "runtime.Remove";
const LOGS: &str = "observe.Logs";
const PULL: &str = "image.Pull";
const RUN_POD: &str = "pod.Run";
const UPDATE_POD: &str = "pod.Update";
const DEBUG_POD: &str = "pod.Debug";
const STOP_POD: &str = "pod.Stop";
const REMOVE_POD: &str = "pod.Remove";
const DECLARE: &str = "schedule.Declare";
const GET_CONFIG: &str = "schedule.GetConfig";
const PAUSE: &str = "schedule.Pause";
const REMOVE_SCHEDULE: &str = "schedule.Remove";
const TRIGGER: &str = "schedule.Trigger";
const STOP_UNIT: &str = "schedule.StopUnit";
/// No registry: nothing listens there.
const NOWHERE: &str = "127.0.0.1:1/none:v1";

/// Each method, and the actions of others that a call of it may take.
const EFFECTS: &[(&str, &[&str])] = &[
    (RUN_EXECUTABLE, &[RUN_CELL, REMOVE, PULL]),
    (RUN_CELL, &[REMOVE, PULL]),
    ("runtime.UpdateCell", &[UPDATE_POD]),
    ("runtime.UpdateExecutable", &[]),
    ("runtime.FreezeCell", &[]),
    ("runtime.ThawCell", &[]),
    ("runtime.Get", &[]),
    ("runtime.List", &[]),
    ("runtime.Watch", &[]),
    ("runtime.Wait", &[]),
    ("runtime.Signal", &[STOP, STOP_POD]),
    (STOP, &[PAUSE, STOP_POD]),
    (REMOVE, &[STOP, PAUSE, STOP_POD, REMOVE_POD]),
    ("runtime.Attach", &[LOGS]),
    (LOGS, &[]),
    ("observe.Usage", &[]),
    ("observe.Journal", &[]),
    ("observe.WatchUsage", &[]),
    ("identity.CreateUser", &[]),
    ("identity.ListUsers", &[]),
    ("identity.DisableUser", &[]),
    ("identity.EnableUser", &[]),
    ("identity.ListCertificates", &[]),
    ("identity.Issue", &[]),
    ("identity.Renew", &[]),
    ("identity.Revoke", &[]),
    ("identity.Allow", &[]),
    ("identity.Deny", &[]),
    ("identity.Withdraw", &[]),
    ("identity.Explain", &[]),
    ("identity.Audit", &[]),
    ("identity.WhoAmI", &[]),
    ("node.Get", &[]),
    ("node.GetConfig", &[]),
    ("node.ListUnowned", &[]),
    ("node.Reload", &[]),
    ("tenant.List", &[]),
    ("tenant.Get", &[]),
    ("tenant.Set", &[]),
    ("tenant.Remove", &[]),
    ("sets.Put", &[]),
    ("sets.Get", &[]),
    ("sets.List", &[]),
    ("sets.Remove", &[]),
    (PULL, &[]),
    ("image.Push", &[]),
    ("image.List", &[]),
    ("image.Get", &[]),
    ("image.Remove", &[]),
    ("image.Pin", &[]),
    ("image.Prune", &[]),
    ("image.Import", &[]),
    ("image.Export", &[]),
    ("image.Verify", &[]),
    (RUN_POD, &[RUN_CELL, RUN_EXECUTABLE, PULL, REMOVE]),
    ("pod.Get", &[]),
    ("pod.List", &[]),
    ("pod.Watch", &[]),
    (UPDATE_POD, &["runtime.UpdateCell"]),
    (DEBUG_POD, &[RUN_CELL, RUN_EXECUTABLE, PULL]),
    (STOP_POD, &[STOP, PAUSE]),
    (REMOVE_POD, &[STOP, REMOVE, PAUSE]),
    ("pod.Dial", &[]),
    (
        DECLARE,
        &[
            RUN_EXECUTABLE,
            RUN_CELL,
            PULL,
            RUN_POD,
            STOP,
            REMOVE,
            GET_CONFIG,
        ],
    ),
    // What it declares is what was declared before.
    ("schedule.Undo", &[RUN_EXECUTABLE, RUN_CELL]),
    ("schedule.Watch", &[]),
    ("schedule.PutConfig", &[]),
    (GET_CONFIG, &[]),
    ("schedule.ListConfigs", &[]),
    ("schedule.RemoveConfig", &[]),
    ("schedule.Get", &[]),
    ("schedule.List", &[]),
    (REMOVE_SCHEDULE, &[STOP, STOP_POD, REMOVE, REMOVE_POD]),
    // What they begin is done on behalf of the owner, and decided then.
    (TRIGGER, &[STOP, STOP_POD]),
    (PAUSE, &[]),
    ("schedule.Resume", &[]),
    ("schedule.History", &[]),
    ("schedule.Why", &[]),
    // Units are the node's own, run by the node for its administrators. What a start stops because
    // of a `Conflicts=` is the files' to say.
    ("schedule.ListUnits", &[]),
    ("schedule.GetUnit", &[]),
    ("schedule.StartUnit", &[STOP_UNIT]),
    (STOP_UNIT, &[]),
    ("schedule.RestartUnit", &[STOP_UNIT]),
    ("schedule.ReloadUnit", &[STOP_UNIT]),
    ("schedule.KillUnit", &[STOP_UNIT]),
    ("schedule.ResetFailedUnits", &[]),
    ("schedule.EnableUnits", &[]),
    ("schedule.DisableUnits", &[]),
    ("schedule.MaskUnits", &[]),
    ("schedule.UnmaskUnits", &[]),
    ("schedule.PresetUnits", &[]),
    ("schedule.SetDefaultUnit", &[]),
    ("schedule.StartTransientUnit", &[]),
    ("schedule.SetUnitProperties", &[]),
    ("schedule.GetUnitManager", &[]),
    ("schedule.SetUnitManager", &[]),
    ("schedule.ReloadUnitFiles", &[]),
    // It ends the node, not objects one by one.
    ("node.Shutdown", &[]),
];

type Called = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

/// A call that must be refused while `denied` is denied at `path`.
struct Call {
    method: &'static str,
    denied: &'static str,
    /// Empty: everywhere.
    path: &'static str,
    ask: fn(Person) -> Called,
}

const fn call(
    method: &'static str,
    denied: &'static str,
    path: &'static str,
    ask: fn(Person) -> Called,
) -> Call {
    Call {
        method,
        denied,
        path,
        ask,
    }
}

/// `kept` and `kept-pod` are schedules, each with its run 1; `many` and `kept-pod-1-many` have
/// replicas, one each.
///
/// `web` runs, with `web/main` and `web/secret/job` in it; `idle` runs and is empty; `old` and
/// `web/done` have ended.
const CALLS: &[Call] = &[
    call(RUN_EXECUTABLE, RUN_CELL, "", run_with_cell),
    call(RUN_EXECUTABLE, RUN_CELL, "own", run_with_cell),
    call(RUN_EXECUTABLE, RUN_EXECUTABLE, "own/main", run_with_cell),
    call(RUN_EXECUTABLE, REMOVE, "web/done", run_again),
    call(RUN_EXECUTABLE, REMOVE, "web/brief", run_and_go),
    call(RUN_CELL, REMOVE, "old", run_cell_again),
    call(RUN_POD, REMOVE, "old", |ann| run_pod_at(ann, "old")),
    call("runtime.UpdateCell", UPDATE_POD, "kept-pod-1", update_app),
    call(RUN_EXECUTABLE, PULL, "", pull_and_run),
    call(RUN_CELL, PULL, "", pull_and_make),
    call(RUN_POD, RUN_CELL, "", run_pod),
    call(RUN_POD, RUN_EXECUTABLE, "group/app", run_pod),
    call(RUN_POD, PULL, "", run_pod),
    call(UPDATE_POD, "runtime.UpdateCell", "group/app", update_pod),
    call(DEBUG_POD, RUN_CELL, "", debug_pod),
    call(DEBUG_POD, RUN_EXECUTABLE, "group/look", debug_pod),
    call(DEBUG_POD, PULL, "", debug_pod),
    call(STOP_POD, STOP, "", stop_pod),
    call(REMOVE_POD, STOP, "", remove_pod),
    call(REMOVE_POD, REMOVE, "group/app", remove_pod),
    call(
        "runtime.FreezeCell",
        "runtime.FreezeCell",
        "web/secret",
        freeze,
    ),
    call("runtime.ThawCell", "runtime.ThawCell", "web/secret", thaw),
    call("runtime.Signal", STOP, "web/main", |ann| {
        signal(ann, "web/main", "KILL")
    }),
    call("runtime.Signal", STOP, "web/main", |ann| {
        signal(ann, "web/main", "TERM")
    }),
    call("runtime.Signal", STOP, "web/main", |ann| {
        signal(ann, "web/main", "STOP")
    }),
    call("runtime.Signal", STOP_POD, "kept-pod-1", |ann| {
        signal(ann, "kept-pod-1/app/main", "TERM")
    }),
    call(STOP, STOP, "web/secret", stop_web),
    call(STOP, STOP, "web/secret/job", stop_web),
    call(REMOVE, STOP, "", |ann| remove(ann, "web/main", true)),
    call(REMOVE, STOP, "idle", |ann| remove(ann, "idle", false)),
    call(REMOVE, REMOVE, "web/secret", |ann| remove(ann, "web", true)),
    call(REMOVE, STOP, "web/secret/job", |ann| {
        remove(ann, "web", true)
    }),
    call("runtime.Attach", LOGS, "web/main", attach),
    call(LOGS, LOGS, "web/secret", |ann| logs(ann, &["web"])),
    call(LOGS, LOGS, "web/secret", |ann| {
        logs(ann, &["web/main", "web/secret/job"])
    }),
    call("observe.Usage", "observe.Usage", "web/secret", usage),
    call(DECLARE, RUN_EXECUTABLE, "fresh", |ann| declare(ann, image)),
    call(DECLARE, RUN_CELL, "", |ann| declare(ann, image)),
    call(DECLARE, PULL, "", |ann| declare(ann, image)),
    call(DECLARE, RUN_POD, "fresh", |ann| declare(ann, in_pod)),
    call(DECLARE, STOP, "fresh", |ann| declare(ann, in_cell)),
    call(DECLARE, GET_CONFIG, "conf", |ann| declare(ann, given)),
    call("schedule.Undo", RUN_EXECUTABLE, "rolled/main", undo),
    call("schedule.Undo", RUN_CELL, "rolled", undo),
    call(DECLARE, REMOVE, "", |ann| declare(ann, in_cell)),
    call(TRIGGER, STOP, "", |ann| trigger(ann, "many")),
    call(TRIGGER, STOP_POD, "", |ann| trigger(ann, "kept-pod-1-many")),
    call(STOP, STOP_POD, "kept-pod-1", |ann| {
        stop(ann, "kept-pod-1/app")
    }),
    call(REMOVE, STOP_POD, "kept-pod-1", |ann| {
        remove(ann, "kept-pod-1", true)
    }),
    call(REMOVE, REMOVE_POD, "kept-pod-1", |ann| {
        remove(ann, "kept-pod-1", true)
    }),
    call(STOP, PAUSE, "kept", |ann| stop(ann, "kept-1")),
    call(STOP_POD, PAUSE, "kept-pod", |ann| {
        end_pod(ann, "kept-pod-1", false)
    }),
    call(REMOVE, PAUSE, "kept", |ann| {
        remove(ann, "kept-1/main", true)
    }),
    call(REMOVE_POD, PAUSE, "", |ann| {
        end_pod(ann, "kept-pod-1", true)
    }),
    call(REMOVE_SCHEDULE, STOP, "kept-1", |ann| forget(ann, "kept")),
    call(REMOVE_SCHEDULE, REMOVE, "kept-pod-1", |ann| {
        forget(ann, "kept-pod")
    }),
    call(REMOVE_SCHEDULE, REMOVE_POD, "", |ann| {
        forget(ann, "kept-pod")
    }),
    call(REMOVE_SCHEDULE, STOP_POD, "", |ann| forget(ann, "kept-pod")),
];

/// Those that take an administrator.
const OF_UNITS: &[Call] = &[
    call("schedule.StartUnit", STOP_UNIT, "", |ops| {
        let mode = schedule::UnitJobMode::Isolate;
        Box::pin(async move { units(&ops).start_unit(job(mode, false)).await.map(drop) })
    }),
    call("schedule.RestartUnit", STOP_UNIT, "", |ops| {
        let mode = schedule::UnitJobMode::Replace;
        Box::pin(async move { units(&ops).restart_unit(job(mode, true)).await.map(drop) })
    }),
    call("schedule.ReloadUnit", STOP_UNIT, "", |ops| {
        let mode = schedule::UnitJobMode::Replace;
        Box::pin(async move { units(&ops).reload_unit(job(mode, true)).await.map(drop) })
    }),
    call("schedule.KillUnit", STOP_UNIT, "", |ops| {
        Box::pin(async move { units(&ops).kill_unit(kill_unit("")).await.map(drop) })
    }),
];

fn job(mode: schedule::UnitJobMode, conditional: bool) -> schedule::UnitJobRequest {
    schedule::UnitJobRequest {
        name: "nginx".into(),
        mode: mode.into(),
        conditional,
        ..Default::default()
    }
}

fn kill_unit(signal: &str) -> schedule::KillUnitRequest {
    schedule::KillUnitRequest {
        name: "nginx".into(),
        signal: signal.into(),
        ..Default::default()
    }
}

/// A wish, under that name, of a container.
fn image(name: &str) -> schedule::DeclareRequest {
    let mut request = crate::schedule::shell(name, "exec sleep 1000");
    let work = request.spec.as_mut().and_then(|it| it.work.as_mut());
    if let Some(schedule::work::Run::Executable(run)) = work.and_then(|it| it.run.as_mut()) {
        run.own_cell = Some(pulled());
    }
    request
}

/// The same of a pod.
fn in_pod(name: &str) -> schedule::DeclareRequest {
    let container = pod::Container {
        name: "app".into(),
        entrypoint: vec!["/bin/sleep".into(), "1000".into()],
        ..Default::default()
    };
    let run = pod::RunRequest {
        pod: Some(pod::Pod {
            r#ref: at(Owner, name),
            spec: Some(pod::PodSpec {
                containers: vec![container],
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    of_work(name, schedule::work::Run::Pod(run))
}

/// The same of a cell with an executable.
fn given(name: &str) -> schedule::DeclareRequest {
    let mut request = in_pod(name);
    let work = request.spec.as_mut().and_then(|it| it.work.as_mut());
    if let Some(work) = work {
        let variables = schedule::GivenVariables {
            container: "app".into(),
            ..Default::default()
        };
        work.given = vec![schedule::Given {
            config: "conf".into(),
            place: Some(schedule::given::Place::Variables(variables)),
            ..Default::default()
        }];
    }
    request
}

fn undo(ann: Person) -> Called {
    Box::pin(async move {
        let request = schedule::UndoRequest {
            name: "rolled".into(),
            revision: 1,
            ..Default::default()
        };
        crate::schedule::schedules(&ann)
            .undo(request)
            .await
            .map(drop)
    })
}

fn in_cell(name: &str) -> schedule::DeclareRequest {
    let job = program(&format!("{name}/job"), &["/bin/sleep", "1000"]);
    let run = schedule::CellWork {
        cell: Some(cell(Owner, name, wire::CellSpec::default())),
        executables: vec![job],
    };
    of_work(name, schedule::work::Run::Cell(run))
}

fn of_work(name: &str, run: schedule::work::Run) -> schedule::DeclareRequest {
    let mut request = crate::schedule::shell(name, "true");
    if let Some(spec) = &mut request.spec {
        spec.work = Some(schedule::Work {
            run: Some(run),
            ..Default::default()
        });
    }
    request
}

fn declare(ann: Person, wish: fn(&str) -> schedule::DeclareRequest) -> Called {
    Box::pin(async move {
        let request = wish("fresh");
        crate::schedule::schedules(&ann)
            .declare(request)
            .await
            .map(drop)
    })
}

fn forget(ann: Person, name: &'static str) -> Called {
    Box::pin(async move {
        let request = schedule::RemoveRequest {
            name: name.into(),
            ..Default::default()
        };
        crate::schedule::schedules(&ann)
            .remove(request)
            .await
            .map(drop)
    })
}

fn end_pod(ann: Person, name: &'static str, for_good: bool) -> Called {
    Box::pin(async move {
        let mut pods = PodsClient::new(ann.node.channel());
        let place = at(Owner, name);
        if for_good {
            let request = pod::RemoveRequest {
                r#ref: place,
                force: true,
            };
            return pods.remove(request).await.map(drop);
        }
        let request = pod::StopRequest {
            r#ref: place,
            grace: None,
        };
        pods.stop(request).await.map(drop)
    })
}

fn run_with_cell(ann: Person) -> Called {
    Box::pin(async move {
        let mut request = program("own/main", &["/bin/sleep", "1000"]);
        request.own_cell = Some(wire::CellSpec::default());
        ann.node.runtime().run_executable(request).await.map(drop)
    })
}

fn pulled() -> wire::CellSpec {
    wire::CellSpec {
        container: Some(wire::Container {
            image: NOWHERE.to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn pull_and_run(ann: Person) -> Called {
    Box::pin(async move {
        let mut request = program("own/main", &["/bin/sleep", "1000"]);
        request.own_cell = Some(pulled());
        ann.node.runtime().run_executable(request).await.map(drop)
    })
}

fn pull_and_make(ann: Person) -> Called {
    Box::pin(async move {
        let request = cell(Owner, "own", pulled());
        ann.node.runtime().run_cell(request).await.map(drop)
    })
}

/// Of an image that can't be had.
fn of_nowhere(name: &str) -> pod::Container {
    pod::Container {
        name: name.to_owned(),
        image: NOWHERE.to_owned(),
        ..Default::default()
    }
}

fn group() -> pod::Pod {
    pod::Pod {
        r#ref: at(Owner, "group"),
        spec: Some(pod::PodSpec {
            containers: vec![of_nowhere("app")],
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn update_pod(ann: Person) -> Called {
    Box::pin(async move {
        let request = pod::UpdateRequest { pod: Some(group()) };
        PodsClient::new(ann.node.channel())
            .update(request)
            .await
            .map(drop)
    })
}

fn debug_pod(ann: Person) -> Called {
    Box::pin(async move {
        let request = pod::DebugRequest {
            r#ref: at(Owner, "group"),
            container: Some(of_nowhere("look")),
            target: String::new(),
            ..Default::default()
        };
        PodsClient::new(ann.node.channel())
            .debug(request)
            .await
            .map(drop)
    })
}

fn run_pod(ann: Person) -> Called {
    run_pod_at(ann, "group")
}

fn run_pod_at(ann: Person, path: &'static str) -> Called {
    Box::pin(async move {
        let pod = pod::Pod {
            r#ref: at(Owner, path),
            ..group()
        };
        let request = pod::RunRequest {
            pod: Some(pod),
            ..Default::default()
        };
        PodsClient::new(ann.node.channel())
            .run(request)
            .await
            .map(drop)
    })
}

fn stop_pod(ann: Person) -> Called {
    Box::pin(async move {
        let request = pod::StopRequest {
            r#ref: at(Owner, "group"),
            grace: None,
        };
        PodsClient::new(ann.node.channel())
            .stop(request)
            .await
            .map(drop)
    })
}

fn remove_pod(ann: Person) -> Called {
    Box::pin(async move {
        let request = pod::RemoveRequest {
            r#ref: at(Owner, "group"),
            force: true,
        };
        PodsClient::new(ann.node.channel())
            .remove(request)
            .await
            .map(drop)
    })
}

fn run_again(ann: Person) -> Called {
    Box::pin(async move {
        let request = program("web/done", &["/bin/true"]);
        ann.node.runtime().run_executable(request).await.map(drop)
    })
}

/// Its record goes at its end.
fn run_and_go(ann: Person) -> Called {
    Box::pin(async move {
        let mut request = program("web/brief", &["/bin/true"]);
        let executable = request.executable.as_mut();
        if let Some(spec) = executable.and_then(|it| it.spec.as_mut()) {
            spec.auto_remove = true;
        }
        ann.node.runtime().run_executable(request).await.map(drop)
    })
}

/// Of a container of a pod.
fn update_app(ann: Person) -> Called {
    let spec = wire::CellSpec {
        resources: Some(wire::Resources {
            pids_max: Some(50),
            ..Default::default()
        }),
        ..Default::default()
    };
    let request = wire::UpdateCellRequest {
        r#ref: at(Owner, "kept-pod-1/app"),
        spec: Some(spec),
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["spec.resources.pids_max".to_owned()],
        }),
        ..Default::default()
    };
    Box::pin(async move { ann.node.runtime().update_cell(request).await.map(drop) })
}

fn trigger(ann: Person, name: &'static str) -> Called {
    Box::pin(async move {
        let request = schedule::TriggerRequest {
            name: name.into(),
            ..Default::default()
        };
        crate::schedule::schedules(&ann)
            .trigger(request)
            .await
            .map(drop)
    })
}

fn run_cell_again(ann: Person) -> Called {
    Box::pin(async move {
        ann.node
            .runtime()
            .run_cell(cell(Owner, "old", wire::CellSpec::default()))
            .await
            .map(drop)
    })
}

fn freeze(ann: Person) -> Called {
    let request = wire::FreezeCellRequest {
        r#ref: at(Owner, "web"),
    };
    Box::pin(async move { ann.node.runtime().freeze_cell(request).await.map(drop) })
}

fn thaw(ann: Person) -> Called {
    let request = wire::ThawCellRequest {
        r#ref: at(Owner, "web"),
    };
    Box::pin(async move { ann.node.runtime().thaw_cell(request).await.map(drop) })
}

fn signal(ann: Person, path: &str, signal: &str) -> Called {
    let request = wire::SignalRequest {
        r#ref: at(Owner, path),
        signal: signal.to_owned(),
        all_processes: false,
    };
    Box::pin(async move { ann.node.runtime().signal(request).await.map(drop) })
}

fn stop(ann: Person, path: &'static str) -> Called {
    let request = wire::StopRequest {
        r#ref: at(Owner, path),
        grace: Some(prost_types::Duration::default()),
    };
    Box::pin(async move { ann.node.runtime().stop(request).await.map(drop) })
}

fn stop_web(ann: Person) -> Called {
    stop(ann, "web")
}

/// With `all`: what runs and what is in it as well.
fn remove(ann: Person, path: &'static str, all: bool) -> Called {
    let request = wire::RemoveRequest {
        r#ref: at(Owner, path),
        recursive: all,
        force: all,
    };
    Box::pin(async move { ann.node.runtime().remove(request).await.map(drop) })
}

fn attach(ann: Person) -> Called {
    use wire::attach_request::Message;
    let start = wire::AttachStart {
        r#ref: at(Owner, "web/main"),
        ..Default::default()
    };
    let first = wire::AttachRequest {
        message: Some(Message::Start(start)),
    };
    Box::pin(async move {
        let asked = tokio_stream::iter([first]);
        ann.node.runtime().attach(asked).await.map(drop)
    })
}

fn logs(ann: Person, paths: &'static [&'static str]) -> Called {
    let refs = paths.iter().filter_map(|path| at(Owner, path));
    let request = observe::LogsRequest {
        refs: refs.collect(),
        ..Default::default()
    };
    Box::pin(async move { ann.node.observe().logs(request).await.map(drop) })
}

fn usage(ann: Person) -> Called {
    let refs = ["web", "web/secret"];
    let refs = refs.iter().filter_map(|path| at(Owner, path));
    let request = observe::UsageRequest {
        refs: refs.collect(),
        ..Default::default()
    };
    Box::pin(async move { ann.node.observe().usage(request).await.map(drop) })
}

async fn furnish(ann: &Person) {
    let mut runtime = ann.node.runtime();
    for path in ["web", "web/secret", "idle", "old"] {
        runtime
            .run_cell(cell(Owner, path, wire::CellSpec::default()))
            .await
            .unwrap();
    }
    stop(ann.clone(), "old").await.unwrap();
    let kept = crate::schedule::shell("kept", "exec sleep 1000");
    crate::schedule::declare_and_run(ann, kept).await;
    crate::schedule::declare_and_run(ann, in_pod("kept-pod")).await;
    let many = crate::schedule::shell("many", "exec sleep 1000");
    // Of the second one's run nothing is in the picture of the node.
    for mut many in [many, in_pod("kept-pod-1-many")] {
        let name = many.name.clone();
        many.spec.as_mut().unwrap().replicas = Some(schedule::Replicas {
            count: 1,
            ..Default::default()
        });
        crate::schedule::declare(ann, many).await.unwrap();
        let begun = |it: &schedule::ScheduleStatus| it.runs.iter().any(|it| it.began.is_some());
        crate::schedule::until(ann, &name, "begun", begun).await;
    }
    for script in ["true", "false"] {
        let mut rolled = crate::schedule::shell("rolled", script);
        rolled.spec.as_mut().unwrap().replicas = Some(schedule::Replicas::default());
        crate::schedule::declare(ann, rolled).await.unwrap();
    }
    for path in ["web/main", "web/secret/job"] {
        let sleeps = program(path, &["/bin/sleep", "1000"]);
        runtime.run_executable(sleeps).await.unwrap();
    }
    let mut done = program("web/done", &["/bin/true"]);
    done.wait_for = wire::WaitFor::Exited.into();
    runtime.run_executable(done).await.unwrap();
}

fn denial(action: &str, path: &str) -> identity::DenyRequest {
    identity::DenyRequest {
        tenant: "acme".into(),
        user: "ann".into(),
        action: action.into(),
        path: path.into(),
        ..Default::default()
    }
}

/// Everything that is there, with its state and revision: a refused call has changed nothing. Of
/// the pod only which it is, since its container has no program and is started again and again.
async fn picture(administrator: &Person) -> Vec<String> {
    let request = wire::ListRequest {
        tenant: "acme".into(),
        ..Default::default()
    };
    let listed = administrator.node.runtime().list(request).await.unwrap();
    let shown = |object: &wire::Object| {
        let at = reference(object);
        match at.path.strip_prefix("kept-pod-1") {
            None => Some(format!("{object:?}")),
            Some("") => Some(format!("{at:?}")),
            Some(_) => None,
        }
    };
    let objects = listed.into_inner().objects;
    objects.iter().filter_map(shown).collect()
}

fn reference(object: &wire::Object) -> wire::ObjectRef {
    let meta = match object.object.clone().unwrap() {
        wire::object::Object::Cell(cell) => cell.meta,
        wire::object::Object::Executable(executable) => executable.meta,
    };
    meta.unwrap().r#ref.unwrap()
}

#[test]
fn every_pair_of_a_method_and_an_effect_is_called() {
    for action in ACTIONS {
        let rows = EFFECTS.iter().filter(|(method, _)| *method == action.name);
        assert_eq!(rows.count(), 1, "{} must have one row", action.name);
    }
    for (method, effects) in EFFECTS {
        for effect in *effects {
            let mut calls = CALLS.iter().chain(OF_UNITS);
            let called = calls.any(|c| c.method == *method && c.denied == *effect);
            assert!(called, "{method} without {effect} is not tried");
        }
    }
}

#[tokio::test]
async fn a_denied_effect_refuses_the_whole_call() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    furnish(&ann).await;
    for call in CALLS {
        let what = format!("{} without {} at {:?}", call.method, call.denied, call.path);
        let before = picture(&administrator).await;
        let grant = administrator.deny(denial(call.denied, call.path)).await;
        let refused = (call.ask)(ann.clone()).await;
        let refused = refused.map_err(|status| from_status(&status).reason);
        assert_eq!(refused, Err(Some(Reason::PermissionDenied)), "{what}");
        assert_eq!(picture(&administrator).await, before, "{what}");
        administrator.withdraw(grant.id).await;
    }
    one_line_names_all_effects(&administrator).await;
    // Without a denial each is done, and the ones that end things come last.
    for call in CALLS {
        let done = (call.ask)(ann.clone()).await;
        let reason = done.map_err(|status| from_status(&status).reason);
        assert_ne!(
            reason,
            Err(Some(Reason::PermissionDenied)),
            "{}",
            call.method
        );
    }
    node.stop();
}

async fn one_line_names_all_effects(administrator: &Person) {
    use identity::audit_response::Message;
    let request = identity::AuditRequest {
        action: RUN_EXECUTABLE.into(),
        denied_only: true,
        ..Default::default()
    };
    let answers = administrator.node.identity().audit(request).await.unwrap();
    let mut answers = answers.into_inner();
    while let Some(answer) = answers.message().await.unwrap() {
        if let Some(Message::Entry(entry)) = answer.message
            && entry.path == "own/main"
            && entry.also == ["runtime.RunCell own"]
            && entry.note == "not allowed: runtime.RunCell own"
        {
            return;
        }
    }
    panic!("no line of the audit names the denied cell");
}

#[tokio::test]
async fn an_administrator_who_may_stop_no_unit_ends_none_by_other_words() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ops = administrator.introduce_administrator(&node, "ops").await;
    let refused = |done: Result<(), Status>| {
        let reason = done.map_err(|status| from_status(&status).reason);
        reason == Err(Some(Reason::PermissionDenied))
    };
    for call in OF_UNITS {
        assert!(!refused((call.ask)(ops.clone()).await), "{}", call.method);
    }
    let denial = identity::DenyRequest {
        tenant: "system".into(),
        user: "ops".into(),
        action: STOP_UNIT.into(),
        ..Default::default()
    };
    administrator.deny(denial).await;
    for call in OF_UNITS {
        assert!(refused((call.ask)(ops.clone()).await), "{}", call.method);
    }
    // What stops nothing is as before.
    let mode = schedule::UnitJobMode::Replace;
    let start = units(&ops).start_unit(job(mode, false)).await;
    assert!(!refused(start.map(drop)));
    let reload = units(&ops).reload_unit(job(mode, false)).await;
    assert!(!refused(reload.map(drop)));
    let told = units(&ops).kill_unit(kill_unit("HUP")).await;
    assert!(!refused(told.map(drop)));
    node.stop();
}

#[tokio::test]
async fn what_is_denied_is_left_out_of_listings() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    furnish(&ann).await;
    for action in ["runtime.List", "runtime.Watch", "observe.Usage"] {
        administrator.deny(denial(action, "web/secret")).await;
    }
    let secret = |text: String| text.contains("secret");
    let mut runtime = ann.node.runtime();
    let listed = runtime.list(wire::ListRequest::default()).await.unwrap();
    let listed = format!("{:?}", listed.into_inner().objects);
    assert!(listed.contains("web/main") && !secret(listed));
    let watched = runtime.watch(wire::WatchRequest::default()).await.unwrap();
    let mut watched = watched.into_inner();
    loop {
        let event = watched.message().await.unwrap().unwrap();
        if event.r#type() == wire::watch_event::Type::SnapshotEnd {
            break;
        }
        assert!(!secret(format!("{event:?}")));
    }
    let mut observed = ann.node.observe();
    let usage = observed.usage(observe::UsageRequest::default());
    let usage = format!("{:?}", usage.await.unwrap().into_inner());
    assert!(usage.contains("web/main") && !secret(usage));
    node.stop();
}
