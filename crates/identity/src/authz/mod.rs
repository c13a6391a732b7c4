// SPDX-License-Identifier: Apache-2.0
//! Authorization: users and what was granted to them, the policies, and the one way to a
//! [`permit::Permit`]. Who the caller is was settled in `authn`.

pub(crate) mod actions;
pub(crate) mod authorize;
pub(crate) mod directory;
pub(crate) mod grants;
pub(crate) mod node_permit;
pub mod permit;
pub(crate) mod policy;
pub(crate) mod standing;
pub(crate) mod target;
pub(crate) mod users;
