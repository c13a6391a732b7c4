// SPDX-License-Identifier: Apache-2.0
//! The node's own certificate: short-lived, renewed while serving. Connections that are open keep
//! the one they were made with; each new handshake takes the newest.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

use super::authority::Authority;
use super::pki::{Pair, Pki};
use crate::authn::spiffe::{Subject, UserKey};
use crate::{Identity, Options, StartError};

/// How often the node looks whether something is due. Not a timer to the moment: clocks are set.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// Shorter than any useful lifetime, for lifetimes of seconds.
const CHECK_AT_LEAST: Duration = Duration::from_millis(200);

/// The certificate that new handshakes present.
#[derive(Debug)]
pub(crate) struct LiveCertificate {
    current: ArcSwap<Live>,
}

#[derive(Debug)]
struct Live {
    key: Arc<CertifiedKey>,
    due: SystemTime,
}

impl LiveCertificate {
    /// Takes the certificate that is on disk, if it is this node's and not due; else signs one.
    pub(crate) fn start(
        pki: &Pki,
        authority: &Authority,
        options: &Options,
    ) -> Result<Self, StartError> {
        let subject = Subject::Node(options.node.clone());
        let usable = |p: &Pair| {
            p.facts.id.subject == subject
                && p.facts.id.domain == *authority.domain()
                && !p.is_due(SystemTime::now())
        };
        let pair = match pki.pair("node")?.filter(usable) {
            Some(pair) => pair,
            None => pki.renew("node", authority, &subject, options.lifetimes.node)?,
        };
        Ok(Self {
            current: ArcSwap::from_pointee(live(&pair, authority)?),
        })
    }
}

fn live(pair: &Pair, authority: &Authority) -> Result<Live, StartError> {
    let tls = |e: &dyn std::fmt::Display| StartError::Tls(e.to_string());
    let key = PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).map_err(|e| tls(&e))?;
    let signing = rustls::crypto::ring::sign::any_supported_type(&key).map_err(|e| tls(&e))?;
    let chain = vec![pair.certificate.clone(), authority.certificate().clone()];
    Ok(Live {
        key: Arc::new(CertifiedKey::new(chain, signing)),
        due: pair.due(),
    })
}

impl ResolvesServerCert for LiveCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().key))
    }
}

impl Identity {
    /// Renews the node's certificate, and the administrator's file, whenever two thirds of their
    /// lives are over. Never ends; the daemon spawns it.
    pub async fn keep_certificates(&self) {
        loop {
            tokio::time::sleep(self.until_next_check()).await;
            if self.certificate.current.load().due <= SystemTime::now()
                && let Err(error) = self.renew_node()
            {
                tracing::error!(%error, "the node's certificate can't be renewed; trying again");
            }
            if let Err(error) = self.renew_administrator() {
                tracing::error!(%error, "the administrator's certificate can't be renewed");
            }
        }
    }

    fn until_next_check(&self) -> Duration {
        let due = self.certificate.current.load().due;
        let left = due
            .duration_since(SystemTime::now())
            .unwrap_or(Duration::ZERO);
        left.clamp(CHECK_AT_LEAST, CHECK_EVERY)
    }

    /// Signs a new certificate for the node's key and presents it from now on.
    fn renew_node(&self) -> Result<(), StartError> {
        let subject = Subject::Node(self.node.clone());
        let lifetime = self.lifetimes.load().node;
        let pair = self
            .pki
            .renew("node", &self.authority, &subject, lifetime)?;
        self.certificate
            .current
            .store(Arc::new(live(&pair, &self.authority)?));
        tracing::info!(serial = pair.facts.serial, "renewed the node's certificate");
        Ok(())
    }

    fn renew_administrator(&self) -> Result<(), StartError> {
        let due = self
            .pki
            .pair("admin")?
            .is_some_and(|p| p.is_due(SystemTime::now()));
        if due {
            let subject = Subject::User(UserKey::administrator()?);
            let lifetime = self.lifetimes.load().administrator;
            self.pki
                .renew("admin", &self.authority, &subject, lifetime)?;
        }
        Ok(())
    }
}
