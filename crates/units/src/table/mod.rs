// SPDX-License-Identifier: Apache-2.0
//! Every directive of systemd 252's system units: one row each. Parsing, `verify` and the reference
//! (`docs/reference/units.md`) all come from here. What a directive does is its user's.

mod exec;
mod reference;
mod resource;
mod types;
mod unit;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::name::UnitType;
use crate::value::Kind;
pub use reference::reference;

/// A page of the manual on which several sections' directives are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Group {
    /// `[Unit]`.
    Unit,
    /// `[Install]`.
    Install,
    /// `[Service]`.
    Service,
    /// `[Socket]`.
    Socket,
    /// `[Timer]`.
    Timer,
    /// `[Path]`.
    Path,
    /// `[Mount]`.
    Mount,
    /// `[Automount]`.
    Automount,
    /// `[Swap]`.
    Swap,
    /// `[Scope]`.
    Scope,
    /// Of what is executed: services, sockets, mounts, swap.
    Exec,
    /// Of how what is executed is killed; scopes, too.
    Kill,
    /// Of everything with a cgroup.
    Resource,
}

impl Group {
    /// Every group of directives.
    pub const ALL: [Group; 13] = [
        Self::Unit,
        Self::Install,
        Self::Service,
        Self::Socket,
        Self::Timer,
        Self::Path,
        Self::Mount,
        Self::Automount,
        Self::Swap,
        Self::Scope,
        Self::Exec,
        Self::Kill,
        Self::Resource,
    ];

    /// The sections in which its directives may stand.
    pub const fn sections(self) -> &'static [&'static str] {
        match self {
            Self::Unit => &["Unit"],
            Self::Install => &["Install"],
            Self::Service => &["Service"],
            Self::Socket => &["Socket"],
            Self::Timer => &["Timer"],
            Self::Path => &["Path"],
            Self::Mount => &["Mount"],
            Self::Automount => &["Automount"],
            Self::Swap => &["Swap"],
            Self::Scope => &["Scope"],
            Self::Exec => &["Service", "Socket", "Mount", "Swap"],
            Self::Kill => &["Service", "Socket", "Mount", "Swap", "Scope"],
            Self::Resource => &["Service", "Socket", "Mount", "Swap", "Slice", "Scope"],
        }
    }

    /// The page of the manual.
    pub const fn page(self) -> &'static str {
        match self {
            Self::Unit | Self::Install => "systemd.unit(5)",
            Self::Service => "systemd.service(5)",
            Self::Socket => "systemd.socket(5)",
            Self::Timer => "systemd.timer(5)",
            Self::Path => "systemd.path(5)",
            Self::Mount => "systemd.mount(5)",
            Self::Automount => "systemd.automount(5)",
            Self::Swap => "systemd.swap(5)",
            Self::Scope => "systemd.scope(5)",
            Self::Exec => "systemd.exec(5)",
            Self::Kill => "systemd.kill(5)",
            Self::Resource => "systemd.resource-control(5)",
        }
    }

    fn rows(self) -> &'static [Directive] {
        match self {
            Self::Unit => unit::UNIT,
            Self::Install => unit::INSTALL,
            Self::Service => types::SERVICE,
            Self::Socket => types::SOCKET,
            Self::Timer => types::TIMER,
            Self::Path => types::PATH,
            Self::Mount => types::MOUNT,
            Self::Automount => types::AUTOMOUNT,
            Self::Swap => types::SWAP,
            Self::Scope => types::SCOPE,
            Self::Exec => exec::EXEC,
            Self::Kill => exec::KILL,
            Self::Resource => resource::RESOURCE,
        }
    }
}

/// What becomes of a unit that has a directive which the node doesn't honour.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unhonoured {
    /// It runs, with a warning.
    Warned,
    /// It doesn't run: it would have rights, or reach what it is kept from.
    Stopped,
}

/// A row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Directive {
    /// The name, in its case.
    pub name: &'static str,
    /// The value.
    pub kind: Kind,
    /// Under which name the value is kept: several directives may make up one list, and an old name
    /// means the new one.
    pub field: &'static str,
    /// What becomes of a unit where it isn't honoured.
    pub unhonoured: Unhonoured,
}

const fn row(name: &'static str, kind: Kind) -> Directive {
    Directive {
        name,
        kind,
        field: name,
        unhonoured: Unhonoured::Warned,
    }
}

impl Directive {
    /// Kept under another name.
    const fn of(mut self, field: &'static str) -> Directive {
        self.field = field;
        self
    }

    /// Not to be passed over.
    const fn guards(mut self) -> Directive {
        self.unhonoured = Unhonoured::Stopped;
        self
    }
}

/// Rows by section and name.
type Index = HashMap<(&'static str, &'static str), (Group, &'static Directive)>;

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = HashMap::new();
    for (group, row) in all() {
        for section in group.sections() {
            // The first group that has it counts.
            index.entry((*section, row.name)).or_insert((group, row));
        }
    }
    index
});

/// The row of a directive in a section, and its group.
pub fn find(section: &str, name: &str) -> Option<(Group, &'static Directive)> {
    INDEX.get(&(section, name)).copied()
}

/// Every row with its group.
pub fn all() -> impl Iterator<Item = (Group, &'static Directive)> {
    Group::ALL
        .into_iter()
        .flat_map(|group| group.rows().iter().map(move |row| (group, row)))
}

/// Whether units of this type have that section.
pub fn has_section(kind: UnitType, section: &str) -> bool {
    matches!(section, "Unit" | "Install") || kind.section() == Some(section)
}

#[cfg(test)]
mod tests;
