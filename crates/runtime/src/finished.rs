// SPDX-License-Identifier: Apache-2.0
//! Finished objects live in the store. In memory is a summary of each: its names, state and exit,
//! what lists select by; not what it was asked to be, which may be tens of kilobytes of arguments
//! and environment. Readers get the whole from here.
//!
//! ```text
//!  owner ── put ──> archive      then      index: Object ──> summary
//!  Get, List, Watch, Wait ── index: summary ── fetch ──> archive ──> Object
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::cell;
use model::error::Error;
use model::executable;
use model::launch::Streams;
use model::name::{Tenant, Uid};
use model::request::{Filter, ListQuery, Scope};
use model::selector::Selector;
use model::status::Object;
use store::Finished;
use tenants::Turns;

use super::index::list::Page;
use super::ports::Archive;
use super::record::Archived;
use super::{Runtime, Shared};

/// Records fetched at once.
const BATCH: usize = 32;
/// Reads that the store has at the same time: one that is done, and one that is next. Its thread
/// takes them in the order in which they come, so the others wait in line, by tenant.
const AT_THE_STORE: usize = 2;
/// Records of one page, in bytes; the page ends before one more. A message of the API holds 4 MiB.
const PAGE_BYTES: usize = 3 << 20;
/// Objects that are looked at without another one's turn at the index.
const PAGE: usize = 1000;

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
            // The next daemon has to know what should be gone already, an attacher that no log has
            // the output.
            let effective = std::mem::take(&mut executable.effective);
            executable.effective = executable::Draft {
                auto_remove: effective.auto_remove,
                streams: match effective.streams.lead_to_attacher() {
                    true => effective.streams,
                    false => Streams::default(),
                },
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

/// The readers' way to the archive, in turns by tenant: one with a thousand open lists has another
/// one's `inspect` wait for one of them.
pub(crate) struct Reads(Turns);

impl Default for Reads {
    fn default() -> Self {
        Self(Turns::new(AT_THE_STORE))
    }
}

impl Reads {
    async fn get(
        &self,
        archive: &dyn Archive,
        whose: &Tenant,
        uids: Vec<Uid>,
    ) -> Result<Vec<Finished>, Error> {
        self.0.run(whose, archive.get(uids)).await?
    }
}

impl Shared {
    /// The object itself, or the whole of what is a summary in memory; in a turn of its tenant.
    ///
    /// # Errors
    /// `NOT_FOUND` where its record was removed meanwhile; the store can't be read.
    pub(crate) async fn whole(&self, object: &Arc<Object>) -> Result<Arc<Object>, Error> {
        self.whole_for(&object.meta().tenant, object).await
    }

    /// The same in a turn of the caller's tenant.
    ///
    /// # Errors
    /// As of [`Shared::whole`].
    pub(crate) async fn whole_for(
        &self,
        whose: &Tenant,
        object: &Arc<Object>,
    ) -> Result<Arc<Object>, Error> {
        if !is_summary(object) {
            return Ok(object.clone());
        }
        let (mut found, _) = self.fetch(whose, vec![object.meta().uid]).await?;
        let archived = found.remove(&object.meta().uid);
        let archived = archived.ok_or_else(|| object.meta().to_ref().not_found())?;
        Ok(Arc::new(whole(object, archived)))
    }

    async fn fetch(
        &self,
        whose: &Tenant,
        uids: Vec<Uid>,
    ) -> Result<(HashMap<Uid, Object>, usize), Error> {
        let records = self.reads.get(&self.archive, whose, uids).await?;
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
    /// The objects of a page as they are to be shown, in turns of the caller's tenant. It ends
    /// early where they are large.
    ///
    /// # Errors
    /// The store can't be read.
    pub(super) async fn whole_page(&self, whose: &Tenant, mut page: Page) -> Result<Page, Error> {
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
                let (fetched, more) = self.shared.fetch(whose, uids).await?;
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

    /// Forgets every finished object of a tenant that is being removed, with its stored record,
    /// also where no daemon can read that, and the changes that watchers are told. When it answers,
    /// no later daemon finds them; their logs, which nothing leads to any more, are the caller's to
    /// remove.
    ///
    /// # Errors
    /// The store's. Nothing was forgotten then.
    pub async fn forget_finished(&self, tenant: &Tenant) -> Result<(), Error> {
        let shared = &self.shared;
        let mut gone = Vec::new();
        for uid in self.finished_of(tenant)? {
            gone.extend(shared.index.remove(uid));
        }
        let stored = shared.archive.before(i64::MAX).into_iter();
        let stored = stored.filter(|(of, _)| of == tenant).map(|(_, uid)| uid);
        let mut uids: BTreeSet<Uid> = stored.collect();
        uids.extend(gone.iter().map(|object| object.meta().uid));
        if let Err(error) = shared.archive.remove(uids.into_iter().collect()).await {
            for object in gone {
                shared.index.publish_known(Object::clone(&object));
            }
            return Err(error);
        }
        shared.index.drop_changes(tenant);
        Ok(())
    }

    fn finished_of(&self, tenant: &Tenant) -> Result<Vec<Uid>, Error> {
        let mut list = ListQuery {
            filter: Filter {
                scope: Scope::Tenant(tenant.clone()),
                selector: Selector::default(),
                kinds: BTreeSet::new(),
                below: None,
            },
            running_only: false,
            failed_within: None,
            page_size: PAGE,
            page_token: None,
        };
        let mut found = Vec::new();
        loop {
            let page = self.shared.index.list(&list, &|_| true)?;
            let ended = page.objects.iter().filter(|it| it.state().is_final());
            found.extend(ended.map(|object| object.meta().uid));
            if page.next_page_token.is_none() {
                return Ok(found);
            }
            list.page_token = page.next_page_token;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures_util::future::BoxFuture;

    use super::*;

    /// A store whose thread takes a moment for each read.
    #[derive(Clone, Default)]
    struct Slow {
        thread: Arc<tokio::sync::Mutex<()>>,
        queued: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
        done: Arc<AtomicUsize>,
    }

    impl Archive for Slow {
        fn put(&self, _: Finished) -> BoxFuture<'static, Result<(), Error>> {
            Box::pin(async { Ok(()) })
        }

        fn remove(&self, _: Vec<Uid>) -> BoxFuture<'static, Result<(), Error>> {
            Box::pin(async { Ok(()) })
        }

        fn get(&self, _: Vec<Uid>) -> BoxFuture<'static, Result<Vec<Finished>, Error>> {
            let this = self.clone();
            // What the store has queued is done, whoever waits for it.
            let read = async move {
                let queued = this.queued.fetch_add(1, Ordering::Relaxed) + 1;
                this.most.fetch_max(queued, Ordering::Relaxed);
                let reading = this.thread.lock().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
                this.done.fetch_add(1, Ordering::Relaxed);
                this.queued.fetch_sub(1, Ordering::Relaxed);
                drop(reading);
            };
            Box::pin(async move {
                tokio::spawn(read).await.unwrap();
                Ok(Vec::new())
            })
        }

        fn load(&self, _: Option<Uid>) -> BoxFuture<'static, Result<Vec<Finished>, Error>> {
            Box::pin(async { Ok(Vec::new()) })
        }
    }

    #[tokio::test]
    async fn a_thousand_reads_of_one_tenant_have_another_one_wait_for_a_few() {
        let (archive, reads) = (Slow::default(), Arc::new(Reads::default()));
        let read = |who: &str| {
            let (archive, reads, who) = (archive.clone(), reads.clone(), who.parse().unwrap());
            tokio::spawn(async move { reads.get(&archive, &who, vec![Uid([7; 16])]).await })
        };
        let flood: Vec<_> = (0..1000).map(|_| read("eve")).collect();
        tokio::task::yield_now().await;
        for _ in 0..5 {
            let before = archive.done.load(Ordering::Relaxed);
            read("bob").await.unwrap().unwrap();
            let meanwhile = archive.done.load(Ordering::Relaxed) - before;
            assert!(meanwhile <= 8, "{meanwhile} before bob's");
        }
        // Callers that go away leave no queue behind them, either.
        flood.iter().for_each(|one| one.abort());
        for _ in 0..100 {
            let gone = read("eve");
            tokio::task::yield_now().await;
            gone.abort();
        }
        read("bob").await.unwrap().unwrap();
        assert!(archive.most.load(Ordering::Relaxed) <= AT_THE_STORE);
    }
}
