// SPDX-License-Identifier: Apache-2.0
//! Which of a tenant's images a text means: a reference, or a digest that one of them has. A
//! shortened digest means an image as long as it means no second one, as with docker.

use model::error::{Error, Reason};
use model::name::Tenant;

use super::{Inner, Record};
use crate::reference::Reference;

/// The shortest part of a digest that is looked up.
const SHORTEST: usize = 6;

impl Inner {
    /// The tenant's image of this name.
    ///
    /// # Errors
    /// `INVALID_FIELD`: neither a reference nor a digest. `NOT_FOUND`: the tenant hasn't got it.
    /// `CONFLICT`: a shortened digest means several.
    pub(super) fn find(&self, tenant: &Tenant, text: &str) -> Result<Record, Error> {
        let parsed = text.parse::<Reference>();
        if let Ok(reference) = &parsed
            && let Some(record) = self.record(tenant, &reference.to_string())
        {
            return Ok(record);
        }
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        if hex.len() >= SHORTEST && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let held = self.lock();
            // The tenant's are side by side.
            let of_tenant = held.range((tenant.clone(), String::new())..);
            let own = || of_tenant.clone().take_while(|((of, _), _)| of == tenant);
            let own = || own().map(|(_, held)| &held.record);
            let mut meant = own().filter(|record| record.manifest.digest.hex().starts_with(hex));
            if let Some(first) = meant.next() {
                let same = meant.all(|other| other.manifest.digest == first.manifest.digest);
                return same.then(|| first.clone()).ok_or_else(|| ambiguous(text));
            }
        }
        let reference = parsed.map_err(|error| {
            Error::invalid("reference", error.problem()).hint("write NAME[:TAG], or a digest")
        })?;
        let full = reference.to_string();
        let hint = format!(
            "`aurae image ls` lists them; to get it: aurae image pull {}",
            reference.familiar()
        );
        Err(Error::not_found("image", &full).hint(hint))
    }
}

fn ambiguous(text: &str) -> Error {
    Error::new(Reason::Conflict, format!("{text} means several images"))
        .field("reference")
        .hint("write more of the digest, or the image's name")
}
