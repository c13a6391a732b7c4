// SPDX-License-Identifier: Apache-2.0
//! The runtime as observe sees it: which executables a name means, and where their cgroups are.
//! From memory. The port [`Objects`] is here, so that observe depends on the runtime and not the
//! other way round.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernel::cgroup::find;
use model::error::Error;
use model::name::{ObjectPath, Tenant};
use model::object::{Kind, ObjectRef};
use model::observe::UsageQuery;
use model::request::{Filter, ListQuery, Scope};
use model::status::{FinalUsage, Object};

use super::index::Key;
use super::layout::group_path;
use super::record::leaf_name;
use super::{Runtime, slices};

/// Who knows which objects there are. Answers from memory, at once.
pub trait Objects: Send + Sync + 'static {
    /// The executables that are meant: this one, or all in this cell and the cells in it. With uid
    /// and kind.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    fn executables(&self, target: &ObjectRef) -> Result<Vec<ObjectRef>, Error>;

    /// The objects that are meant and their cgroups; all of the tenant's where none is named.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    fn measured(&self, query: &UsageQuery) -> Result<Vec<Measured>, Error>;
}

/// An object whose usage is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// With uid and kind.
    pub object: ObjectRef,
    /// What it had used when it ended, where that is kept.
    pub ended: Option<FinalUsage>,
    /// `None`: it has ended.
    pub cgroup: Option<PathBuf>,
}

/// Objects of one answer; the list gives no larger page.
const PAGE: usize = 1000;

impl Objects for Runtime {
    fn executables(&self, target: &ObjectRef) -> Result<Vec<ObjectRef>, Error> {
        let object = self.shared.index.get(target)?;
        let mut found = self.shared.index.subtree(&Key::of(&object));
        found.reverse();
        let refs = found.iter().map(|object| object.meta().to_ref());
        Ok(refs.filter(|r| r.kind == Some(Kind::Executable)).collect())
    }

    fn measured(&self, query: &UsageQuery) -> Result<Vec<Measured>, Error> {
        let index = &self.shared.index;
        if !query.refs.is_empty() {
            let found = query.refs.iter().map(|target| index.get(target));
            return found.map(|object| Ok(self.measure(&object?))).collect();
        }
        let mut list = ListQuery {
            filter: Filter {
                scope: Scope::Tenant(query.tenant.clone()),
                selector: model::selector::Selector::default(),
                kinds: std::collections::BTreeSet::new(),
                below: None,
            },
            running_only: true,
            failed_within: None,
            page_size: PAGE,
            page_token: None,
        };
        let mut measured = Vec::new();
        loop {
            let page = index.list(&list, &|_| true)?;
            measured.extend(page.objects.iter().map(|object| self.measure(object)));
            if page.next_page_token.is_none() {
                return Ok(measured);
            }
            list.page_token = page.next_page_token;
        }
    }
}

impl Runtime {
    /// The object that a process belongs to, by its cgroup as `/proc/PID/cgroup` has it: the
    /// innermost cell or executable. `None`: it belongs to none.
    pub fn object_of_group(&self, group: &Path) -> Option<Arc<Object>> {
        let below = self.shared.behind_tenants_of_process(group)?;
        let below = slices::without(below);
        let mut words = below.iter().filter_map(|it| it.to_str());
        let tenant: Tenant = words.next()?.parse().ok()?;
        // A leaf may have its run's uid behind a dot; other groups in a cell are its own.
        let labels: Vec<&str> = words.map(|it| it.split('.').next().unwrap_or(it)).collect();
        let mut length = labels.len();
        while length > 0 {
            let path = labels.get(..length)?.join("/").parse::<ObjectPath>();
            if let Some(found) = path.ok().and_then(|path| {
                self.shared.index.at(&Key {
                    tenant: tenant.clone(),
                    path,
                })
            }) {
                return Some(found);
            }
            length -= 1;
        }
        None
    }

    /// Whether a group is the node's own: node-init's, the daemon's, or an init's of a cell. As
    /// `/proc/PID/cgroup` has it.
    pub fn is_nodes_own(&self, group: &Path) -> bool {
        let node = self.shared.root.path().parent();
        let node = node.and_then(|it| find::group_of_path(it).ok());
        let below = node.and_then(|it| group.strip_prefix(it).ok());
        let first = below.and_then(|it| it.iter().next()?.to_str());
        // No tenant, cell or executable has such a name.
        first.is_some_and(|it| it.starts_with('_'))
    }

    fn group_of(&self, object: &Object) -> PathBuf {
        let named = group_path(&self.shared, &Key::of(object));
        match object {
            Object::Cell(_) => named,
            Object::Executable(executable) => {
                let mode = executable.effective.ending.kill_mode;
                named.with_file_name(leaf_name(&executable.meta, mode))
            }
        }
    }

    fn measure(&self, object: &Arc<Object>) -> Measured {
        let runs = !object.state().is_final();
        Measured {
            object: object.meta().to_ref(),
            ended: object.final_usage().cloned(),
            cgroup: runs.then(|| self.group_of(object)),
        }
    }
}
