// SPDX-License-Identifier: Apache-2.0
//! The proof that a call was authorized. The layers below the RPCs take a [`Permit`] by value;
//! nothing outside `identity` can make one, so a call that forgets authorization does not compile.

use model::name::{ObjectPath, Tenant};

use crate::authn::spiffe::UserKey;

/// One authorized call: who, what, on whose objects. Not `Clone`: one decision, one call.
#[derive(Debug)]
pub struct Permit {
    pub(crate) actor: String,
    pub(crate) user: UserKey,
    pub(crate) action: &'static str,
    pub(crate) tenant: Tenant,
    pub(crate) path: Option<ObjectPath>,
    pub(crate) every_tenant: bool,
    pub(crate) administrator: bool,
}

impl Permit {
    /// The caller's SPIFFE ID.
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// The caller, by tenant and name.
    pub fn user(&self) -> &UserKey {
        &self.user
    }

    /// `subsystem.Method`.
    pub fn action(&self) -> &'static str {
        self.action
    }

    /// Whose objects the call is about.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The object that was named, where one was.
    pub fn path(&self) -> Option<&ObjectPath> {
        self.path.as_ref()
    }

    /// The caller may see the objects of every tenant (administrators listing `*`).
    pub fn every_tenant(&self) -> bool {
        self.every_tenant
    }

    /// The caller has the administrator's role.
    pub fn is_administrator(&self) -> bool {
        self.administrator
    }

    /// A permit that nobody gave, for tests of the layers below: an administrator's, for objects of
    /// `tenant`. The feature is only ever enabled by tests.
    #[cfg(feature = "test-permits")]
    pub fn for_tests(
        action: &'static str,
        tenant: Tenant,
    ) -> Result<Self, crate::authn::spiffe::InvalidIdentity> {
        Ok(Self {
            actor: "spiffe://test/tenant/system/user/admin".to_owned(),
            user: UserKey::administrator()?,
            action,
            tenant,
            path: None,
            every_tenant: true,
            administrator: true,
        })
    }
}
