// SPDX-License-Identifier: Apache-2.0
//! The hooks of a container: those of its devices, then its own. When they run is decided here, and
//! how is the port's ([`Hooks`](crate::ports::Hooks)), which keeps them: what a cell-init says is
//! the tenant's side, and no program of the node is run because of it. Those that run inside of the
//! container are the cell-init's child's ([`Before`]).

use init::protocol::{Before, First};
use model::error::Error;
use model::hook::{Hook, Moment};
use model::status::Meta;
use serde_json::{Value, json};

use crate::Shared;
use crate::cell::init::InitProcess;
use crate::ports::{NewContainer, Spaces};
use crate::record::CellRecord;

/// The version of the specification that documents here follow.
pub const OCI_VERSION: &str = "1.2.1";

/// A container is made: has its hooks kept, and those of this moment run.
///
/// # Errors
/// One of them fails: the container is to be taken back.
pub(crate) async fn made(
    shared: &Shared,
    record: &CellRecord,
    init: &InitProcess,
    of_devices: Vec<Hook>,
) -> Result<(), Error> {
    let Some(container) = record.spec.container.as_ref().filter(|it| it.has_image()) else {
        return Ok(());
    };
    let hooks: Vec<_> = of_devices
        .into_iter()
        .chain(container.hooks.clone())
        .collect();
    if hooks.is_empty() {
        return Ok(());
    }
    let container = NewContainer {
        meta: record.meta.clone(),
        hooks,
        pid: init.pid(),
        spaces: spaces_of(init)?,
    };
    shared.hooks.made(container).await
}

/// What runs before a main process of that container.
pub(crate) fn before(shared: &Shared, container: &Meta) -> Option<Before> {
    let hooks = shared.hooks.of(container.uid, Moment::StartContainer);
    let bytes = |text: &String| text.clone().into_bytes();
    let first = |hook: &Hook| First {
        path: bytes(&hook.path),
        argv: hook.effective_argv().iter().map(bytes).collect(),
        env: hook
            .env
            .iter()
            .map(|(k, v)| format!("{k}={v}").into_bytes())
            .collect(),
        timeout_ms: u32::try_from(hook.effective_timeout().as_millis()).unwrap_or(u32::MAX),
    };
    let programs: Vec<_> = hooks.iter().map(first).collect();
    let state = || state(container, "created", None, "").to_string();
    (!programs.is_empty()).then(|| Before {
        state: state().into_bytes(),
        programs,
    })
}

/// The state of a container, as the runtime specification has it. `bundle` is empty where there is
/// none.
pub fn state(meta: &Meta, status: &str, pid: Option<i32>, bundle: &str) -> Value {
    let mut state = json!({
        "ociVersion": OCI_VERSION,
        "id": meta.uid.to_string(),
        "status": status,
        "bundle": bundle,
        "annotations": annotations(meta),
    });
    if let (Some(pid), Value::Object(state)) = (pid, &mut state) {
        state.insert("pid".to_owned(), pid.into());
    }
    state
}

/// What says whose a container is.
pub fn annotations(meta: &Meta) -> Value {
    json!({
        "aurae.tenant": meta.tenant.to_string(),
        "aurae.path": meta.path.to_string(),
    })
}

/// The namespaces of a cell's init.
fn spaces_of(init: &InitProcess) -> Result<Spaces, Error> {
    let open = |name| init.namespace(name);
    Ok(Spaces {
        mounts: open("mnt")?,
        users: open("user")?,
        network: open("net")?,
        ipc: open("ipc")?,
        uts: open("uts")?,
        cgroup: open("cgroup")?,
    })
}
