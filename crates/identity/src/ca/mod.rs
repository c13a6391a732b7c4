// SPDX-License-Identifier: Apache-2.0
//! The certificate authority of the trust domain: its key and its files, the certificates that it
//! signs, and those that are refused before their end. Who holds a certificate is asked in `authn`,
//! what its holder may do in `authz`.

pub(crate) mod authority;
pub(crate) mod certificates;
pub(crate) mod issue;
pub(crate) mod offline;
pub(crate) mod pki;
pub(crate) mod revocation_log;
pub(crate) mod revoke;
