// SPDX-License-Identifier: Apache-2.0
//! Finished objects live in the store. In memory is a summary of each: its names, state and exit,
//! what lists select by; not what it was asked to be, which may be tens of kilobytes of arguments
//! and environment. Readers get the whole from here.
//!
//! ```text
//!  owner ── put ──> archive      then      index: Object ──> summary
//!  Get, List, Watch, Wait ── index: summary ── fetch ──> archive ──> Object
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use model::cell;
use model::error::Error;
use model::executable;
use model::name::Uid;
use model::status::Object;

use super::index::list::Page;
use super::ports::Archive;
use super::record::Archived;
use super::{Runtime, Shared};

/// Records fetched at once.
const BATCH: usize = 32;
/// Records of one page, in bytes; the page ends before one more. A message of the API holds 4 MiB.
const PAGE_BYTES: usize = 3 << 20;

/// The object without what it was asked to be. `None` where that would not make it smaller.
pub(crate) fn summary(object: &Object) -> Option<Object> {
    if !object.state().is_final() || is_summary(object) {
        return None;
    }
    let mut summary = object.clone();
    match &mut summary {
        Object::Cell(cell) => {
            cell.spec = cell::CellSpec::default();
            cell.effective = cell::Draft::default();
        }
        Object::Executable(executable) => {
            let program = executable::Draft {
                argv: vec!["-".to_owned()],
                ..executable::Draft::default()
            };
            executable.spec = program.try_into().ok()?;
            // The next daemon has to know what should be gone already.
            executable.effective = executable::Draft {
                auto_remove: executable.effective.auto_remove,
                ..executable::Draft::default()
            };
        }
    }
    Some(summary)
}

/// Whether the rest of the object is in the store.
pub(crate) fn is_summary(object: &Object) -> bool {
    match object {
        Object::Cell(cell) => cell.state.is_final() && cell.effective == cell::Draft::default(),
        // Every program has a name.
        Object::Executable(executable) => executable.effective.argv.is_empty(),
    }
}

/// The summary with what the archive has of the rest.
fn whole(summary: &Object, archived: Object) -> Object {
    let mut object = summary.clone();
    match (&mut object, archived) {
        (Object::Cell(cell), Object::Cell(archived)) => {
            cell.spec = archived.spec;
            cell.effective = archived.effective;
        }
        (Object::Executable(executable), Object::Executable(archived)) => {
            executable.spec = archived.spec;
            executable.effective = archived.effective;
        }
        _ => {}
    }
    object
}

impl Shared {
    /// The object itself, or the whole of what is a summary in memory.
    ///
    /// # Errors
    /// `NOT_FOUND` where its record was removed meanwhile; the store can't be read.
    pub(crate) async fn whole(&self, object: &Arc<Object>) -> Result<Arc<Object>, Error> {
        if !is_summary(object) {
            return Ok(object.clone());
        }
        let (mut found, _) = self.fetch(vec![object.meta().uid]).await?;
        let archived = found.remove(&object.meta().uid);
        let archived = archived.ok_or_else(|| object.meta().to_ref().not_found())?;
        Ok(Arc::new(whole(object, archived)))
    }

    async fn fetch(&self, uids: Vec<Uid>) -> Result<(HashMap<Uid, Object>, usize), Error> {
        let records = self.archive.get(uids).await?;
        let bytes = records.iter().map(|finished| finished.record.len()).sum();
        let parsed = records.into_iter().filter_map(|finished| {
            let archived = serde_json::from_slice::<Archived>(&finished.record);
            let archived = archived.inspect_err(|error| {
                tracing::warn!(path = finished.path, %error, "a finished record can't be read");
            });
            Some((finished.uid, archived.ok()?.object))
        });
        Ok((parsed.collect(), bytes))
    }

    /// Puts a summary into memory for an object whose end is in the store.
    pub(crate) fn forget_whole(&self, uid: Uid) {
        self.index.summarize(uid);
    }
}

impl Runtime {
    /// The objects of a page as they are to be shown. It ends early where they are large.
    ///
    /// # Errors
    /// The store can't be read.
    pub(super) async fn whole_page(&self, mut page: Page) -> Result<Page, Error> {
        let objects = std::mem::take(&mut page.objects);
        let mut bytes = 0;
        for some in objects.chunks(BATCH) {
            if bytes >= PAGE_BYTES {
                page.ends_after_last();
                break;
            }
            let summaries = some.iter().filter(|object| is_summary(object));
            let uids: Vec<Uid> = summaries.map(|object| object.meta().uid).collect();
            let mut found = HashMap::new();
            if !uids.is_empty() {
                let (fetched, more) = self.shared.fetch(uids).await?;
                found = fetched;
                bytes += more;
            }
            for object in some {
                match found.remove(&object.meta().uid) {
                    Some(archived) => page.objects.push(Arc::new(whole(object, archived))),
                    // Removed meanwhile.
                    None if is_summary(object) => {}
                    None => page.objects.push(self.with_totals(object.clone())),
                }
            }
        }
        Ok(page)
    }
}
