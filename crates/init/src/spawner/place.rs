// SPDX-License-Identifier: Apache-2.0
//! Descriptors of the node's own proc and namespaces, which the spawner takes before it moves into
//! the template, in which neither can be seen.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use kernel::mount::{self, Attributes};
use kernel::namespace::{self, Namespaces as Kinds};
use kernel::title::Title;
use kernel::{Context, Error, Result, idmap};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::cell::setup::Mounts;
use crate::failure::InStep;
use crate::protocol::{CellLaunch, Failure, IdMap, Namespaces, Root, Step};

/// The node as it was before the template.
pub(super) struct Place {
    proc: OwnedFd,
    mounts: OwnedFd,
    /// The template's, once this process is in it.
    template: Option<OwnedFd>,
    /// The bare template's, or why there is none.
    bare: std::result::Result<OwnedFd, Failure>,
    /// Identity of the node's user namespace.
    user: (u64, u64),
    /// What `ps` shows of this process and its clones.
    pub(super) title: Option<Title>,
    /// Whether clones of this process may clone into the leaves of cells.
    cloners: std::result::Result<(), Failure>,
}

impl Place {
    pub(super) fn of_node(
        title: Option<Title>,
        cloners: std::result::Result<(), Failure>,
    ) -> Result<Place> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let path = Path::new("/proc");
        Ok(Place {
            proc: rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)?,
            mounts: namespace::open(Path::new("/proc/self/ns/mnt"))?,
            template: None,
            bare: Err(Failure::new(
                Step::Template,
                Errno::NOENT.raw_os_error(),
                "none yet",
            )),
            user: namespace::identity(namespace::open(Path::new("/proc/self/ns/user"))?)?,
            title,
            cloners,
        })
    }

    /// Notes that this process is in the template now.
    pub(super) fn in_template(&mut self) -> Result<()> {
        self.template = Some(self.mounts_of_self()?);
        Ok(())
    }

    fn mounts_of_self(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounts = rustix::fs::openat(&self.proc, "self/ns/mnt", flags, Mode::empty());
        mounts.call("open self/ns/mnt")
    }

    /// Has the bare template made by `enter`, and goes back to the first one. Where it can't be
    /// made, cells with the node's root still can.
    ///
    /// # Errors
    /// The way back failed: this process must end.
    pub(super) fn make_bare(&mut self, enter: impl FnOnce() -> Result<()>) -> Result<()> {
        let bare = enter().and_then(|()| self.mounts_of_self());
        self.bare = bare.step(Step::Template);
        self.back_to_template()
    }

    /// Goes into the bare template.
    pub(super) fn to_bare(&self) -> std::result::Result<(), Failure> {
        let bare = self.bare.as_ref().map_err(Clone::clone)?;
        namespace::join(bare, Kinds::MOUNT).step(Step::Template)
    }

    /// A user namespace with these maps, for mounts.
    pub(super) fn ids(&self, uids: &[idmap::IdMap], gids: &[idmap::IdMap]) -> Result<OwnedFd> {
        mount::userns::with_maps_at(&self.proc, uids, gids)
    }

    /// Runs `act` (a clone) in the node's own mount namespace: a process in a new user namespace
    /// could not join that one any more.
    pub(super) fn among_node_mounts<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        namespace::join(&self.mounts, Kinds::MOUNT)?;
        act()
    }

    /// Goes back to the template.
    ///
    /// # Errors
    /// `setns` failed, or there is no template yet. The process then is in a namespace that no cell
    /// may be cloned from, and must end.
    pub(super) fn back_to_template(&self) -> Result<()> {
        match &self.template {
            Some(template) => namespace::join(template, Kinds::MOUNT),
            None => Err(Error::invalid("setns", "no template yet")),
        }
    }

    /// Whether isolated cells could start programs: their inits must be in a group of users.
    pub(super) fn clones(&self) -> std::result::Result<(), Failure> {
        self.cloners.clone()
    }

    /// A process's OOM score, to be written.
    pub(super) fn oom_score_adj(&self, pid: i32) -> Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let path = format!("{pid}/oom_score_adj");
        rustix::fs::openat(&self.proc, path.as_str(), flags, Mode::empty())
            .call("open oom_score_adj")
    }

    /// The folder of a process in the node's proc.
    pub(super) fn process(&self, pid: i32) -> Result<OwnedFd> {
        idmap::open_process_at(&self.proc, pid)
    }

    /// The pid of a pidfd's process, in the node's pid namespace.
    pub(super) fn pid_of(&self, pidfd: impl AsFd) -> Result<i32> {
        use std::os::fd::AsRawFd;
        let path = format!("self/fdinfo/{}", pidfd.as_fd().as_raw_fd());
        let info = self.read(&self.proc, &path)?;
        let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"));
        let pid = pid
            .and_then(|pid| pid.trim().parse().ok())
            .filter(|pid| *pid > 0);
        pid.ok_or_else(|| {
            Error::new("pidfd", Errno::SRCH).about("the enclosing cell's init is gone")
        })
    }

    /// Whether the process is in the node's user namespace.
    pub(super) fn is_node_user(&self, process: impl AsFd) -> Result<bool> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let user =
            rustix::fs::openat(process, "ns/user", flags, Mode::empty()).call("open ns/user")?;
        Ok(namespace::identity(user)? == self.user)
    }

    /// A process's `uid_map` or `gid_map`, in the node's ids.
    pub(super) fn map_of(&self, process: impl AsFd, file: &str) -> Result<Vec<IdMap>> {
        let text = self.read(process, file)?;
        Ok(text.lines().filter_map(parse_extent).collect())
    }

    fn read(&self, directory: impl AsFd, path: &str) -> Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file =
            rustix::fs::openat(directory, path, flags, Mode::empty()).call("open in /proc")?;
        let mut text = String::new();
        let mut file = std::fs::File::from(file);
        std::io::Read::read_to_string(&mut file, &mut text).call("read in /proc")?;
        Ok(text)
    }
}

fn parse_extent(line: &str) -> Option<IdMap> {
    let mut numbers = line
        .split_ascii_whitespace()
        .map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten();
    Some(IdMap {
        inside: next()?,
        outside: next()?,
        count: next()?,
    })
}

pub(super) fn to_kernel(map: &IdMap) -> idmap::IdMap {
    idmap::IdMap {
        inside: map.inside,
        outside: map.outside,
        count: map.count,
    }
}

/// Turns extents in the node's ids into extents in the ids of a namespace with this map, cutting
/// them where they lie across its extents.
///
/// # Errors
/// An extent has an id that the enclosing cell doesn't have.
pub(super) fn translate(
    maps: &[IdMap],
    parent: &[IdMap],
) -> std::result::Result<Vec<IdMap>, Failure> {
    let mut translated = Vec::new();
    for map in maps {
        let mut left = *map;
        while left.count > 0 {
            let part = cut(&left, parent).ok_or_else(|| {
                let detail = format!("the enclosing cell has no id {} of the node", left.outside);
                Failure::new(Step::IdMap, Errno::INVAL.raw_os_error(), detail)
            })?;
            left.inside = left.inside.saturating_add(part.count);
            left.outside = left.outside.saturating_add(part.count);
            left.count = left.count.saturating_sub(part.count);
            translated.push(part);
        }
    }
    Ok(translated)
}

/// The beginning of `map` that lies in one extent of the parent, in the parent's ids.
fn cut(map: &IdMap, parent: &[IdMap]) -> Option<IdMap> {
    parent.iter().find_map(|extent| {
        let offset = map
            .outside
            .checked_sub(extent.outside)
            .filter(|o| *o < extent.count)?;
        let count = map.count.min(extent.count - offset);
        Some(IdMap {
            inside: map.inside,
            outside: extent.inside.checked_add(offset)?,
            count,
        })
    })
}

/// Enters the namespaces of other cells that a cell joins, in place of those that this process is
/// in. It doesn't come back.
pub(super) fn join_others(
    launch: &CellLaunch,
    inits: &[OwnedFd],
) -> std::result::Result<(), Failure> {
    let mut joined = launch.joins.iter().zip(inits);
    joined.try_for_each(|(wanted, init)| {
        namespace::join(init, super::kinds(*wanted)).step(Step::Namespace)
    })
}

/// What a cell with mounts of its own is shown of the namespaces that it shares: it may not mount
/// that itself, because none of them is owned by its user namespace. To be called in those
/// namespaces.
pub(super) fn shared_views(launch: &CellLaunch) -> std::result::Result<Mounts, Failure> {
    let quiet = Attributes::NO_SUID | Attributes::NO_DEV | Attributes::NO_EXEC;
    let own = launch.unshare;
    if !own.has(Namespaces::MOUNT) {
        return Ok(Mounts::default());
    }
    let shared = |namespace, make: &dyn Fn() -> Result<OwnedFd>| match own.has(namespace) {
        true => Ok(None),
        false => make().map(Some).step(Step::Mount),
    };
    let sys = || mount::sysfs(quiet | Attributes::READ_ONLY);
    Ok(Mounts {
        proc: shared(Namespaces::PID, &|| mount::proc(quiet))?,
        sys: shared(Namespaces::NET, &sys)?,
        // The node's folders have no place for it.
        queues: match &launch.root {
            Root::Image(_) => shared(Namespaces::IPC, &|| mount::mqueue(quiet))?,
            Root::Node | Root::Bare => None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(inside: u32, outside: u32, count: u32) -> IdMap {
        IdMap {
            inside,
            outside,
            count,
        }
    }

    #[test]
    fn ids_of_the_node_become_ids_of_the_enclosing_cell() {
        let parent = [map(0, 100_000, 1000), map(1000, 500_000, 10)];
        assert_eq!(
            translate(&[map(0, 100_500, 100)], &parent).unwrap(),
            [map(0, 500, 100)]
        );
        assert_eq!(
            translate(&[map(0, 500_003, 2)], &parent).unwrap(),
            [map(0, 1003, 2)]
        );
    }

    #[test]
    fn what_the_enclosing_cell_has_not_is_named() {
        let error = translate(&[map(0, 100_999, 2)], &[map(0, 100_000, 1000)]).unwrap_err();
        assert_eq!(
            error.detail,
            "the enclosing cell has no id 101000 of the node"
        );
    }

    proptest! {
        #[test]
        fn a_translation_maps_as_many_ids_as_it_was_given(start in 0u32..2000, count in 1u32..500) {
            let parent = [map(0, 100_000, 1000), map(1000, 101_000, 2000)];
            let parts = translate(&[map(7, 100_000 + start, count)], &parent).unwrap();
            prop_assert_eq!(parts.iter().map(|part| part.count).sum::<u32>(), count);
            prop_assert_eq!(parts[0].outside, start);
        }
    }
}
