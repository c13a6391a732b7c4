// SPDX-License-Identifier: Apache-2.0
//! What a container's programs find names by: its `/etc/hosts`, `/etc/resolv.conf` and
//! `/etc/hostname`, as Docker's and Kubernetes' users expect them. They come as mounts, like those
//! of the spec: the cell's init looks for their places with the cell's own rights, so a link of the
//! image leads nowhere but into the image. They are read-only, because their memory is the node's,
//! and have no name once they are in place: the mount alone keeps them.
//!
//! A container that shares the network of the cell around it has the names of that one.

use std::fs::File;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use ::init::protocol::MountTarget;
use kernel::mount::{self, Attributes, Change, Propagation};
use kernel::{Context, Result as KernelResult};
use model::cell::{CellSpec, Namespace};
use model::error::Error;
use model::network::{Attached, Dns, HostAlias, Network};
use model::status::Object;
use rustix::fs::{Gid, Mode, OFlags, Uid};

use super::kernel_failed;
use crate::Shared;
use crate::index::Key;
use crate::mounts::Prepared;
use crate::ports::NodeNames;
use crate::record::CellRecord;

/// Beside the sockets; only the node's root enters it.
const FOLDER: &str = "names";

/// What a name is looked up by: of the cell whose network it is.
struct Names {
    hostname: String,
    addresses: Vec<IpAddr>,
    network: Network,
    /// Whether it is attached to anything: who isn't reaches no server of the node's.
    attached: bool,
}

/// What is brought to a cell, and has a name until that is done.
#[derive(Default)]
pub(super) struct Files {
    pub(super) mounts: Vec<Prepared>,
    pub(super) drafts: Drafts,
}

/// Files that go with this.
#[derive(Default)]
pub(super) struct Drafts(Vec<PathBuf>);

impl Drop for Drafts {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Err(error) = std::fs::remove_file(path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "a file of a cell stays behind");
            }
        }
    }
}

/// The folder of the drafts, which each daemon begins empty: a killed one may have left some.
///
/// # Errors
/// It can't be made.
pub(crate) fn begin(cells_dir: &Path) -> std::io::Result<()> {
    let folder = cells_dir.join(FOLDER);
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::create_dir(folder)
}

/// The files of a container of an image; none of any other cell. `root_id`: the node's id of its
/// root.
pub(super) fn files(
    shared: &Shared,
    key: &Key,
    record: &CellRecord,
    attached: Option<&Attached>,
    root_id: u32,
) -> Result<Files, Error> {
    let spec = &record.spec;
    let mut files = Files::default();
    if !spec.container.as_ref().is_some_and(|it| it.has_image()) {
        return Ok(files);
    }
    let node = shared.networks.names();
    let hostname = hostname(shared, key, spec);
    let (hosts, resolv) = match of_network(shared, key, spec, attached) {
        Some(names) => (hosts(&names), resolv_conf(&names, &node.dns)),
        None => of_node(&hostname, &said(shared, key, spec), node),
    };
    let texts = [
        ("/etc/hosts", hosts),
        ("/etc/resolv.conf", resolv),
        ("/etc/hostname", format!("{hostname}\n")),
    ];
    let folder = shared.settings.cells_dir.join(FOLDER);
    let failed = |e: kernel::Error| kernel_failed("the names of the container", &e);
    for (number, (target, text)) in texts.into_iter().enumerate() {
        let path = folder.join(format!("{}-{number}", record.meta.uid));
        files.drafts.0.push(path.clone());
        let mount = file(&path, &text, root_id).map_err(failed)?;
        let target = target.as_bytes().to_vec();
        let directory = false;
        let target = MountTarget { target, directory };
        files.mounts.push(Prepared {
            mount,
            file: None,
            target,
        });
    }
    Ok(files)
}

/// A mount of a new file with that text.
fn file(path: &Path, text: &str, root_id: u32) -> KernelResult<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let open = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644));
    let mut file = File::from(open.call_on("open", path)?);
    let written = file.write_all(text.as_bytes());
    written.map_err(|e| kernel::Error::from_io("write", &e).on(path))?;
    let (uid, gid) = (Uid::from_raw(root_id), Gid::from_raw(root_id));
    rustix::fs::fchown(&file, Some(uid), Some(gid)).call_on("chown", path)?;
    // The umask has taken something away.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644)).call_on("chmod", path)?;
    let mount = mount::copy_tree(path, false)?;
    let change = Change {
        set: Attributes::NO_SUID | Attributes::NO_DEV | Attributes::READ_ONLY,
        propagation: Some(Propagation::Private),
        ..Change::default()
    };
    mount::set_attributes(&mount, &change)?;
    Ok(mount)
}

/// The cell whose network it is: itself, or the first around it that has one of its own. `None`:
/// the node's, where every cell up to the top was seen to share. What can't be seen is told nothing
/// of the node.
fn of_network(
    shared: &Shared,
    key: &Key,
    spec: &CellSpec,
    attached: Option<&Attached>,
) -> Option<Names> {
    // What a container says of hosts and resolvers counts also where the network is another's.
    let names = |key: &Key, of: &CellSpec, attached: Option<&Attached>| Names {
        hostname: hostname(shared, key, of),
        addresses: attached.map_or_else(Vec::new, |attached| attached.addresses().collect()),
        network: spec
            .network
            .clone()
            .or_else(|| of.network.clone())
            .unwrap_or_default(),
        attached: attached.is_some(),
    };
    if !spec.shares(Namespace::Net) {
        return Some(names(key, spec, attached));
    }
    let mut next = from(key, spec, Namespace::Net);
    for _ in 0..HOPS {
        let other = next?;
        let object = shared.index.at(&other);
        let Some(Object::Cell(cell)) = object.as_deref() else {
            return Some(names(key, spec, None));
        };
        if !cell.spec.shares(Namespace::Net) {
            return Some(names(&other, &cell.spec, cell.network.as_ref()));
        }
        next = from(&other, &cell.spec, Namespace::Net);
    }
    Some(names(key, spec, None))
}

/// How many cells are asked whose a namespace is. Names that were run again since they were joined
/// may lead in a circle.
const HOPS: usize = 32;

/// Which cell a cell has that namespace from, which isn't its own; `None`: it is the node's.
fn from(key: &Key, spec: &CellSpec, kind: Namespace) -> Option<Key> {
    match spec.join.get(&kind) {
        Some(path) => Some(Key {
            tenant: key.tenant.clone(),
            path: path.clone(),
        }),
        None => key.parent(),
    }
}

/// What is said of hosts and resolvers by the container, or the innermost cell around it that says
/// something, where all share the node's network.
fn said(shared: &Shared, key: &Key, spec: &CellSpec) -> Network {
    if let Some(own) = &spec.network {
        return own.clone();
    }
    let mut around = std::iter::successors(key.parent(), Key::parent);
    let found = around.find_map(|key| match &*shared.index.at(&key)? {
        Object::Cell(cell) => cell.spec.network.clone(),
        Object::Executable(_) => None,
    });
    found.unwrap_or_default()
}

/// What the programs of a cell take for the machine's name.
fn hostname(shared: &Shared, key: &Key, spec: &CellSpec) -> String {
    let (mut key, mut spec) = (key.clone(), spec.clone());
    for _ in 0..HOPS {
        if !spec.shares(Namespace::Uts) {
            return spec.effective(&key.path).hostname;
        }
        let Some(other) = from(&key, &spec, Namespace::Uts) else {
            let machine = rustix::system::uname();
            return machine.nodename().to_string_lossy().into_owned();
        };
        match shared.index.at(&other).as_deref() {
            Some(Object::Cell(cell)) => (key, spec) = (other, cell.spec.clone()),
            _ => break,
        }
    }
    String::new()
}

/// What a container that shares the node's network has.
fn of_node(hostname: &str, said: &Network, node: NodeNames) -> (String, String) {
    let mut hosts = node.hosts;
    let names = |line: &str| line.split_whitespace().any(|word| word == hostname);
    if !hostname.is_empty() && !hosts.lines().any(names) {
        if !hosts.is_empty() && !hosts.ends_with('\n') {
            hosts.push('\n');
        }
        hosts.push_str(&format!("127.0.1.1\t{hostname}\n"));
    }
    if !hosts.is_empty() && !hosts.ends_with('\n') {
        hosts.push('\n');
    }
    add_aliases(&mut hosts, &said.hosts);
    if said.dns == Dns::default() {
        return (hosts, node.resolv_conf);
    }
    // Its own loopback addresses can be asked from there.
    let names = Names {
        hostname: String::new(),
        addresses: Vec::new(),
        network: said.clone(),
        attached: true,
    };
    (hosts, resolv_conf(&names, &node.dns_here))
}

fn add_aliases(text: &mut String, aliases: &[HostAlias]) {
    for HostAlias { address, names } in aliases {
        text.push_str(&format!("{address}\t{}\n", names.join(" ")));
    }
}

fn hosts(names: &Names) -> String {
    let mut text = "127.0.0.1\tlocalhost\n\
                    ::1\tlocalhost ip6-localhost ip6-loopback\n"
        .to_owned();
    let own = match names.network.domain.as_str() {
        "" => names.hostname.clone(),
        domain => format!("{0}.{domain} {0}", names.hostname),
    };
    for address in &names.addresses {
        text.push_str(&format!("{address}\t{own}\n"));
    }
    add_aliases(&mut text, &names.network.hosts);
    text
}

/// Of the cell's own words, and where it has no servers, the node's, which need a network.
fn resolv_conf(names: &Names, node: &Dns) -> String {
    let own = &names.network.dns;
    let adds = own.add && names.attached;
    let inherits = own.servers.is_empty() && names.attached;
    let of = |own: &[String], node: &[String]| match (adds, own.is_empty() && inherits) {
        (true, _) => [node, own].concat().join(" "),
        (false, true) => node.join(" "),
        (false, false) => own.join(" "),
    };
    let of_node = (adds || inherits).then_some(&node.servers);
    let servers = of_node.into_iter().flatten().chain(&own.servers);
    let mut text = String::new();
    for server in servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    let searches = of(&own.searches, &node.searches);
    let options = of(&own.options, &node.options);
    for (word, list) in [("search", searches), ("options", options)] {
        if !list.is_empty() {
            text.push_str(&format!("{word} {list}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_s_own_words_replace_the_nodes() {
        let node = Dns {
            servers: vec![[192, 0, 2, 53].into()],
            searches: vec!["example.org".into()],
            options: vec!["edns0".into()],
            add: false,
        };
        let text = |dns: Dns, attached| {
            let names = Names {
                hostname: String::new(),
                addresses: Vec::new(),
                network: Network {
                    dns,
                    ..Network::default()
                },
                attached,
            };
            resolv_conf(&names, &node)
        };
        assert_eq!(
            text(Dns::default(), true),
            "nameserver 192.0.2.53\nsearch example.org\noptions edns0\n"
        );
        // Who has no network hears nothing of the node's servers, and what it said itself.
        assert_eq!(text(Dns::default(), false), "");
        let own = Dns {
            servers: vec![[10, 0, 0, 1].into()],
            ..Dns::default()
        };
        let behind = Dns {
            options: vec!["ndots:2".into()],
            add: true,
            ..own.clone()
        };
        assert_eq!(
            text(behind, true),
            "nameserver 192.0.2.53\nnameserver 10.0.0.1\nsearch example.org\n\
             options edns0 ndots:2\n"
        );
        assert_eq!(text(own.clone(), true), "nameserver 10.0.0.1\n");
        assert_eq!(text(own, false), "nameserver 10.0.0.1\n");
    }

    #[test]
    fn the_node_s_hosts_know_the_container() {
        let node = NodeNames {
            hosts: "127.0.0.1 localhost".to_owned(),
            ..NodeNames::default()
        };
        let alias = HostAlias {
            address: [10, 0, 0, 1].into(),
            names: vec!["db".to_owned()],
        };
        let said = Network {
            hosts: vec![alias],
            ..Network::default()
        };
        let (hosts, _) = of_node("web", &said, node);
        assert_eq!(hosts, "127.0.0.1 localhost\n127.0.1.1\tweb\n10.0.0.1\tdb\n");
    }

    #[test]
    fn a_cell_s_addresses_have_its_long_name_too() {
        let names = Names {
            hostname: "web".to_owned(),
            addresses: vec![[10, 213, 0, 7].into()],
            network: Network {
                domain: "shop.example".to_owned(),
                ..Network::default()
            },
            attached: true,
        };
        assert!(hosts(&names).ends_with("10.213.0.7\tweb.shop.example web\n"));
    }
}
