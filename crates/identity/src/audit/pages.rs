// SPDX-License-Identifier: Apache-2.0
//! The audit as administrators read it: page by page, or verified as a whole.

use model::error::Error;

use super::entry::{Entry, Hash};
use super::reader::{Filter, Reader};
use super::verify::Verdict;
use crate::{Identity, Permit};

/// Audit lines read at once.
const PAGE: usize = 256;

/// Lines of the audit, page by page; see [`Identity::read_audit`].
#[derive(Debug)]
pub struct AuditPage {
    reader: Reader,
    filter: Filter,
    permit: Permit,
    /// Oldest first.
    pub lines: Vec<(Entry, Hash)>,
    /// There may be more by now.
    pub more: bool,
}

impl Identity {
    /// The first page of the audit's lines; go on with [`Identity::next_audit`]. Counted denials
    /// are written first, so that they show.
    ///
    /// # Errors
    /// `INTERNAL`: a file can't be read.
    pub async fn read_audit(&self, permit: Permit, filter: Filter) -> Result<AuditPage, Error> {
        self.audit.flush();
        let page = AuditPage {
            reader: self.audit.reader(),
            filter,
            permit,
            lines: Vec::new(),
            more: true,
        };
        self.next_audit(page).await
    }

    /// The page after this one. To follow, wait for `audit().commits()` between pages without
    /// `more`.
    ///
    /// # Errors
    /// `INTERNAL`: a file can't be read.
    pub async fn next_audit(&self, mut page: AuditPage) -> Result<AuditPage, Error> {
        let upto = self.audit.head().sequence;
        blocking(move || {
            page.lines = page.reader.read(&page.filter, upto, PAGE)?;
            page.more = page.lines.len() == PAGE;
            page.lines.retain(|(line, _)| shows(&page.permit, line));
            Ok(page)
        })
        .await
    }

    /// Verifies the whole audit against the newest line that was written, which node-init holds
    /// too.
    ///
    /// # Errors
    /// `INTERNAL`: a file can't be read.
    pub async fn verify_audit(&self, _permit: Permit) -> Result<Verdict, Error> {
        self.audit.flush();
        let head = self.audit.head();
        let reader = self.audit.reader();
        blocking(move || reader.verify(head)).await
    }
}

/// Lines of a tenant whose audit is denied to the reader are left out; those of no tenant are for
/// every reader.
fn shows(permit: &Permit, line: &Entry) -> bool {
    line.tenant
        .parse()
        .is_ok_and(|tenant| permit.shows_tenant(&tenant))
        || line.tenant.parse::<model::name::Tenant>().is_err()
}

async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(job).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(e)) => Err(Error::internal(format!("the audit can't be read: {e}"))),
        Err(_) => Err(Error::internal("reading the audit ended early")),
    }
}
