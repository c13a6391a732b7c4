// SPDX-License-Identifier: Apache-2.0
//! The sandbox of a unit: what its directives come to (systemd.exec(5)). Each command has
//! namespaces of its own, made by its process right before its program, from the node's mounts as
//! they are then; what commands of an activation share is in [`shared`].

mod devices;
mod filters;
mod groups;
pub(crate) mod late;
mod mounts;
pub(crate) mod shared;
mod wants;

use std::path::Path;

use kernel::cgroup::addresses::Networks;
use kernel::cgroup::devices::Rule;
use runtime::sandbox::{Label, MemoryPolicy, Sandbox};
use units::unit::Settings;
use units::value::Value;

pub(crate) use mounts::Folder;
use shared::Shared;
use wants::Wants;

use super::dynamic::Dynamic;

/// What a command gets beside its spec.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Confined {
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) devices: Option<Vec<Rule>>,
    pub(crate) networks: Option<Networks>,
    /// Bits of capabilities that it hasn't got.
    pub(crate) lost_capabilities: u64,
    /// It has filters or a dynamic user: `NoNewPrivileges=` unless it may do all anyway.
    pub(crate) filtered: bool,
    pub(crate) no_new_privileges: bool,
}

/// What a unit has on the machine that its commands are to see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own<'a> {
    pub(crate) folders: &'a [Folder],
    /// Where what commands of its activation share is kept.
    pub(crate) shared: &'a Path,
    /// The user that it has for itself.
    pub(crate) dynamic: Option<&'a Dynamic>,
    /// The folder of its credentials.
    pub(crate) credentials: Option<&'a str>,
}

/// Makes what is shared, and says what a command of a unit gets. Blocks.
///
/// # Errors
/// The status that systemd's process would have had, and why.
pub(crate) fn of(settings: &Settings, own: &Own<'_>) -> Result<Confined, (u8, String)> {
    let wants = Wants::of(settings);
    let shared = Shared::of(own.shared, &wants)?;
    let accounts = match own.dynamic.filter(|_| wants.root.is_none()) {
        Some(user) => Some(shared::accounts(own.shared, user)?),
        None => None,
    };
    let filters = filters::filters(settings, &wants)
        .map_err(|error| (228, format!("the filter of system calls: {error}")))?;
    let joined = |field: &str| settings.text(field).map(|it| it.as_bytes().to_vec());
    let path = |path: Option<&std::path::PathBuf>| {
        path.map(|it| it.as_os_str().as_encoded_bytes().to_vec())
    };
    let filtered = !filters.is_empty();
    let sandbox = Sandbox {
        mounts: mounts::mounts(settings, &wants, own, (&shared, accounts.as_ref())),
        network: joined("NetworkNamespacePath").or(path(shared.network.as_ref())),
        ipc: joined("IPCNamespacePath").or(path(shared.ipc.as_ref())),
        hostname: wants.protect_hostname,
        users: wants.private_users,
        secure_bits: secure_bits(settings),
        memory: memory(settings),
        label: label(settings),
        filters,
    };
    Ok(Confined {
        sandbox: (sandbox != Sandbox::default()).then_some(sandbox),
        devices: devices::rules(settings, &wants),
        networks: networks(settings),
        lost_capabilities: wants.lost_capabilities(),
        filtered,
        no_new_privileges: wants.dynamic_user,
    })
}

/// `IPAddressAllow=` and `IPAddressDeny=` (systemd.resource-control(5)).
fn networks(settings: &Settings) -> Option<Networks> {
    let of = |field: &str| match settings.get(field) {
        Some(Value::Networks(networks)) => networks.clone(),
        _ => Vec::new(),
    };
    let networks = Networks {
        allow: of("IPAddressAllow"),
        deny: of("IPAddressDeny"),
    };
    (!networks.are_none()).then_some(networks)
}

/// For people: where a directive stands, and what it is about.
fn why(settings: &Settings, field: &str, what: &str) -> String {
    let origin = settings.setting(field).and_then(|it| it.origins.last());
    let mut text = match origin {
        Some(origin) => format!("{}:{}: {field}=: {what}", origin.path, origin.at),
        None => format!("{field}=: {what}"),
    };
    let end = (0..=500).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}

/// `SecureBits=` (capabilities(7)).
fn secure_bits(settings: &Settings) -> u32 {
    let bit = |word: &String| match word.as_str() {
        "noroot" => 1,
        "noroot-locked" => 1 << 1,
        "no-setuid-fixup" => 1 << 2,
        "no-setuid-fixup-locked" => 1 << 3,
        "keep-caps" => 1 << 4,
        "keep-caps-locked" => 1 << 5,
        _ => 0,
    };
    let words = settings.texts("SecureBits").iter();
    words.fold(0, |bits, word| bits | bit(word))
}

/// `NUMAPolicy=` and `NUMAMask=`.
fn memory(settings: &Settings) -> Option<MemoryPolicy> {
    let mode = match settings.word("NUMAPolicy")? {
        "default" => 0,
        "preferred" => 1,
        "bind" => 2,
        "interleave" => 3,
        _ => 4,
    };
    let mut nodes = Vec::new();
    if let Some(Value::Indices(wanted)) = settings.get("NUMAMask") {
        for node in wanted {
            let byte = usize::try_from(node / 8).unwrap_or(0);
            if nodes.len() <= byte {
                nodes.resize(byte + 1, 0_u8);
            }
            if let Some(bits) = nodes.get_mut(byte) {
                *bits |= 1 << (node % 8);
            }
        }
    }
    Some(MemoryPolicy { mode, nodes })
}

/// `AppArmorProfile=` and the like; with `-` it needn't be possible.
fn label(settings: &Settings) -> Option<Label> {
    let all = [
        ("AppArmorProfile", "apparmor/exec", "exec "),
        ("SELinuxContext", "exec", ""),
        ("SmackProcessLabel", "smack/current", ""),
    ];
    all.into_iter().find_map(|(field, file, word)| {
        let text = settings.text(field).filter(|it| !it.is_empty())?;
        let (text, optional) = match text.strip_prefix('-') {
            Some(text) => (text, true),
            None => (text, false),
        };
        Some(Label {
            file: file.to_owned(),
            text: format!("{word}{text}"),
            optional,
        })
    })
}
