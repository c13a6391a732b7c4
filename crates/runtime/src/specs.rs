// SPDX-License-Identifier: Apache-2.0
//! What specs count in their tenant's quota `spec_bytes`: their length as JSON, which is about what
//! each copy of one takes. The index counts those of cells and executables; a subsystem above holds
//! what its own documents take ([`Runtime::hold_spec`]).

use std::io::{self, Write};
use std::sync::Arc;

use model::error::Error;
use model::name::Tenant;
use model::quota::Quota;
use model::status::Object;
use serde::Serialize;

use crate::Runtime;
use crate::index::Index;

/// The length of a spec, in bytes. It is not written anywhere.
pub fn length(spec: &impl Serialize) -> u64 {
    struct Count(u64);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len() as u64);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // A count refuses nothing, and specs are maps with texts as keys.
    let _ = serde_json::to_writer(&mut count, spec);
    count.0
}

/// That of an object's spec.
pub(crate) fn of(object: &Object) -> u64 {
    match object {
        Object::Cell(cell) => length(&cell.spec),
        Object::Executable(executable) => length(&executable.spec),
    }
}

/// Bytes of a document that count in a tenant's quota until this goes.
pub struct HeldSpec {
    index: Arc<Index>,
    tenant: Tenant,
    bytes: u64,
}

impl HeldSpec {
    /// A longer document is about to take the place of the one before. For a shorter one it does
    /// nothing: that counts as soon as it is there ([`HeldSpec::set`]).
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`. What was held still is.
    pub fn grow(&mut self, spec: &impl Serialize) -> Result<(), Error> {
        let more = length(spec).saturating_sub(self.bytes);
        if more > 0 {
            self.index
                .take_more(&self.tenant, Quota::SpecBytes, more, false)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// This document is there now: no longer than the last that was admitted.
    pub fn set(&mut self, spec: &impl Serialize) {
        self.hold(length(spec));
    }

    fn hold(&mut self, bytes: u64) {
        let (index, tenant) = (&self.index, &self.tenant);
        index.give_back(tenant, Quota::SpecBytes, self.bytes.saturating_sub(bytes));
        // What is there counts, whatever the quota.
        let more = bytes.saturating_sub(self.bytes);
        let _ = index.take_more(tenant, Quota::SpecBytes, more, true);
        self.bytes = bytes;
    }
}

impl Drop for HeldSpec {
    fn drop(&mut self) {
        self.hold(0);
    }
}

impl Runtime {
    /// Counts a document of a subsystem above in a tenant's quota.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, unless it is `there` already, kept by an earlier daemon.
    pub fn hold_spec(
        &self,
        tenant: &Tenant,
        spec: &impl Serialize,
        there: bool,
    ) -> Result<HeldSpec, Error> {
        let (index, bytes) = (self.shared.index.clone(), length(spec));
        index.take_more(tenant, Quota::SpecBytes, bytes, there)?;
        Ok(HeldSpec {
            index,
            tenant: tenant.clone(),
            bytes,
        })
    }
}
