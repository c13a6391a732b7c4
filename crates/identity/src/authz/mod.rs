// SPDX-License-Identifier: Apache-2.0
//! Authorization: users and what was granted to them, the policies, and the only code that makes a
//! [`permit::Permit`]. The caller's identity comes from `authn`.

pub(crate) mod actions;
pub(crate) mod authorize;
pub(crate) mod directory;
pub(crate) mod grants;
mod local_permit;
pub(crate) mod node_permit;
mod on_behalf;
pub mod permit;
pub(crate) mod policy;
pub(crate) mod standing;
pub(crate) mod target;
pub(crate) mod users;
