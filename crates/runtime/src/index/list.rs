// SPDX-License-Identifier: Apache-2.0
//! Reading the index: pages of objects, and what of an object is counted when it is read.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use model::error::Error;
use model::name::{ObjectPath, Tenant};
use model::request::{Filter, ListQuery, Scope};
use model::status::Object;
use model::time::Timestamp;

use super::ring::weight;
use super::snapshot::Walk;
use super::{Index, Inner, Key, is_within};

/// About so many bytes of objects end a page, however many may be in it.
const PAGE_BYTES: usize = 4 << 20;

/// A page of objects.
#[derive(Clone, Debug)]
pub struct Page {
    /// By tenant and path.
    pub objects: Vec<Arc<Object>>,
    /// For the next page; `None` on the last.
    pub next_page_token: Option<String>,
    /// A watch may begin here.
    pub resume_token: String,
}

impl Page {
    /// What was to come after its objects is for the next page.
    pub(crate) fn ends_after_last(&mut self) {
        let last = self.objects.last().map(|object| token_of(object));
        self.next_page_token = last.or(self.next_page_token.take());
    }
}

fn token_of(object: &Object) -> String {
    format!("{}:{}", object.meta().tenant, object.meta().path)
}

/// When a finished object ended; 1970 where it is not known.
pub(crate) fn finished(object: &Object) -> Timestamp {
    match object {
        Object::Cell(cell) => cell.finished,
        Object::Executable(executable) => executable.exit.as_ref().and_then(|exit| exit.finished),
    }
    .unwrap_or_default()
}

/// Whether it is an executable that failed, and not longer ago.
fn failed_within(object: &Object, within: Duration) -> bool {
    let Object::Executable(executable) = object else {
        return false;
    };
    let failed = executable
        .exit
        .as_ref()
        .is_some_and(|exit| exit.is_failure());
    failed && crate::now().since(finished(object)) <= within
}

/// Whether the object is in a state that is asked for.
fn is_wanted(query: &ListQuery, object: &Object) -> bool {
    let failed = |within| failed_within(object, within);
    !query.running_only || !object.state().is_final() || query.failed_within.is_some_and(failed)
}

/// Whether the object is one of those meant.
pub(crate) fn matches(filter: &Filter, object: &Object) -> bool {
    let meta = object.meta();
    filter.scope.includes(&meta.tenant)
        && (filter.kinds.is_empty() || filter.kinds.contains(&meta.kind))
        && filter
            .below
            .as_ref()
            .is_none_or(|b| meta.path != *b && meta.path.is_within(b))
        && filter.selector.matches(&meta.labels)
}

impl Index {
    /// One page of what may be shown.
    pub(crate) fn list(
        &self,
        query: &ListQuery,
        shows: &dyn Fn(&Object) -> bool,
    ) -> Result<Page, Error> {
        let after = query.page_token.as_deref().map(parse_token).transpose()?;
        let began = self.newest();
        let mut walk = Walk::new(self, &query.filter, after);
        let most = query.page_size.max(1);
        let (mut objects, mut bytes, mut more) = (Vec::new(), 0, false);
        while !more && let Some(some) = walk.next() {
            let some = some.into_iter().filter(|object| is_wanted(query, object));
            for object in some.filter(|object| shows(object)) {
                more |= objects.len() == most || bytes > PAGE_BYTES;
                if more {
                    break;
                }
                bytes += weight(&object);
                objects.push(object);
            }
        }
        let last = objects.last().filter(|_| more);
        Ok(Page {
            next_page_token: last.map(|object| token_of(object)),
            resume_token: began.to_string(),
            objects: objects.iter().map(|object| self.present(object)).collect(),
        })
    }

    /// An object as it is read: with what is counted only then. Children come and go without their
    /// cell changing.
    pub(crate) fn present(&self, object: &Arc<Object>) -> Arc<Object> {
        let Object::Cell(cell) = &**object else {
            return object.clone();
        };
        if cell.state.is_final() {
            return object.clone();
        }
        let running = self.lock().running_in(&Key::of(object));
        let mut cell = cell.clone();
        cell.running_children = u32::try_from(running).unwrap_or(u32::MAX);
        Arc::new(Object::Cell(cell))
    }
}

impl Inner {
    /// The objects of the filter's tenant, or of the cell that it names, and no others: what a
    /// tenant asks for costs him what he has.
    pub(super) fn from(
        &self,
        filter: &Filter,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&Key, &Arc<Object>)> {
        let tenant = match &filter.scope {
            Scope::Tenant(tenant) => Some(tenant.clone()),
            Scope::Every => None,
        };
        let outer = tenant.as_ref().and_then(|tenant| {
            let path = filter.below.clone()?;
            Some(Key {
                tenant: tenant.clone(),
                path,
            })
        });
        // A token may come from another list.
        let first = outer.clone().or_else(|| first_of(tenant.as_ref()?));
        let start = match (after, first) {
            (Some(after), Some(first)) if *after < first => Bound::Included(first),
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(first)) => Bound::Included(first),
            (None, None) => Bound::Unbounded,
        };
        let range = self.objects.range((start, Bound::Unbounded));
        range
            .take_while(move |(key, _)| tenant.as_ref().is_none_or(|t| key.tenant == *t))
            .take_while(move |(key, _)| outer.as_ref().is_none_or(|o| is_within(key, o)))
    }
}

/// Where a tenant's objects begin. No path comes before it.
fn first_of(tenant: &Tenant) -> Option<Key> {
    Some(Key {
        tenant: tenant.clone(),
        path: "0".parse().ok()?,
    })
}

fn parse_token(token: &str) -> Result<Key, Error> {
    let bad = || {
        Error::invalid("page_token", "is not one that this node gave out")
            .hint("pass next_page_token of the previous page, or none")
    };
    let (tenant, path) = token.split_once(':').ok_or_else(bad)?;
    let tenant: Tenant = tenant.parse().map_err(|_| bad())?;
    let path: ObjectPath = path.parse().map_err(|_| bad())?;
    Ok(Key { tenant, path })
}
