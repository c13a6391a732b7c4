// SPDX-License-Identifier: Apache-2.0
//! The table: each method, a message for it, and whom it is for. The objects are tenant `acme`'s: a
//! cell `web` with the executable `web/main`. A stranger names them with their tenant; the owner
//! leaves it out.

use std::sync::OnceLock;

use api::identity::v0 as identity;
use api::image::v0 as image;
use api::node::v0 as node;
use api::observe::v0 as observe;
use api::pod::v0 as pod;
use api::runtime::v0 as runtime;
use api::schedule::v0 as schedule;
use api::sets::v0 as sets;
use api::tenant::v0 as tenants;
use prost::Message;
use tonic::Code;

use crate::caller::Person;
use crate::raw::Answer;
use crate::requests::{program, shared_cell};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whom {
    Stranger,
    Owner,
    Administrator,
}

/// What a caller gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    /// Past the policies.
    Permitted,
    /// No word on whether it exists.
    Hidden,
    /// It is the caller's own, but not for it.
    Denied,
}

impl Expected {
    pub(crate) fn permits(self) -> bool {
        self == Expected::Permitted
    }

    pub(crate) fn check(self, action: &str, whom: Whom, answer: &Answer) {
        let met = match self {
            Expected::Permitted => answer.was_permitted(),
            Expected::Hidden => answer.code() == Some(Code::NotFound),
            Expected::Denied => answer.code() == Some(Code::PermissionDenied),
        };
        assert!(met, "{action} as {whom:?} should be {self:?}: {answer:?}");
    }
}

/// One method.
pub(crate) struct Row {
    pub(crate) action: &'static str,
    pub(crate) message: fn(Whom) -> Vec<u8>,
    stranger: Expected,
    owner: Expected,
    /// A grant to the owner changes what it gets.
    pub(crate) changes: bool,
}

impl Row {
    pub(crate) fn expected(&self, whom: Whom) -> Expected {
        match whom {
            Whom::Stranger => self.stranger,
            Whom::Owner => self.owner,
            Whom::Administrator => Expected::Permitted,
        }
    }
}

/// About an object of the owner's tenant, which members may do.
const fn member(action: &'static str, message: fn(Whom) -> Vec<u8>) -> Row {
    Row {
        action,
        message,
        stranger: Expected::Hidden,
        owner: Expected::Permitted,
        changes: true,
    }
}

/// About the caller or the node, which every caller may do.
const fn every_caller(action: &'static str, message: fn(Whom) -> Vec<u8>) -> Row {
    Row {
        action,
        message,
        stranger: Expected::Permitted,
        owner: Expected::Permitted,
        changes: true,
    }
}

/// About the owner's tenant, which only administrators may do.
const fn administrator(action: &'static str, message: fn(Whom) -> Vec<u8>) -> Row {
    Row {
        action,
        message,
        stranger: Expected::Hidden,
        owner: Expected::Denied,
        changes: true,
    }
}

/// About the node, or every tenant, which only administrators may do.
const fn node_wide(action: &'static str, message: fn(Whom) -> Vec<u8>, changes: bool) -> Row {
    Row {
        action,
        message,
        stranger: Expected::Denied,
        owner: Expected::Denied,
        changes,
    }
}

fn tenant(whom: Whom) -> String {
    match whom {
        Whom::Owner => String::new(),
        Whom::Stranger | Whom::Administrator => "acme".to_owned(),
    }
}

pub(crate) fn at(whom: Whom, path: &str) -> Option<runtime::ObjectRef> {
    Some(runtime::ObjectRef {
        tenant: tenant(whom),
        path: path.to_owned(),
        ..Default::default()
    })
}

pub(crate) fn argv(words: &[&str]) -> runtime::ExecutableSpec {
    runtime::ExecutableSpec {
        argv: words.iter().map(ToString::to_string).collect(),
        ..Default::default()
    }
}

/// The run of `web/main`.
static MAIN: OnceLock<String> = OnceLock::new();
/// A grant of another user's.
static GRANT: OnceLock<String> = OnceLock::new();

/// An image of the owner's tenant; it is pinned before it could be pruned.
const IMAGE: &str = "registry.test/demo/app:v1";

/// In the order in which they are called: what ends things comes last.
pub(crate) const ROWS: &[Row] = &[
    member("runtime.RunCell", |whom| {
        // It is there already.
        let cell = runtime::Cell {
            r#ref: at(whom, "web"),
            ..Default::default()
        };
        runtime::RunCellRequest {
            cell: Some(cell),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("runtime.RunExecutable", |whom| {
        let executable = runtime::Executable {
            r#ref: at(whom, "web/main"),
            spec: Some(argv(&["/bin/sleep", "1000"])),
            ..Default::default()
        };
        let executable = Some(executable);
        runtime::RunExecutableRequest {
            executable,
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("runtime.Get", |whom| {
        runtime::GetRequest {
            r#ref: at(whom, "web/main"),
        }
        .encode_to_vec()
    }),
    member("runtime.List", |whom| {
        runtime::ListRequest {
            tenant: tenant(whom),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("runtime.Watch", |whom| {
        runtime::WatchRequest {
            tenant: tenant(whom),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("runtime.UpdateCell", |whom| {
        let paths = vec!["labels".to_owned()];
        let update_mask = Some(prost_types::FieldMask { paths });
        let update = runtime::UpdateCellRequest {
            r#ref: at(whom, "web"),
            update_mask,
            ..Default::default()
        };
        update.encode_to_vec()
    }),
    member("runtime.UpdateExecutable", |whom| {
        let update = runtime::UpdateExecutableRequest {
            r#ref: at(whom, "web/main"),
            ..Default::default()
        };
        update.encode_to_vec()
    }),
    member("runtime.FreezeCell", |whom| {
        runtime::FreezeCellRequest {
            r#ref: at(whom, "web"),
        }
        .encode_to_vec()
    }),
    member("runtime.ThawCell", |whom| {
        runtime::ThawCellRequest {
            r#ref: at(whom, "web"),
        }
        .encode_to_vec()
    }),
    member("runtime.Signal", |whom| {
        let signal = "CONT".to_owned();
        let target = at(whom, "web/main");
        runtime::SignalRequest {
            r#ref: target,
            signal,
            all_processes: false,
        }
        .encode_to_vec()
    }),
    member("runtime.Attach", |whom| {
        use runtime::attach_request::Message as Part;
        let start = runtime::AttachStart {
            r#ref: at(whom, "web/main"),
            ..Default::default()
        };
        runtime::AttachRequest {
            message: Some(Part::Start(start)),
        }
        .encode_to_vec()
    }),
    member("observe.Logs", |whom| {
        let refs = vec![at(whom, "web/main").unwrap_or_default()];
        observe::LogsRequest {
            refs,
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("observe.Usage", |whom| {
        observe::UsageRequest {
            tenant: tenant(whom),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("observe.WatchUsage", |whom| {
        observe::WatchUsageRequest {
            tenant: tenant(whom),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    node_wide(
        "observe.Journal",
        |_| observe::JournalRequest::default().encode_to_vec(),
        true,
    ),
    every_caller("identity.WhoAmI", |_| {
        identity::WhoAmIRequest {}.encode_to_vec()
    }),
    every_caller("identity.Renew", |_| {
        // Refused as no signing request, once permitted.
        identity::RenewRequest {
            csr_pem: "none".into(),
            lifetime: None,
        }
        .encode_to_vec()
    }),
    member("identity.Explain", |whom| {
        let explain = identity::ExplainRequest {
            tenant: tenant(whom),
            user: "ann".into(),
            action: "runtime.Get".into(),
            ..Default::default()
        };
        explain.encode_to_vec()
    }),
    administrator("identity.CreateUser", |whom| {
        identity::CreateUserRequest {
            tenant: tenant(whom),
            name: "ann".into(),
            administrator: false,
        }
        .encode_to_vec()
    }),
    administrator("identity.ListUsers", |whom| {
        identity::ListUsersRequest {
            tenant: tenant(whom),
        }
        .encode_to_vec()
    }),
    administrator("identity.Issue", |whom| {
        let issue = identity::IssueRequest {
            tenant: tenant(whom),
            name: "ann".into(),
            csr_pem: "none".into(),
            lifetime: None,
        };
        issue.encode_to_vec()
    }),
    administrator("identity.Allow", |whom| {
        let allow = identity::AllowRequest {
            tenant: tenant(whom),
            user: "rita".into(),
            action: "runtime.Get".into(),
            ..Default::default()
        };
        allow.encode_to_vec()
    }),
    administrator("identity.Deny", |whom| {
        let deny = identity::DenyRequest {
            tenant: tenant(whom),
            user: "rita".into(),
            action: "runtime.Get".into(),
            ..Default::default()
        };
        deny.encode_to_vec()
    }),
    administrator("identity.DisableUser", |whom| {
        identity::DisableUserRequest {
            tenant: tenant(whom),
            name: "rita".into(),
        }
        .encode_to_vec()
    }),
    administrator("identity.EnableUser", |whom| {
        identity::EnableUserRequest {
            tenant: tenant(whom),
            name: "rita".into(),
        }
        .encode_to_vec()
    }),
    administrator("identity.ListCertificates", |whom| {
        identity::ListCertificatesRequest {
            tenant: tenant(whom),
            name: "ann".into(),
        }
        .encode_to_vec()
    }),
    // Past the policies, `none` is no serial number.
    node_wide(
        "identity.Revoke",
        |_| {
            identity::RevokeRequest {
                serial: "none".into(),
                ..Default::default()
            }
            .encode_to_vec()
        },
        true,
    ),
    // There is one to be withdrawn, once.
    node_wide(
        "identity.Withdraw",
        |_| {
            let id = GRANT.get().cloned().unwrap_or_default();
            identity::WithdrawRequest { id }.encode_to_vec()
        },
        false,
    ),
    node_wide(
        "identity.Audit",
        |_| identity::AuditRequest::default().encode_to_vec(),
        false,
    ),
    member("sets.Put", |whom| {
        let set = sets::Set {
            tenant: tenant(whom),
            name: "shop".to_owned(),
            program: "shop/main.ts".to_owned(),
            ..Default::default()
        };
        sets::PutRequest {
            set: Some(set),
            expected_revision: 0,
        }
        .encode_to_vec()
    }),
    member("sets.Get", |whom| {
        sets::GetRequest {
            tenant: tenant(whom),
            name: "shop".to_owned(),
        }
        .encode_to_vec()
    }),
    member("sets.List", |whom| {
        sets::ListRequest {
            tenant: tenant(whom),
        }
        .encode_to_vec()
    }),
    member("sets.Remove", |whom| {
        sets::RemoveRequest {
            tenant: tenant(whom),
            name: "shop".to_owned(),
            // Of another one: the set stays for the callers after this.
            expected_revision: 99,
        }
        .encode_to_vec()
    }),
    // It is there, and no registry is asked.
    member("image.Pull", |whom| {
        image::PullRequest {
            tenant: tenant(whom),
            reference: IMAGE.to_owned(),
            policy: image::PullPolicy::Never.into(),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    // Past the policies, no registry listens there.
    member("image.Push", |whom| {
        image::PushRequest {
            tenant: tenant(whom),
            reference: IMAGE.to_owned(),
            to: "127.0.0.1:1/demo/app:v1".to_owned(),
            credentials: None,
        }
        .encode_to_vec()
    }),
    member("image.List", |whom| {
        image::ListRequest {
            tenant: tenant(whom),
        }
        .encode_to_vec()
    }),
    member("image.Get", |whom| {
        image::GetRequest {
            tenant: tenant(whom),
            reference: IMAGE.to_owned(),
        }
        .encode_to_vec()
    }),
    member("image.Pin", |whom| {
        image::PinRequest {
            tenant: tenant(whom),
            reference: IMAGE.to_owned(),
            pinned: true,
        }
        .encode_to_vec()
    }),
    member("image.Prune", |whom| {
        image::PruneRequest {
            tenant: tenant(whom),
            unused_for: None,
        }
        .encode_to_vec()
    }),
    // Past the policies, nothing follows.
    member("image.Import", |whom| {
        let begin = image::ImportBegin {
            tenant: tenant(whom),
            ..Default::default()
        };
        image::ImportRequest {
            of: Some(image::import_request::Of::Begin(begin)),
        }
        .encode_to_vec()
    }),
    member("image.Export", |whom| {
        image::ExportRequest {
            tenant: tenant(whom),
            reference: IMAGE.to_owned(),
        }
        .encode_to_vec()
    }),
    member("image.Verify", |whom| {
        image::VerifyRequest {
            tenant: tenant(whom),
            reference: IMAGE.to_owned(),
        }
        .encode_to_vec()
    }),
    // Past the policies, this is no reference: the image stays for the callers after this.
    member("image.Remove", |whom| {
        image::RemoveRequest {
            tenant: tenant(whom),
            reference: "?".to_owned(),
        }
        .encode_to_vec()
    }),
    // It is there already.
    member("pod.Run", |whom| {
        pod::RunRequest {
            pod: Some(duo(at(whom, "duo"))),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("pod.Get", |whom| {
        pod::GetRequest {
            r#ref: at(whom, "duo"),
        }
        .encode_to_vec()
    }),
    member("pod.List", |whom| {
        pod::ListRequest {
            tenant: tenant(whom),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("pod.Watch", |whom| {
        pod::WatchRequest {
            tenant: tenant(whom),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    // It stays as it is.
    member("pod.Update", |whom| {
        pod::UpdateRequest {
            pod: Some(duo(at(whom, "duo"))),
        }
        .encode_to_vec()
    }),
    // Past the policies, it has a container of that name.
    member("pod.Debug", |whom| {
        let container = duo(None).spec.unwrap_or_default().containers.pop();
        pod::DebugRequest {
            r#ref: at(whom, "duo"),
            container,
            target: String::new(),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    // Past the policies, nothing listens there.
    member("pod.Dial", |whom| {
        let start = pod::DialStart {
            r#ref: at(whom, "duo"),
            port: 1,
        };
        pod::DialRequest {
            message: Some(pod::dial_request::Message::Start(start)),
        }
        .encode_to_vec()
    }),
    // It runs, and stays.
    member("pod.Remove", |whom| {
        pod::RemoveRequest {
            r#ref: at(whom, "duo"),
            force: false,
        }
        .encode_to_vec()
    }),
    member("pod.Stop", |whom| {
        pod::StopRequest {
            r#ref: at(whom, "duo"),
            grace: Some(prost_types::Duration::default()),
        }
        .encode_to_vec()
    }),
    member("schedule.Declare", |whom| {
        let mut request = crate::schedule::shell(taken_away(whom), "true");
        request.tenant = tenant(whom);
        request.encode_to_vec()
    }),
    member("schedule.List", |whom| {
        schedule::ListRequest {
            tenant: tenant(whom),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("schedule.Watch", |whom| {
        schedule::WatchRequest {
            tenant: tenant(whom),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("schedule.PutConfig", |whom| {
        schedule::PutConfigRequest {
            tenant: tenant(whom),
            name: taken_away(whom).to_owned(),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("schedule.GetConfig", |whom| {
        schedule::GetConfigRequest {
            tenant: tenant(whom),
            name: taken_away(whom).to_owned(),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("schedule.ListConfigs", |whom| {
        schedule::ListConfigsRequest {
            tenant: tenant(whom),
        }
        .encode_to_vec()
    }),
    member("schedule.RemoveConfig", |whom| {
        schedule::RemoveConfigRequest {
            tenant: tenant(whom),
            name: taken_away(whom).to_owned(),
            ..Default::default()
        }
        .encode_to_vec()
    }),
    member("schedule.Get", |whom| {
        schedule::GetRequest {
            tenant: tenant(whom),
            name: "later".to_owned(),
        }
        .encode_to_vec()
    }),
    member("schedule.Why", |whom| {
        schedule::WhyRequest {
            tenant: tenant(whom),
            name: "later".to_owned(),
        }
        .encode_to_vec()
    }),
    member("schedule.History", |whom| {
        schedule::HistoryRequest {
            tenant: tenant(whom),
            name: "later".to_owned(),
        }
        .encode_to_vec()
    }),
    member("schedule.Pause", |whom| {
        schedule::PauseRequest {
            tenant: tenant(whom),
            name: "later".to_owned(),
        }
        .encode_to_vec()
    }),
    member("schedule.Resume", |whom| {
        schedule::ResumeRequest {
            tenant: tenant(whom),
            name: "later".to_owned(),
        }
        .encode_to_vec()
    }),
    member("schedule.Trigger", |whom| {
        schedule::TriggerRequest {
            tenant: tenant(whom),
            name: "later".to_owned(),
        }
        .encode_to_vec()
    }),
    member("schedule.Undo", |whom| {
        schedule::UndoRequest {
            tenant: tenant(whom),
            name: "rolled".to_owned(),
            revision: 1,
        }
        .encode_to_vec()
    }),
    member("schedule.Remove", |whom| {
        schedule::RemoveRequest {
            tenant: tenant(whom),
            name: taken_away(whom).to_owned(),
        }
        .encode_to_vec()
    }),
    node_wide(
        "schedule.ListUnits",
        |_| schedule::ListUnitsRequest::default().encode_to_vec(),
        true,
    ),
    node_wide(
        "schedule.GetUnit",
        |_| {
            let name = "web".to_owned();
            schedule::GetUnitRequest { name }.encode_to_vec()
        },
        true,
    ),
    node_wide("schedule.StartUnit", |_| unit_job(), true),
    node_wide("schedule.StopUnit", |_| unit_job(), true),
    node_wide("schedule.RestartUnit", |_| unit_job(), true),
    node_wide("schedule.ReloadUnit", |_| unit_job(), true),
    node_wide(
        "schedule.KillUnit",
        |_| {
            let request = schedule::KillUnitRequest {
                name: "web".to_owned(),
                ..Default::default()
            };
            request.encode_to_vec()
        },
        true,
    ),
    node_wide(
        "schedule.ResetFailedUnits",
        |_| schedule::ResetFailedUnitsRequest::default().encode_to_vec(),
        true,
    ),
    node_wide("schedule.EnableUnits", |_| unit_files(), true),
    node_wide("schedule.DisableUnits", |_| unit_files(), true),
    node_wide("schedule.MaskUnits", |_| unit_files(), true),
    node_wide("schedule.UnmaskUnits", |_| unit_files(), true),
    node_wide(
        "schedule.PresetUnits",
        |_| {
            let request = schedule::PresetUnitsRequest {
                names: vec!["web".to_owned()],
                ..Default::default()
            };
            request.encode_to_vec()
        },
        true,
    ),
    node_wide(
        "schedule.SetDefaultUnit",
        |_| {
            let name = "web.target".to_owned();
            schedule::SetDefaultUnitRequest { name }.encode_to_vec()
        },
        true,
    ),
    node_wide(
        "schedule.StartTransientUnit",
        |_| {
            let request = schedule::StartTransientUnitRequest {
                name: "run.service".to_owned(),
                text: "[Service]\nExecStart=/bin/true\n".to_owned(),
                ..Default::default()
            };
            request.encode_to_vec()
        },
        true,
    ),
    node_wide(
        "schedule.SetUnitProperties",
        |_| {
            let setting = schedule::UnitSetting {
                name: "TasksMax".to_owned(),
                value: "5".to_owned(),
            };
            let request = schedule::SetUnitPropertiesRequest {
                name: "web.service".to_owned(),
                settings: vec![setting],
                ..Default::default()
            };
            request.encode_to_vec()
        },
        true,
    ),
    node_wide(
        "schedule.GetUnitManager",
        |_| schedule::GetUnitManagerRequest {}.encode_to_vec(),
        false,
    ),
    node_wide(
        "schedule.SetUnitManager",
        |_| {
            let request = schedule::SetUnitManagerRequest {
                set: vec!["A=1".to_owned()],
                ..Default::default()
            };
            request.encode_to_vec()
        },
        true,
    ),
    node_wide(
        "schedule.ReloadUnitFiles",
        |_| schedule::ReloadUnitFilesRequest {}.encode_to_vec(),
        true,
    ),
    every_caller("node.Get", |_| node::GetRequest {}.encode_to_vec()),
    node_wide(
        "node.GetConfig",
        |_| node::GetConfigRequest {}.encode_to_vec(),
        true,
    ),
    node_wide(
        "node.ListUnowned",
        |_| node::ListUnownedRequest {}.encode_to_vec(),
        true,
    ),
    node_wide(
        "node.Reload",
        |_| node::ReloadRequest {}.encode_to_vec(),
        true,
    ),
    node_wide(
        "tenant.List",
        |_| tenants::ListRequest {}.encode_to_vec(),
        false,
    ),
    member("tenant.Get", |whom| {
        tenants::GetRequest {
            name: tenant(whom),
            quotas: None,
        }
        .encode_to_vec()
    }),
    administrator("tenant.Set", |_| {
        tenants::SetRequest {
            name: "acme".into(),
            quotas: None,
        }
        .encode_to_vec()
    }),
    // It has users: they keep it.
    administrator("tenant.Remove", |_| {
        tenants::RemoveRequest {
            name: "acme".into(),
        }
        .encode_to_vec()
    }),
    member("runtime.Stop", |whom| {
        let grace = Some(prost_types::Duration::default());
        runtime::StopRequest {
            r#ref: at(whom, "web/main"),
            grace,
        }
        .encode_to_vec()
    }),
    // It has just been stopped: the answer is there at once.
    member("runtime.Wait", |whom| {
        let mut target = at(whom, "web/main").unwrap_or_default();
        target.uid = MAIN.get().cloned().unwrap_or_default();
        runtime::WaitRequest {
            r#ref: Some(target),
        }
        .encode_to_vec()
    }),
    // What is in it keeps it.
    member("runtime.Remove", |whom| {
        let remove = runtime::RemoveRequest {
            r#ref: at(whom, "web"),
            ..Default::default()
        };
        remove.encode_to_vec()
    }),
    node_wide(
        "node.Shutdown",
        |whom| {
            let mode = match whom {
                // Past the policies: this one is the end.
                Whom::Administrator => node::shutdown_request::Mode::Halt,
                _ => node::shutdown_request::Mode::Reboot,
            };
            node::ShutdownRequest {
                mode: mode.into(),
                bound: None,
            }
            .encode_to_vec()
        },
        false,
    ),
];

fn unit_job() -> Vec<u8> {
    let request = schedule::UnitJobRequest {
        name: "web".to_owned(),
        ..Default::default()
    };
    request.encode_to_vec()
}

fn unit_files() -> Vec<u8> {
    let request = schedule::UnitFilesRequest {
        names: vec!["web.service".to_owned()],
        runtime: false,
    };
    request.encode_to_vec()
}

/// A schedule that is there once for each caller who may take it away.
fn taken_away(whom: Whom) -> &'static str {
    match whom {
        Whom::Administrator => "later-too",
        Whom::Owner | Whom::Stranger => "later",
    }
}

/// A pod of one container.
fn duo(place: Option<runtime::ObjectRef>) -> pod::Pod {
    let container = pod::Container {
        name: "app".to_owned(),
        entrypoint: vec!["/bin/sleep".to_owned(), "1000".to_owned()],
        ..Default::default()
    };
    pod::Pod {
        r#ref: place,
        spec: Some(pod::PodSpec {
            containers: vec![container],
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Makes what the table is about.
pub(crate) async fn furnish(administrator: &Person, owner: &Person) {
    let made = administrator
        .node
        .runtime()
        .run_cell(shared_cell("web"))
        .await;
    made.unwrap();
    let mut client = owner.node.runtime();
    let request = program("web/main", &["/bin/sleep", "1000"]);
    let status = client.run_executable(request).await.unwrap().into_inner();
    let uid = status
        .meta
        .and_then(|meta| meta.r#ref)
        .map(|target| target.uid);
    MAIN.set(uid.unwrap()).unwrap();
    let request = pod::RunRequest {
        pod: Some(duo(at(Whom::Owner, "duo"))),
        wait_for: pod::WaitFor::Ready.into(),
        ..Default::default()
    };
    crate::pods::pods(owner).run(request).await.unwrap();
    for script in ["true", "false"] {
        let mut rolled = crate::schedule::shell("rolled", script);
        rolled.spec.as_mut().unwrap().replicas = Some(schedule::Replicas::default());
        crate::schedule::declare(owner, rolled).await.unwrap();
    }
    let archive = crate::images::archive(IMAGE, &[crate::images::tar(&[("app", b"x")])]);
    crate::images::import(owner, &archive).await.unwrap();
    let message = identity::AllowRequest {
        tenant: "acme".into(),
        user: "rita".into(),
        action: "runtime".into(),
        ..Default::default()
    };
    GRANT.set(administrator.allow(message).await.id).unwrap();
}
