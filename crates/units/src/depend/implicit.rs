// SPDX-License-Identifier: Apache-2.0
//! Dependencies that no file names: those of a unit's type ("Implicit dependencies") and those that
//! `DefaultDependencies=no` takes away ("Default dependencies" of each type's page).

use std::collections::BTreeSet;

use super::Dependency::{After, Before, BindsTo, Conflicts, Requires, Triggers, Wants};
use super::{Dependency, Edge};
use crate::name::{UnitName, UnitType, of_path, slice_parent};
use crate::service::{Defaults, Service, Type};
use crate::unit::Unit;
use crate::value::{Clock, Value};

/// Collects edges from and to one unit.
struct Collected<'a> {
    unit: &'a Unit,
    edges: Vec<Edge>,
}

impl Collected<'_> {
    fn add(&mut self, kinds: &[Dependency], name: &str) {
        if let Ok(to) = UnitName::parse(name) {
            self.to(kinds, &to);
        }
    }

    fn to(&mut self, kinds: &[Dependency], to: &UnitName) {
        if *to != self.unit.id {
            self.edges.extend(
                kinds
                    .iter()
                    .map(|kind| super::edge(*kind, &self.unit.id, to)),
            );
        }
    }
}

/// The dependencies of a unit that follow from its type and settings. Those on mounts on its way
/// depend on which there are: [`mounts_on_the_way`].
pub fn implicit(unit: &Unit) -> Vec<Edge> {
    let mut edges = Collected {
        unit,
        edges: Vec::new(),
    };
    slices(&mut edges);
    executed(&mut edges);
    match unit.kind() {
        UnitType::Service => service(&mut edges),
        UnitType::Socket => socket(&mut edges),
        UnitType::Timer | UnitType::Path => triggers(&mut edges),
        UnitType::Mount => mount(&mut edges),
        UnitType::Automount => automount(&mut edges),
        UnitType::Swap => swap(&mut edges),
        // These two are there for as long as the machine runs (systemd.special(7)).
        UnitType::Slice if matches!(unit.id.as_str(), "-.slice" | "system.slice") => {}
        UnitType::Slice | UnitType::Scope | UnitType::Target => ends(&mut edges, "shutdown.target"),
        UnitType::Device => {}
    }
    edges.edges
}

fn has_defaults(unit: &Unit) -> bool {
    unit.settings.flag("DefaultDependencies").unwrap_or(true)
}

/// It is stopped when the machine goes down, or when file systems do.
fn ends(edges: &mut Collected<'_>, target: &str) {
    let unit = edges.unit;
    if has_defaults(unit) && unit.id.as_str() != target {
        edges.add(&[Conflicts, Before], target);
    }
}

/// The target that goes down with the machine, the one that everything waits for, and more.
fn defaults(edges: &mut Collected<'_>, before: &str) {
    if has_defaults(edges.unit) {
        edges.add(&[Requires, After], "sysinit.target");
        edges.add(&[Before], before);
    }
    ends(edges, "shutdown.target");
}

/// systemd.slice(5), systemd.resource-control(5): its slice is there first.
fn slices(edges: &mut Collected<'_>) {
    if let Some(slice) = slice_of(edges.unit) {
        edges.to(&[Requires, After], &slice);
    }
}

/// In which slice a unit's processes are: its own word, or the default of its type. Instances of a
/// template share one.
pub fn slice_of(unit: &Unit) -> Option<UnitName> {
    let given = unit.settings.units("Slice").first();
    match unit.kind() {
        UnitType::Slice => slice_parent(&unit.id),
        UnitType::Service | UnitType::Socket | UnitType::Mount | UnitType::Swap => {
            if given.is_some() {
                return given.cloned();
            }
            let own = unit.id.instance().map(|_| {
                let escaped = crate::name::escape(unit.id.prefix());
                format!("system-{escaped}.slice")
            });
            let sliced = unit.kind() == UnitType::Service || own.is_some();
            let name = own.filter(|_| sliced && has_defaults(unit));
            UnitName::parse(&name.unwrap_or_else(|| "system.slice".to_owned())).ok()
        }
        UnitType::Scope => given
            .cloned()
            .or_else(|| UnitName::parse("system.slice").ok()),
        _ => None,
    }
}

/// Folders that a unit uses, whose mounts come first.
const FOLDERS: [(&str, &str); 4] = [
    ("StateDirectory", "/var/lib"),
    ("CacheDirectory", "/var/cache"),
    ("LogsDirectory", "/var/log"),
    ("ConfigurationDirectory", "/etc"),
];

/// The paths whose mounts come first.
fn needed_paths(unit: &Unit) -> Vec<String> {
    let settings = &unit.settings;
    let mut paths: Vec<String> = Vec::new();
    for field in ["RequiresMountsFor", "WorkingDirectory"] {
        let all = settings
            .paths(field)
            .iter()
            .filter(|it| field != "WorkingDirectory" || !it.optional);
        paths.extend(all.map(|it| it.path.clone()));
    }
    for field in ["RootDirectory", "RootImage"] {
        paths.extend(settings.text(field).map(str::to_owned));
    }
    for (field, folder) in FOLDERS {
        if let Some(Value::Binds(binds)) = settings.get(field) {
            paths.extend(binds.iter().map(|it| format!("{folder}/{}", it.source)));
        }
    }
    if settings.flag("PrivateTmp") == Some(true) {
        paths.extend(["/tmp".to_owned(), "/var/tmp".to_owned()]);
    }
    let own = of_unit(unit);
    if let Some(parent) = own.as_deref().and_then(|it| it.rsplit_once('/')) {
        let parent = if parent.0.is_empty() { "/" } else { parent.0 };
        paths.push(parent.to_owned());
    }
    if unit.kind() == UnitType::Mount
        && let Some(what) = settings.text("What").filter(|it| it.starts_with('/'))
        && !what.starts_with("/dev/")
    {
        paths.push(what.to_owned());
    }
    if let Some(Value::Watches(watches)) = settings.get("Watches") {
        paths.extend(watches.iter().map(|(_, path)| path.clone()));
    }
    paths
}

/// The mount units of which there may be some on the way to what a unit needs. Those that there are
/// it requires, and follows (systemd.unit(5), `RequiresMountsFor=`).
pub fn mounts_on_the_way(unit: &Unit) -> BTreeSet<UnitName> {
    let paths = needed_paths(unit);
    let prefixes = paths.iter().flat_map(|path| prefixes(path));
    let mounts = prefixes.filter_map(|it| of_path(&it, UnitType::Mount));
    mounts.filter(|it| *it != unit.id).collect()
}

/// The mount point of a mount or automount.
fn of_unit(unit: &Unit) -> Option<String> {
    if !matches!(unit.kind(), UnitType::Mount | UnitType::Automount) {
        return None;
    }
    let own = unit.settings.text("Where").map(str::to_owned);
    own.or_else(|| crate::name::unescape_path(unit.id.stem()))
}

/// `/`, `/a`, `/a/b`.
fn prefixes(path: &str) -> Vec<String> {
    let mut all = vec!["/".to_owned()];
    let ends = path
        .match_indices('/')
        .map(|(at, _)| at)
        .skip(1)
        .chain([path.len()]);
    all.extend(ends.filter_map(|end| path.get(..end)).map(str::to_owned));
    all
}

/// systemd.exec(5), "Implicit dependencies".
fn executed(edges: &mut Collected<'_>) {
    let settings = &edges.unit.settings;
    let runs = matches!(
        edges.unit.kind(),
        UnitType::Service | UnitType::Socket | UnitType::Mount | UnitType::Swap
    );
    if !runs {
        return;
    }
    let journal = |field: &str, default: &str| {
        let text = settings.text(field).unwrap_or(default);
        text.starts_with("journal") || text.starts_with("kmsg")
    };
    let logs = journal("StandardOutput", "journal") || journal("StandardError", "inherit");
    let early = settings.flag("PrivateTmp") == Some(true);
    let name = settings.text("LogNamespace").map(str::to_owned);
    if logs && name.is_none() {
        edges.add(&[After], "systemd-journald.socket");
    }
    if let Some(name) = name {
        edges.add(
            &[Requires, After],
            &format!("systemd-journald@{name}.socket"),
        );
    }
    if early {
        edges.add(&[After], "systemd-tmpfiles-setup.service");
    }
}

/// systemd.service(5).
fn service(edges: &mut Collected<'_>) {
    let unit = edges.unit;
    let (service, _) = Service::of(unit, Defaults::default());
    if service.kind == Type::Dbus {
        edges.add(&[Requires, After], "dbus.socket");
    }
    for socket in unit.settings.units("Sockets") {
        edges.to(&[Wants, After], socket);
    }
    if has_defaults(unit) {
        edges.add(&[Requires, After], "sysinit.target");
        edges.add(&[After], "basic.target");
    }
    ends(edges, "shutdown.target");
}

/// systemd.socket(5). A socket with `Accept=yes` starts an instance for each connection.
fn socket(edges: &mut Collected<'_>) {
    let unit = edges.unit;
    let accepts = unit.settings.flag("Accept") == Some(true);
    if !accepts && let Some(service) = triggered(unit) {
        edges.to(&[Before, Triggers], &service);
    }
    defaults(edges, "sockets.target");
}

/// Which unit a socket, timer, path or automount starts.
pub fn triggered(unit: &Unit) -> Option<UnitName> {
    let (field, kind) = match unit.kind() {
        UnitType::Socket => ("Service", UnitType::Service),
        UnitType::Timer | UnitType::Path => ("Unit", UnitType::Service),
        UnitType::Automount => ("", UnitType::Mount),
        _ => return None,
    };
    let given = unit.settings.units(field).first();
    given.cloned().or_else(|| unit.id.with_kind(kind))
}

/// systemd.timer(5), systemd.path(5).
fn triggers(edges: &mut Collected<'_>) {
    let unit = edges.unit;
    if let Some(other) = triggered(unit) {
        edges.to(&[Before, Triggers], &other);
    }
    if unit.kind() == UnitType::Path {
        return defaults(edges, "paths.target");
    }
    let calendar = unit
        .settings
        .clocks("Clocks")
        .iter()
        .any(|it| matches!(it, Clock::Calendar(_)));
    if has_defaults(unit) && calendar {
        edges.add(&[After], "time-sync.target");
        edges.add(&[After], "time-set.target");
    }
    defaults(edges, "timers.target");
}

/// The file systems that need the network (systemd.mount(5)).
const NETWORK: [&str; 14] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "ceph",
    "glusterfs",
    "ncpfs",
    "ncp",
    "sshfs",
    "ocfs2",
    "gfs2",
    "9p",
    "davfs",
];

/// systemd.mount(5). The root's mounts are there before everything.
fn mount(edges: &mut Collected<'_>) {
    let unit = edges.unit;
    let what = unit.settings.text("What").unwrap_or("");
    if let Some(device) = device(what) {
        edges.to(&[BindsTo, After], &device);
    }
    let early = matches!(unit.id.as_str(), "-.mount" | "usr.mount" | "etc.mount");
    if !has_defaults(unit) || early {
        return;
    }
    let options = unit.settings.text("Options").unwrap_or("");
    let option = |name: &str| options.split(',').any(|it| it == name);
    let kind = unit.settings.text("Type").unwrap_or("");
    let (pre, done) = if NETWORK.contains(&kind) || option("_netdev") {
        edges.add(&[Wants, After], "network-online.target");
        edges.add(&[After], "network.target");
        ("remote-fs-pre.target", "remote-fs.target")
    } else {
        ("local-fs-pre.target", "local-fs.target")
    };
    edges.add(&[After], pre);
    edges.add(&[Before], done);
    edges.add(&[Before, Conflicts], "umount.target");
}

/// The device of a block device's path, or of what fstab calls it by.
fn device(what: &str) -> Option<UnitName> {
    let by = [
        ("UUID=", "uuid"),
        ("LABEL=", "label"),
        ("PARTUUID=", "partuuid"),
        ("PARTLABEL=", "partlabel"),
    ];
    let found = by
        .iter()
        .find_map(|(tag, folder)| Some((folder, what.strip_prefix(tag)?)));
    let path = match found {
        Some((folder, value)) => format!("/dev/disk/by-{folder}/{}", value.trim_matches('"')),
        None => what.to_owned(),
    };
    path.starts_with("/dev/")
        .then(|| of_path(&path, UnitType::Device))?
}

/// systemd.automount(5).
fn automount(edges: &mut Collected<'_>) {
    if let Some(mount) = triggered(edges.unit) {
        edges.to(&[Before, Triggers], &mount);
    }
    if has_defaults(edges.unit) {
        edges.add(&[After], "local-fs-pre.target");
        edges.add(&[Before], "local-fs.target");
        edges.add(&[Before, Conflicts], "umount.target");
    }
}

/// systemd.swap(5).
fn swap(edges: &mut Collected<'_>) {
    let what = edges.unit.settings.text("What").unwrap_or("").to_owned();
    if let Some(device) = device(&what) {
        edges.to(&[BindsTo, After], &device);
    }
    if has_defaults(edges.unit) {
        edges.add(&[Before], "swap.target");
        edges.add(&[Before, Conflicts], "umount.target");
    }
}
