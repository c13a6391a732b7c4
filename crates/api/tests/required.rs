// SPDX-License-Identifier: Apache-2.0
//! What the contract calls required is what the node refuses a request without: each field of each
//! request is taken out of a whole one, in turn, and the node's own check is asked. The language's
//! types are made from the same option, so that they ask for no more and no less.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use api::convert;
use api::observe::v0 as observe;
use api::pod::v0 as pods;
use api::runtime::v0 as runtime;
use api::schedule::v0 as schedules;
use api::sets::v0 as sets;
use model::error::Result;
use model::name::Tenant;
use prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, MessageDescriptor, Value};

const OPTION: &str = "aurae.required";

fn own() -> Tenant {
    "acme".parse().unwrap()
}

fn at(path: &str) -> Option<runtime::ObjectRef> {
    Some(runtime::ObjectRef {
        path: path.into(),
        uid: String::new(),
        ..Default::default()
    })
}

fn resources() -> runtime::Resources {
    runtime::Resources {
        io: Some(runtime::Io {
            max: vec![runtime::IoMax {
                device: "254:0".into(),
                read_bytes_per_second: Some(1 << 20),
                write_bytes_per_second: Some(1 << 20),
                ..Default::default()
            }],
            ..Default::default()
        }),
        hugetlb: vec![runtime::Hugetlb {
            page_size: "2MB".into(),
            max_bytes: 2 << 20,
        }],
        ..Default::default()
    }
}

fn executable() -> runtime::RunExecutableRequest {
    let spec = runtime::ExecutableSpec {
        argv: vec!["/bin/true".into()],
        rlimits: vec![runtime::Rlimit {
            name: "NOFILE".into(),
            soft: Some(16),
            hard: None,
        }],
        ..Default::default()
    };
    runtime::RunExecutableRequest {
        executable: Some(runtime::Executable {
            r#ref: at("web/main"),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            spec: Some(spec),
        }),
        ..Default::default()
    }
}

fn cell_spec() -> runtime::CellSpec {
    runtime::CellSpec {
        resources: Some(resources()),
        mounts: vec![runtime::Mount {
            source: "/srv/data".into(),
            target: "/data".into(),
            access: runtime::mount::Access::Read.into(),
            ..Default::default()
        }],
        volumes: vec![runtime::Volume {
            path: "/tmp".into(),
            size_bytes: Some(1 << 20),
            ..Default::default()
        }],
        container: Some(runtime::Container {
            image: "app".into(),
            devices: vec![runtime::Device {
                path: "/dev/fuse".into(),
                ..Default::default()
            }],
            ..Default::default()
        }),
        network: Some(network()),
        ..Default::default()
    }
}

fn network() -> runtime::Network {
    runtime::Network {
        ports: vec![runtime::PublishedPort {
            host_port: 8080,
            port: 80,
            ..Default::default()
        }],
        hosts: vec![runtime::HostAlias {
            address: "192.0.2.7".into(),
            names: vec!["db".into()],
        }],
        cni: vec![runtime::CniNetwork {
            name: "storage".into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn cell() -> runtime::RunCellRequest {
    runtime::RunCellRequest {
        cell: Some(runtime::Cell {
            r#ref: at("web"),
            spec: Some(cell_spec()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn set() -> sets::PutRequest {
    sets::PutRequest {
        set: Some(sets::Set {
            name: "web".into(),
            program: "web.ts".into(),
            members: vec![sets::Member {
                method: "runtime.RunCell".into(),
                kind: "cell".into(),
                key: [("cell.ref.path".to_owned(), "web".to_owned())].into(),
            }],
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn http() -> pods::HttpAction {
    pods::HttpAction {
        port: 80,
        headers: vec![pods::HttpHeader {
            name: "a".into(),
            value: "b".into(),
        }],
        ..Default::default()
    }
}

/// With every part that has a required field, but what another part needs.
fn pod() -> pods::RunRequest {
    let probe = |ask| {
        Some(pods::Probe {
            ask,
            ..Default::default()
        })
    };
    let hook = |what| Some(pods::Hook { what });
    let exec = pods::ExecAction {
        argv: vec!["true".into()],
    };
    let tcp = pods::TcpAction {
        port: 80,
        ..Default::default()
    };
    let grpc = pods::GrpcAction {
        port: 80,
        service: "a".into(),
    };
    let container = pods::Container {
        name: "app".into(),
        image: "app".into(),
        entrypoint: vec!["app".into()],
        env: vec![pods::EnvVar {
            name: "A".into(),
            from: Some(pods::env_var::From::Value("b".into())),
        }],
        startup: probe(Some(pods::probe::Ask::Tcp(tcp))),
        liveness: probe(Some(pods::probe::Ask::Grpc(grpc))),
        readiness: probe(Some(pods::probe::Ask::Http(http()))),
        pre_stop: hook(Some(pods::hook::What::Exec(exec))),
        post_start: hook(Some(pods::hook::What::Http(http()))),
        ..Default::default()
    };
    let host = pods::HostVolume {
        path: "/srv".into(),
        ..Default::default()
    };
    pods::RunRequest {
        pod: Some(pods::Pod {
            r#ref: at("web"),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            spec: Some(pods::PodSpec {
                containers: vec![container],
                volumes: vec![
                    pods::Volume {
                        name: "data".into(),
                        source: Some(pods::volume::Source::Host(host)),
                    },
                    pods::Volume {
                        name: "told".into(),
                        source: Some(pods::volume::Source::Files(told())),
                    },
                ],
                host_aliases: vec![pods::HostAlias {
                    ip: "10.0.0.1".into(),
                    names: vec!["db".into()],
                }],
                network: Some(network()),
                ..Default::default()
            }),
        }),
        ..Default::default()
    }
}

fn told() -> pods::FilesVolume {
    let amount = pods::FileAmount {
        container: "app".into(),
        fact: pods::Fact::CpuLimit.into(),
        divisor: Some(1),
    };
    pods::FilesVolume {
        facts: vec![pods::FileFact {
            path: "cpu".into(),
            from: Some(pods::file_fact::From::Amount(amount)),
        }],
        ..Default::default()
    }
}

fn debug() -> pods::DebugRequest {
    pods::DebugRequest {
        r#ref: at("web"),
        container: Some(pods::Container {
            name: "look".into(),
            ..Default::default()
        }),
        target: "app".into(),
        ..Default::default()
    }
}

/// A wish of that work, with a part of each kind that has a required field.
fn schedule(run: schedules::work::Run) -> schedules::DeclareRequest {
    let second = prost_types::Duration {
        seconds: 1,
        nanos: 0,
    };
    let lax = schedules::Lax {
        window: Some(schedules::Window {
            from: "22:00".into(),
            to: "06:00".into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    schedules::DeclareRequest {
        name: "web".into(),
        spec: Some(schedules::ScheduleSpec {
            work: Some(schedules::Work {
                run: Some(run),
                ..Default::default()
            }),
            when: Some(schedules::When {
                when: Some(schedules::when::When::Lax(lax)),
            }),
            start_limit: Some(schedules::StartLimit {
                starts: 3,
                within: Some(second),
            }),
            needs: vec![schedules::Need {
                of: Some(schedules::need::Of::Schedule("db".into())),
                ..Default::default()
            }],
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn wishes() -> Vec<Row> {
    use schedules::when::When;
    use schedules::work::Run;
    let mut alone = executable();
    alone.request_id = String::new();
    let inside = runtime::RunExecutableRequest {
        own_cell: None,
        ..alone.clone()
    };
    let cell = runtime::RunCellRequest {
        request_id: String::new(),
        ..cell()
    };
    let group = schedules::CellWork {
        cell: Some(cell),
        executables: vec![inside],
    };
    let mut pod = pod();
    if let Some(place) = pod.pod.as_mut().and_then(|pod| pod.r#ref.as_mut()) {
        place.path = "web".into();
    }
    let mut patterns = schedule(Run::Executable(alone.clone()));
    let mut afters = patterns.clone();
    let cron = schedules::Cron {
        pattern: "* * * * *".into(),
        ..Default::default()
    };
    let after = schedules::After {
        schedule: "db".into(),
        success: true,
    };
    for (request, when) in [
        (&mut patterns, When::Cron(cron)),
        (&mut afters, When::After(after)),
    ] {
        let spec = request.spec.as_mut();
        spec.unwrap().when = Some(schedules::When { when: Some(when) });
    }
    let wishes = [
        schedule(Run::Executable(alone)),
        schedule(Run::Cell(group)),
        schedule(Run::Pod(pod)),
        patterns,
        afters,
    ];
    let declare = convert::schedule::declare;
    wishes
        .iter()
        .map(|wish| row("schedule.v0.DeclareRequest", wish, declare))
        .collect()
}

/// What names one schedule and nothing else.
fn named_schedules() -> Vec<Row> {
    use convert::schedule::named;
    macro_rules! each {
        ($($request:ident),+) => {
            vec![$({
                let request = schedules::$request {
                    name: "web".into(),
                    ..Default::default()
                };
                row(
                    concat!("schedule.v0.", stringify!($request)),
                    &request,
                    |own, m: schedules::$request| named(own, &m.tenant, &m.name),
                )
            }),+]
        };
    }
    each!(
        GetRequest,
        RemoveRequest,
        TriggerRequest,
        PauseRequest,
        ResumeRequest,
        HistoryRequest,
        UndoRequest,
        WhyRequest
    )
}

/// Whether the node would take these bytes.
type Check = Box<dyn Fn(&[u8]) -> Result<()>>;

/// A request that the API's conversions check.
struct Row {
    /// Its message's name, without `aurae.`.
    name: &'static str,
    whole: Vec<u8>,
    check: Check,
}

fn row<M, T>(name: &'static str, whole: &M, convert: fn(&Tenant, M) -> Result<T>) -> Row
where
    M: Message + Default + 'static,
    T: 'static,
{
    Row {
        name,
        whole: whole.encode_to_vec(),
        check: Box::new(move |bytes| convert(&own(), M::decode(bytes).unwrap()).map(|_| ())),
    }
}

/// What makes and changes objects.
fn changes() -> Vec<Row> {
    let update_cell = runtime::UpdateCellRequest {
        r#ref: at("web"),
        spec: Some(cell_spec()),
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["spec.resources.memory.max".into()],
        }),
        ..Default::default()
    };
    let update_executable = runtime::UpdateExecutableRequest {
        r#ref: at("web/main"),
        labels: [("a".to_owned(), "b".to_owned())].into(),
        ..Default::default()
    };
    use convert::request as of;
    vec![
        row(
            "runtime.v0.RunExecutableRequest",
            &executable(),
            of::run_executable,
        ),
        row("runtime.v0.RunCellRequest", &cell(), of::run_cell),
        row(
            "runtime.v0.UpdateCellRequest",
            &update_cell,
            of::update_cell,
        ),
        row(
            "runtime.v0.UpdateExecutableRequest",
            &update_executable,
            of::update_executable,
        ),
        row("pod.v0.RunRequest", &pod(), convert::pod::run),
        row(
            "pod.v0.UpdateRequest",
            &pods::UpdateRequest { pod: pod().pod },
            convert::pod::update,
        ),
        row("pod.v0.DebugRequest", &debug(), convert::pod::debug),
        row("sets.v0.PutRequest", &set(), |_, m: sets::PutRequest| {
            convert::set::put(m.set)
        }),
    ]
}

/// What ends them.
fn ends() -> Vec<Row> {
    let signal = runtime::SignalRequest {
        r#ref: at("web/main"),
        signal: "TERM".into(),
        all_processes: true,
    };
    let stop = runtime::StopRequest {
        r#ref: at("web/main"),
        grace: Some(prost_types::Duration {
            seconds: 1,
            nanos: 0,
        }),
    };
    let remove = runtime::RemoveRequest {
        r#ref: at("web/main"),
        recursive: true,
        force: true,
    };
    use convert::request as of;
    vec![
        row("runtime.v0.SignalRequest", &signal, of::signal),
        row("runtime.v0.StopRequest", &stop, of::stop),
        row("runtime.v0.RemoveRequest", &remove, of::remove),
    ]
}

/// What names one object and nothing else.
fn named() -> Vec<Row> {
    use convert::object::object_ref;
    let get = runtime::GetRequest { r#ref: at("web") };
    let freeze = runtime::FreezeCellRequest { r#ref: at("web") };
    let thaw = runtime::ThawCellRequest { r#ref: at("web") };
    vec![
        row(
            "runtime.v0.GetRequest",
            &get,
            |own, m: runtime::GetRequest| object_ref(own, m.r#ref),
        ),
        row(
            "runtime.v0.FreezeCellRequest",
            &freeze,
            |own, m: runtime::FreezeCellRequest| object_ref(own, m.r#ref),
        ),
        row(
            "runtime.v0.ThawCellRequest",
            &thaw,
            |own, m: runtime::ThawCellRequest| object_ref(own, m.r#ref),
        ),
    ]
}

/// What looks.
fn looks() -> Vec<Row> {
    let attach = runtime::AttachStart {
        r#ref: at("web/main"),
        stdin: true,
        ..Default::default()
    };
    let list = runtime::ListRequest {
        page_size: 10,
        selector: "a=b".into(),
        ..Default::default()
    };
    let logs = observe::LogsRequest {
        refs: at("web/main").into_iter().collect(),
        ..Default::default()
    };
    let usage = observe::UsageRequest {
        refs: at("web/main").into_iter().collect(),
        ..Default::default()
    };
    vec![
        row(
            "runtime.v0.AttachStart",
            &attach,
            convert::request::attach_start,
        ),
        row("runtime.v0.ListRequest", &list, convert::request::list),
        row("observe.v0.LogsRequest", &logs, convert::observe::logs),
        row("observe.v0.UsageRequest", &usage, convert::observe::usage),
    ]
}

fn is_required(field: &FieldDescriptor) -> bool {
    let option = field.parent_pool().get_extension_by_name(OPTION).unwrap();
    let options = field.options();
    options.has_extension(&option) && options.get_extension(&option).as_bool() == Some(true)
}

/// Every message below a whole one with one field taken out: the field, its path, and the bytes.
fn without_each(whole: &DynamicMessage) -> Vec<(FieldDescriptor, String, DynamicMessage)> {
    let mut found = Vec::new();
    for (field, value) in whole.fields() {
        let mut less = whole.clone();
        less.clear_field(&field);
        found.push((field.clone(), field.name().to_owned(), less));
        let inner = match value {
            Value::Message(inner) => Some(inner),
            Value::List(all) => all.first().and_then(Value::as_message),
            _ => None,
        };
        for (below, path, inner) in inner.map(without_each).unwrap_or_default() {
            let mut less = whole.clone();
            let inner = Value::Message(inner);
            let changed = match value {
                Value::List(_) => Value::List(vec![inner]),
                _ => inner,
            };
            less.set_field(&field, changed);
            found.push((below, format!("{}.{path}", field.name()), less));
        }
    }
    found
}

#[test]
fn what_the_node_refuses_when_it_is_missing_is_required() {
    let pool = api::descriptor_pool().unwrap();
    let mut wrong = Vec::new();
    let mut required = 0;
    let schedules = [wishes(), named_schedules()].into_iter().flatten();
    let others = [changes(), ends(), named(), looks()].into_iter().flatten();
    for row in others.chain(schedules) {
        let name = format!("aurae.{}", row.name);
        let kind: MessageDescriptor = pool.get_message_by_name(&name).unwrap();
        let whole = DynamicMessage::decode(kind, row.whole.as_slice()).unwrap();
        if let Err(e) = (row.check)(&row.whole) {
            wrong.push(format!("{name} is not whole: {e:?}"));
        }
        for (field, path, less) in without_each(&whole) {
            // Which of several it is can't be required of one of them.
            let one_of = field
                .containing_oneof()
                .is_some_and(|it| !it.is_synthetic());
            if one_of || field.full_name().starts_with("google.") {
                continue;
            }
            let refused = (row.check)(&less.encode_to_vec()).err();
            required += usize::from(is_required(&field));
            if refused.is_some() != is_required(&field) {
                wrong.push(format!(
                    "{name} {path} ({}): {refused:?}, but the contract says {}",
                    field.full_name(),
                    is_required(&field),
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(required > 20, "{required}");
}
