// SPDX-License-Identifier: Apache-2.0
//! Wires the unit manager to the node. Called by `serve`.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use identity::Identity;
use init::protocol::{Role, Welcome};
use runtime::Runtime;
use schedule::unit::{Folders, SYSTEM, Settings, Units};
use store::Store;

use crate::config;
use crate::host;

/// Starts it where the configuration asks for it.
pub(crate) fn start(
    config: &config::Config,
    welcome: &Welcome,
    store: &Store,
    identity: &Arc<Identity>,
    runtime: &Runtime,
) -> anyhow::Result<Units> {
    let run = &config.paths.run;
    let bound = config.shutdown.bound.0;
    let config = &config.units;
    if !config.enabled {
        return Ok(Units::off());
    }
    let text = |path: &Path| path.display().to_string();
    let paths = match config.paths.is_empty() {
        true => SYSTEM.map(str::to_owned).to_vec(),
        false => {
            // That of transient units is beside that of links until the next reboot.
            let beside = config.runtime.parent().unwrap_or(Path::new("/run/systemd"));
            let transient = std::iter::once(text(&beside.join("transient")));
            transient
                .chain(config.paths.iter().map(|path| text(path)))
                .collect()
        }
    };
    let first = match (config.default.as_str(), welcome.role) {
        ("", Role::Machine) => Some("default.target".to_owned()),
        ("", _) => None,
        (name, _) => Some(name.to_owned()),
    };
    let settings = Settings {
        folders: Folders {
            paths,
            persistent: text(&config.persistent),
            runtime: text(&config.runtime),
        },
        first,
        boot_id: host::boot_id(),
        run: run.join("sandboxes"),
        sockets: run.join("units"),
        bus: config.bus.clone(),
        is_machine: welcome.role == Role::Machine,
        bound,
    };
    Units::start(settings, store.clone(), identity.clone(), runtime.clone()).context("the units")
}
