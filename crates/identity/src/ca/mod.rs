// SPDX-License-Identifier: Apache-2.0
//! The certificate authority of the trust domain: its key and its files, the certificates that it
//! signs, and those that are refused before their end. `authn` reads the user of a certificate;
//! `authz` decides what that user may do.

pub(crate) mod authority;
pub(crate) mod certificates;
pub(crate) mod issue;
pub(crate) mod offline;
pub(crate) mod pki;
pub(crate) mod revocation_log;
pub(crate) mod revoke;
