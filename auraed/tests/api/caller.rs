// SPDX-License-Identifier: Apache-2.0
//! The people who call: a certificate, a key, a connection.

use std::time::Duration;

use api::identity::v0 as wire;
use api::observe::v0::{LogsRequest, logs_response::Message};
use api::runtime::v0::ObjectRef;
use client::credentials::NewKey;
use client::{Node, Target};

use crate::node::TestNode;

#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) node: Node,
    pub(crate) target: Target,
    pub(crate) serial: String,
}

impl Person {
    pub(crate) async fn new(target: Target, serial: String) -> Self {
        let node = Node::connect(&target).await.unwrap();
        Self {
            node,
            target,
            serial,
        }
    }

    /// Makes a user, and a certificate for it.
    pub(crate) async fn introduce(
        &self,
        node: &TestNode,
        tenant: &str,
        name: &str,
        lifetime: Option<Duration>,
    ) -> Person {
        let user = wire::CreateUserRequest {
            tenant: tenant.into(),
            name: name.into(),
            administrator: false,
        };
        self.introduced(node, user, lifetime).await
    }

    /// Makes an administrator.
    pub(crate) async fn introduce_administrator(&self, node: &TestNode, name: &str) -> Person {
        let user = wire::CreateUserRequest {
            tenant: "system".into(),
            name: name.into(),
            administrator: true,
        };
        self.introduced(node, user, None).await
    }

    async fn introduced(
        &self,
        node: &TestNode,
        user: wire::CreateUserRequest,
        lifetime: Option<Duration>,
    ) -> Person {
        let mut identity = self.node.identity();
        let (tenant, name) = (user.tenant.clone(), user.name.clone());
        identity.create_user(user).await.unwrap();
        let key = NewKey::generate().unwrap();
        let issue = wire::IssueRequest {
            tenant: tenant.clone(),
            name: name.clone(),
            csr_pem: key.signing_request(&name).unwrap(),
            lifetime: lifetime.map(api::convert::scalar::to_duration),
        };
        let issued = identity.issue(issue).await.unwrap().into_inner();
        let stem = node.folder().join(format!("{tenant}-{name}"));
        let (certificate, key_file) = (stem.with_extension("pem"), stem.with_extension("key"));
        std::fs::write(&certificate, issued.certificate_pem).unwrap();
        std::fs::write(&key_file, key.to_pem()).unwrap();
        Person::new(node.target(certificate, key_file), issued.serial).await
    }

    /// A way to the node with a certificate that another CA gave for that SPIFFE path.
    pub(crate) fn forged(node: &TestNode, path: &str) -> Target {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        let uri = format!("spiffe://aurae.local/{path}").try_into().unwrap();
        params.subject_alt_names = vec![rcgen::SanType::URI(uri)];
        let certificate = params.self_signed(&key).unwrap();
        let stem = node.folder().join("forged");
        let (pem, key_file) = (stem.with_extension("pem"), stem.with_extension("key"));
        std::fs::write(&pem, certificate.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        node.target(pem, key_file)
    }

    pub(crate) async fn revoke(&self, other: &Person) {
        let message = wire::RevokeRequest {
            serial: other.serial.clone(),
            reason: "a test".into(),
            ..Default::default()
        };
        self.node.identity().revoke(message).await.unwrap();
    }

    pub(crate) async fn allow(&self, message: wire::AllowRequest) -> wire::Grant {
        self.node
            .identity()
            .allow(message)
            .await
            .unwrap()
            .into_inner()
    }

    pub(crate) async fn deny(&self, message: wire::DenyRequest) -> wire::Grant {
        self.node
            .identity()
            .deny(message)
            .await
            .unwrap()
            .into_inner()
    }

    pub(crate) async fn withdraw(&self, id: String) {
        let message = wire::WithdrawRequest { id };
        self.node.identity().withdraw(message).await.unwrap();
    }

    /// All that it has printed so far, or all that is in it.
    pub(crate) async fn log_of(&self, object: Option<ObjectRef>) -> String {
        let request = LogsRequest {
            refs: object.into_iter().collect(),
            ..Default::default()
        };
        let answer = self.node.observe().logs(request).await;
        let (mut items, mut text) = (answer.unwrap().into_inner(), Vec::new());
        while let Some(item) = items.message().await.unwrap() {
            if let Some(Message::Data(piece)) = item.message {
                text.extend(piece.data);
            }
        }
        String::from_utf8(text).unwrap()
    }
}
