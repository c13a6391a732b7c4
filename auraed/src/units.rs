// SPDX-License-Identifier: Apache-2.0
//! Wires the unit manager to the node, and says whether the node runs units at all. Called by
//! `serve`.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use identity::Identity;
use init::protocol::{Role, Welcome};
use observe::Logs;
use runtime::{InitState, NodeInit, PowerMode, Runtime};
use schedule::unit::{Folders, Generators, ROWS, SYSTEM, Settings, Units};
use store::Store;

use crate::config::{self, Switch};
use crate::{host, past};

/// What says that a disk is one of systemd's packages.
const OF_SYSTEMD: &str = "/lib/systemd/system/multi-user.target";
/// What says to programs and maintainer scripts that units are run here (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";
/// The first folder of packages' units: what is in front of it is administrators'.
const OF_PACKAGES: &str = "/usr/local/lib/systemd/system";

/// Whether the node runs units.
fn are_run(switch: Switch, role: Role) -> bool {
    match switch {
        Switch::On => true,
        Switch::Off => false,
        Switch::Auto => role == Role::Machine && Path::new(OF_SYSTEMD).exists(),
    }
}

/// systemd's folders; as PID 1 of a machine with our rows of systemd's own units.
fn system(role: Role) -> Vec<String> {
    let mut paths = SYSTEM.map(str::to_owned).to_vec();
    let at = paths.iter().position(|it| it == OF_PACKAGES);
    if let (Some(at), Role::Machine) = (at, role) {
        paths.insert(at, ROWS.to_owned());
    }
    paths
}

/// What a machine starts, by the words of the kernel's command line that systemd knows, too
/// (systemd(1), "Kernel command line"): boot loaders' menus have them. The last one counts.
fn first_of(command_line: &str) -> &str {
    let word = |word| match word {
        "emergency" | "-b" => Some("emergency.target"),
        "rescue" | "single" | "s" | "S" | "1" => Some("rescue.target"),
        "2" | "3" | "4" => Some("multi-user.target"),
        "5" => Some("graphical.target"),
        _ => str::strip_prefix(word, "systemd.unit="),
    };
    let words = command_line.split_ascii_whitespace();
    words.rev().find_map(word).unwrap_or("default.target")
}

/// Services that manage a machine's network, where they are enabled.
const NETWORKS: [&str; 3] = [
    "systemd-networkd.service",
    "NetworkManager.service",
    "networking.service",
];

/// Which service of the disk manages the machine's network: then the daemon doesn't.
pub(crate) fn of_network(config: &config::Config, role: Role) -> Option<&'static str> {
    let folder = config.units.persistent.as_path();
    are_run(config.units.enabled, role)
        .then(|| enabled_of(folder, &NETWORKS))
        .flatten()
}

/// The first of these services that a target wants, by links of an administrator's folder.
fn enabled_of(folder: &Path, services: &[&'static str]) -> Option<&'static str> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let wants = entries.map(|it| it.path());
    let wants: Vec<_> = wants
        .filter(|it| it.extension().is_some_and(|it| it == "wants"))
        .collect();
    let is_wanted = |service: &&&'static str| {
        let mut links = wants.iter().map(|folder| folder.join(service));
        links.any(|link| link.symlink_metadata().is_ok())
    };
    services.iter().find(is_wanted).copied()
}

/// Starts it where the configuration asks for it, or a machine's disk has units.
pub(crate) fn start(
    config: &config::Config,
    welcome: &Welcome,
    store: &Store,
    identity: &Arc<Identity>,
    runtime: &Runtime,
    logs: &Logs,
) -> anyhow::Result<Units> {
    let run = &config.paths.run;
    let config = &config.units;
    if !are_run(config.enabled, welcome.role) {
        return Ok(Units::off());
    }
    let is_machines = config.paths.is_empty() && welcome.role == Role::Machine;
    if is_machines && let Err(error) = std::fs::create_dir_all(BOOTED) {
        tracing::error!(%error, "{BOOTED}: packages will not start what they install");
    }
    let text = |path: &Path| path.display().to_string();
    let paths = match config.paths.is_empty() {
        true => system(welcome.role),
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
        ("", Role::Machine) => {
            let words = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
            Some(first_of(&words).to_owned())
        }
        ("", _) => None,
        (name, _) => Some(name.to_owned()),
    };
    let settings = Settings {
        folders: Folders {
            paths,
            persistent: text(&config.persistent),
            runtime: text(&config.runtime),
        },
        generators: is_machines.then(|| Generators::of_machine(run)),
        first,
        boot_id: host::boot_id(),
        run: run.join("sandboxes"),
        sockets: run.join("units"),
        bus: config.bus.clone(),
        is_machine: welcome.role == Role::Machine,
    };
    let past = past::Store::of(logs);
    let (store, identity, runtime) = (store.clone(), identity.clone(), runtime.clone());
    Units::start(settings, store, identity, runtime, past).context("the units")
}

/// How the machine ends, where a client asks for it on the bus.
struct Machine {
    init: NodeInit,
}

impl bus::Machine for Machine {
    fn end(&self, how: bus::End) {
        let mode = match how {
            bus::End::PowerOff => PowerMode::PowerOff,
            bus::End::Reboot => PowerMode::Reboot,
            bus::End::Halt => PowerMode::Halt,
        };
        let init = self.init.clone();
        tokio::spawn(async move { init.shutdown(mode, None).await });
    }

    fn is_ending(&self) -> bool {
        matches!(*self.init.state().borrow(), InitState::ShuttingDown(..))
    }
}

/// Serves `org.freedesktop.systemd1` where units are run and the machine is the node's, or the
/// configuration says so. `None`: it isn't served.
pub(crate) fn on_the_bus(
    config: &config::Config,
    role: Role,
    units: &Units,
    identity: &Arc<Identity>,
    init: &NodeInit,
) -> Option<impl Future<Output = ()> + use<>> {
    let wanted = match config.units.systemd1 {
        Switch::On => true,
        Switch::Off => false,
        Switch::Auto => role == Role::Machine,
    };
    let settings = bus::Settings {
        private: config.units.private.clone(),
        bus: config.units.bus.clone(),
        subscribers: config.paths.run.join("systemd1.subscribers"),
    };
    let machine = Arc::new(Machine { init: init.clone() });
    let (units, identity) = (units.clone(), identity.clone());
    (wanted && units.are_run()).then(|| bus::run(settings, units, identity, machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_is_enabled_has_the_network() {
        let folder = tempfile::tempdir().unwrap();
        let found = || enabled_of(folder.path(), &NETWORKS);
        let wants = folder.path().join("multi-user.target.wants");
        std::fs::create_dir(&wants).unwrap();
        std::fs::write(folder.path().join("NetworkManager.service"), "").unwrap();
        assert_eq!(found(), None);
        let link = wants.join("systemd-networkd.service");
        std::os::unix::fs::symlink("/lib/systemd/system/systemd-networkd.service", link).unwrap();
        assert_eq!(found(), Some("systemd-networkd.service"));
    }

    #[test]
    fn the_boot_loaders_words_say_what_is_started() {
        let rows = [
            ("root=/dev/vda ro quiet", "default.target"),
            ("ro single quiet", "rescue.target"),
            ("ro emergency", "emergency.target"),
            (
                "single systemd.unit=multi-user.target 5",
                "graphical.target",
            ),
            ("ro systemd.unit=story.target", "story.target"),
        ];
        for (words, first) in rows {
            assert_eq!(first_of(words), first, "{words}");
        }
    }

    #[test]
    fn units_are_run_where_somebody_says_so_and_never_beside_another_init_by_themselves() {
        assert!(are_run(Switch::On, Role::Service));
        assert!(!are_run(Switch::Off, Role::Machine));
        assert!(!are_run(Switch::Auto, Role::Service));
        assert!(!are_run(Switch::Auto, Role::Container));
        // Rows of systemd's own units are in front of packages, behind administrators.
        let paths = system(Role::Machine);
        let at = |wanted: &str| paths.iter().position(|it| it == wanted);
        assert!(at("/etc/systemd/system") < at(ROWS) && at(ROWS) < at("/lib/systemd/system"));
        assert!(!system(Role::Service).iter().any(|it| it == ROWS));
    }
}
