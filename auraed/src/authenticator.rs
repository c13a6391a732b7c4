// SPDX-License-Identifier: Apache-2.0
//! Authentication at the sockets, by `identity`: a client is accepted when its certificate is of
//! the node's CA and names a user.

use std::sync::Arc;

use identity::{Identity, Peer, Refusal, SocketCredentials, StartError};
use model::name::Tenant;
use rustls::pki_types::CertificateDer;

use crate::listen::{Authenticate, Ending, Source};

/// Authenticates the clients of the node's listeners.
pub(crate) struct Authenticator {
    identity: Arc<Identity>,
    tls: Arc<rustls::ServerConfig>,
}

impl Authenticator {
    /// For the users of this identity.
    ///
    /// # Errors
    /// As [`Identity::server_config`].
    pub(crate) fn new(identity: Arc<Identity>) -> Result<Self, StartError> {
        let tls = Arc::new(identity.server_config()?);
        Ok(Self { identity, tls })
    }
}

impl Authenticate for Authenticator {
    /// The peer that `rpc` finds among a request's extensions.
    type Peer = Peer;

    fn tls(&self) -> Arc<rustls::ServerConfig> {
        self.tls.clone()
    }

    fn admit(
        &self,
        leaf: &CertificateDer<'_>,
        socket: Option<SocketCredentials>,
    ) -> Result<Peer, String> {
        self.identity.peer(leaf, socket).map_err(|e| e.to_string())
    }

    fn rejected(&self, source: Source, refusal: Refusal, words: &str) {
        let (listener, uid, from) = match source {
            Source::User(uid) => ("unix", Some(uid), format!("uid {uid}")),
            Source::Address(address) => ("tcp", None, address.to_string()),
            Source::Unknown => ("unix", None, "an unknown user".to_owned()),
        };
        self.identity.rejected(listener, uid, &from, refusal, words);
    }

    fn tenant(peer: &Peer) -> &Tenant {
        &peer.user().tenant
    }

    fn ending(&self, peer: &Peer) -> Ending {
        let (identity, peer) = (self.identity.clone(), peer.clone());
        Box::pin(async move { drop(identity.ended_coarsely(&peer).await) })
    }
}
