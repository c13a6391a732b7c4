// SPDX-License-Identifier: Apache-2.0
//! `identity` as the listener's doorkeeper: who has which certificate, and which TLS is spoken.

use std::sync::Arc;

use node::identity::{Identity, Peer, SocketCredentials, StartError};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;

use crate::listen::Doorkeeper;

/// Lets in whom `identity` knows.
pub(crate) struct Keeper {
    identity: Arc<Identity>,
    /// Its certificate is looked up at each handshake, so one configuration serves renewed ones too.
    tls: Arc<ServerConfig>,
}

impl Keeper {
    /// A keeper with the node's TLS.
    pub(crate) fn new(identity: Arc<Identity>) -> Result<Self, StartError> {
        let tls = Arc::new(identity.server_config()?);
        Ok(Self { identity, tls })
    }
}

impl Doorkeeper for Keeper {
    type Peer = Peer;

    fn tls(&self) -> Arc<ServerConfig> {
        self.tls.clone()
    }

    fn admit(&self, leaf: &CertificateDer<'_>, uid: Option<u32>) -> Result<Peer, String> {
        let socket = uid.map(|uid| SocketCredentials { uid, pid: 0 });
        self.identity.peer(leaf, socket).map_err(|e| e.to_string())
    }

    fn tenant(peer: &Peer) -> &str {
        peer.user().tenant.as_str()
    }
}
