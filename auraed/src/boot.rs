// SPDX-License-Identifier: Apache-2.0
//! `boot.run`: one program that the node runs by itself once it serves, in a cell `boot` that
//! shares all of the node's namespaces. It gives a fresh machine its first work, or a console a
//! shell. Keeping programs running belongs to schedule, not here.
//!
//! An executable like any other: listed, logged, stopped by its path `boot/run`. A daemon that
//! comes back finds it running, or ended, and does not run it again.

use std::sync::Arc;

use identity::{Effect, Identity};
use model::cell::{self, Namespace};
use model::error::{Error, Reason};
use model::executable::{DEFAULT_PATH, Draft};
use model::name::{InvalidName, ObjectPath, Tenant};
use model::request::{RunExecutable, WaitFor};
use model::seccomp::{Profile, Seccomp};
use model::status::Object;
use runtime::Runtime;

use crate::config::Boot;
use crate::host;

/// The id of the request. A second daemon of the same boot uses the same id and gets the object
/// that is there; after a reboot the id is another one, though the record of the last run is kept.
fn request_id() -> String {
    format!("boot-run-{}", host::boot_id())
}

/// Runs the program to its end.
pub(crate) async fn run(
    boot: &Boot,
    identity: &Identity,
    runtime: &Runtime,
) -> Result<Arc<Object>, Error> {
    let name = |e: InvalidName| Error::internal(e.to_string());
    let path: ObjectPath = "boot/run".parse().map_err(name)?;
    let tenant: Tenant = "system".parse().map_err(name)?;
    let shared = cell::Draft {
        share: Namespace::ALL.into_iter().collect(),
        ..Default::default()
    };
    let request = RunExecutable {
        tenant,
        path: path.clone(),
        labels: Default::default(),
        spec: program(boot).try_into()?,
        request_id: Some(request_id().parse().map_err(name)?),
        wait_for: WaitFor::Exited,
        own_cell: Some(shared.try_into()?),
        attach_follows: false,
    };
    let permit = identity.node_permit(effects(&path))?;
    match runtime.run_executable(permit, request).await {
        // It runs under another request, after a change of the configuration.
        Err(error) if error.reason == Reason::AlreadyExists => {
            Err(error.hint("stop `boot`, or reboot, to run the configured program"))
        }
        answer => answer,
    }
}

/// The effects of running it: it runs in a cell of its own, and replaces the record of the last
/// boot.
fn effects(path: &ObjectPath) -> Vec<Effect> {
    use api::action::runtime::{REMOVE, RUN_CELL, RUN_EXECUTABLE};
    let mut effects = vec![Effect::on(RUN_EXECUTABLE, path)];
    if let Some(cell) = path.parent() {
        effects.push(Effect::on(RUN_CELL, &cell));
        effects.push(Effect::on(REMOVE, &cell));
    }
    effects.push(Effect::on(REMOVE, path));
    effects
}

/// The configured words as a program with root's whole rights, as an init gives them.
fn program(boot: &Boot) -> Draft {
    let all = vec!["ALL".to_owned()];
    let env = [("PATH", DEFAULT_PATH), ("HOME", "/root"), ("TERM", "linux")];
    Draft {
        argv: boot.run.split_whitespace().map(str::to_owned).collect(),
        env: env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        capabilities: Some(model::capability::Capabilities {
            bounding: all,
            ambient: Vec::new(),
        }),
        no_new_privileges: Some(false),
        seccomp: Seccomp {
            profile: Profile::Unconfined,
            ..Seccomp::default()
        },
        ..Draft::default()
    }
}
