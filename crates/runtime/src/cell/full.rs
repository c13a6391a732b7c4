// SPDX-License-Identifier: Apache-2.0
//! Whose limit it was: where the kernel refuses a process or memory to a start it says `EAGAIN` or
//! `ENOMEM` and no more. So the groups around the program are looked at, and the answer names the
//! first that is full, with its size and its use: the tenant's, that of all tenants, a cell's, the
//! executable's own. What has ended meanwhile is not seen: then none is full.

use std::path::Path;

use init::protocol::Failure;
use kernel::cgroup::Cgroup;
use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant};
use model::quota::{Limits, Quota, Used};
use rustix::io::Errno;

use super::executable::Executable;
use super::state::Cell;

/// What a start wants of memory, in bytes: a group with less is as good as full. The kernel charges
/// in batches, and a group is never quite at its limit.
const MEMORY: u64 = 1 << 20;

/// What the kernel counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counted {
    Processes,
    Memory,
}

impl Counted {
    /// What an errno may be about.
    fn of(errno: i32) -> Option<Self> {
        match Errno::from_raw_os_error(errno) {
            Errno::AGAIN => Some(Self::Processes),
            Errno::NOMEM => Some(Self::Memory),
            _ => None,
        }
    }

    fn quota(self) -> Quota {
        match self {
            Self::Processes => Quota::Pids,
            Self::Memory => Quota::MemoryMax,
        }
    }

    /// What a start wants of it.
    fn wanted(self) -> u64 {
        match self {
            Self::Processes => 1,
            Self::Memory => MEMORY,
        }
    }

    /// The limit as a spec has it.
    fn limit(self) -> &'static str {
        match self {
            Self::Processes => "pids_max",
            Self::Memory => "memory.max",
        }
    }

    /// The files of the use and of the limit.
    fn files(self) -> (&'static str, &'static str) {
        match self {
            Self::Processes => ("pids.current", "pids.max"),
            Self::Memory => ("memory.current", "memory.max"),
        }
    }
}

/// What a group has of it, and may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Use {
    current: u64,
    /// `u64::MAX`: no limit.
    max: u64,
}

impl Use {
    /// Without a number nothing is limited there.
    fn of(group: &Path, counted: Counted) -> Option<Self> {
        let group = Cgroup::open(group).ok()?;
        let (current, max) = counted.files();
        let number = |file| group.read(file).ok()?.trim().parse().ok();
        let current = number(current)?;
        let max = number(max).unwrap_or(u64::MAX);
        Some(Self { current, max })
    }

    fn is_full(self, counted: Counted) -> bool {
        self.current.saturating_add(counted.wanted()) > self.max
    }
}

/// What there is in the groups around a program.
#[derive(Debug)]
struct Around {
    tenant: Option<Use>,
    /// All tenants together.
    all: Option<Use>,
    /// The cells, the outermost first, and the executable.
    own: Vec<(&'static str, String, Use)>,
}

impl Around {
    fn look(executable: &Executable, cell: &Cell, counted: Counted) -> Self {
        let mut groups = cell.group.path().ancestors();
        let cells = std::iter::successors(Some(cell.key.path.clone()), ObjectPath::parent);
        let cells = cells.zip(groups.by_ref());
        let cells = cells.map(|(path, group)| ("cell", path.to_string(), group));
        let mut own: Vec<_> = cells.collect();
        let mut next = || Use::of(groups.next()?, counted);
        let (tenant, all) = (next(), next());
        own.reverse();
        let path = executable.record.meta.path.to_string();
        own.push(("executable", path, executable.leaf.path()));
        let own = own.into_iter().filter_map(|(kind, path, group)| {
            let used = Use::of(group, counted)?;
            Some((kind, path, used))
        });
        Self {
            tenant,
            all,
            own: own.collect(),
        }
    }

    /// The refusal of the first that is full.
    fn refusal(&self, limits: &Limits, tenant: &Tenant, counted: Counted) -> Option<Error> {
        let is_full = |group: &Option<Use>| group.is_some_and(|group| group.is_full(counted));
        if is_full(&self.tenant) || is_full(&self.all) {
            let current = |group: Option<Use>| group.map_or(0, |group| group.current);
            let used = Used {
                tenant: current(self.tenant),
                all: current(self.all.filter(|all| all.is_full(counted))),
                administrators: 0,
            };
            let admitted = limits.admit(tenant, counted.quota(), counted.wanted(), used);
            // Raised meanwhile, it would not be refused now.
            if let Err(refused) = admitted {
                return Some(refused);
            }
        }
        let mut own = self.own.iter();
        let (kind, path, used) = own.find(|(_, _, used)| used.is_full(counted))?;
        let show = |amount| counted.quota().show(amount);
        let message = format!(
            "the {kind} {path} uses {} of its {} of {}; {} more is too much",
            show(used.current),
            show(used.max),
            counted.limit(),
            show(counted.wanted())
        );
        let hint = "end what is not needed there, or raise the limit";
        let error = Error::new(Reason::LimitExceeded, message).hint(hint);
        Some(error.about(*kind, path.clone()))
    }
}

/// The refusal that names the limit which a start has met; `None` where none is met now.
pub(super) fn refusal(failed: &Failure, executable: &Executable, cell: &Cell) -> Option<Error> {
    let counted = Counted::of(failed.errno)?;
    let around = Around::look(executable, cell, counted);
    let refused = around.refusal(&cell.shared.tenants.limits(), &cell.key.tenant, counted)?;
    Some(refused.errno(failed.errno))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::quota::{Amount, Capacity, Quotas};

    use super::*;

    fn limits() -> Limits {
        let quotas = Quotas(BTreeMap::from([(Quota::Pids, Amount::Absolute(600))]));
        Limits {
            capacity: Capacity {
                whole: BTreeMap::from([(Quota::Pids, 10_000), (Quota::MemoryMax, 1 << 30)]),
                reserve: 100,
            },
            set: BTreeMap::from([("red".parse().unwrap(), quotas)]),
        }
    }

    fn used(current: u64, max: u64) -> Use {
        Use { current, max }
    }

    fn around(tenant: Use, all: Use, own: [Use; 3]) -> Around {
        let kinds = [
            ("cell", "web"),
            ("cell", "web/db"),
            ("executable", "web/db/app"),
        ];
        let own = kinds.into_iter().zip(own);
        Around {
            tenant: Some(tenant),
            all: Some(all),
            own: own
                .map(|((kind, path), used)| (kind, path.to_owned(), used))
                .collect(),
        }
    }

    const FREE: Use = Use {
        current: 10,
        max: u64::MAX,
    };

    #[test]
    fn the_limit_that_a_start_meets_is_named_with_its_size_and_its_use() {
        let said = |around: Around, counted| {
            let tenant = "red".parse().unwrap();
            around.refusal(&limits(), &tenant, counted).map(|error| {
                assert_eq!(error.reason, Reason::LimitExceeded);
                error.message.clone()
            })
        };
        let of_processes = |around| said(around, Counted::Processes);
        let own = [FREE, FREE, FREE];
        assert_eq!(of_processes(around(used(599, 600), FREE, own)), None);
        assert_eq!(
            of_processes(around(used(600, 600), FREE, [FREE, used(9, 9), FREE])).unwrap(),
            "the tenant red uses 600 of its 600 of the quota pids; 1 more is too much"
        );
        let all = of_processes(around(used(10, 600), used(9000, 9000), own)).unwrap();
        assert!(
            all.contains("all tenants together use 9000 of the 9000"),
            "{all}"
        );
        assert_eq!(
            of_processes(around(used(10, 600), FREE, [FREE, used(9, 9), used(5, 5)])).unwrap(),
            "the cell web/db uses 9 of its 9 of pids_max; 1 more is too much"
        );
        // A quota that is raised meanwhile, and a limit of its own that isn't.
        assert_eq!(of_processes(around(used(500, 500), FREE, own)), None);
        let leaf = around(used(500, 500), FREE, [FREE, FREE, used(5, 5)]);
        assert!(
            of_processes(leaf)
                .unwrap()
                .contains("the executable web/db/app uses 5 of its 5")
        );
        // Half of the node is the default.
        let memory = around(used((512 << 20) - 4096, 512 << 20), FREE, own);
        let memory = said(memory, Counted::Memory).unwrap();
        for part in [
            "red uses 512",
            "(50% of the node) of the quota memory_max; 1",
        ] {
            assert!(memory.contains(part), "{memory}");
        }
    }

    #[test]
    fn only_what_lacks_processes_or_memory_is_looked_into() {
        let counted = |errno: Errno| Counted::of(errno.raw_os_error());
        assert_eq!(counted(Errno::AGAIN), Some(Counted::Processes));
        assert_eq!(counted(Errno::NOMEM), Some(Counted::Memory));
        assert_eq!(counted(Errno::NOENT), None);
    }
}
