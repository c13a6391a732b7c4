// SPDX-License-Identifier: Apache-2.0
//! Authentication: the handshake, the names in certificates, and the [`peer::Peer`] that a verified
//! certificate becomes. What a peer may do is decided in `authz`.

pub(crate) mod handshake;
pub(crate) mod handshake_failures;
pub(crate) mod peer;
pub(crate) mod spiffe;
