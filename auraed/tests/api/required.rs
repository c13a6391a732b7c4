// SPDX-License-Identifier: Apache-2.0
//! What the contract calls required in requests that the daemon checks itself, and not the API's
//! conversions (those are in `crates/api/tests/required.rs`): each field of each request is left
//! out in turn, and the node asked. The language's types are made from the same option.

use api::identity::v0 as identity;
use api::node::v0 as node;
use api::sets::v0 as sets;
use api::tenant::v0 as tenants;
use client::credentials::NewKey;
use prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor};
use tonic::Code;

use crate::caller::Person;
use crate::node::TestNode;
use crate::raw::send;

/// A method and a whole request, by the request's name without `aurae.`.
struct Whole {
    rpc: &'static str,
    name: &'static str,
    bytes: Vec<u8>,
    /// Whether the node may be asked with it: a shutdown would end the test.
    is_asked: bool,
}

fn whole(rpc: &'static str, name: &'static str, message: &impl Message) -> Whole {
    Whole {
        rpc,
        name,
        bytes: message.encode_to_vec(),
        is_asked: true,
    }
}

fn csr() -> String {
    let key = NewKey::generate().unwrap();
    key.signing_request("ann").unwrap()
}

fn users() -> Vec<Whole> {
    let (tenant, name) = ("acme".to_owned(), "ann".to_owned());
    let lifetime = Some(prost_types::Duration {
        seconds: 60,
        nanos: 0,
    });
    let create = identity::CreateUserRequest {
        tenant: tenant.clone(),
        name: "zoe".into(),
        administrator: false,
    };
    let disable = identity::DisableUserRequest {
        tenant: tenant.clone(),
        name: name.clone(),
    };
    let enable = identity::EnableUserRequest {
        tenant: tenant.clone(),
        name: name.clone(),
    };
    let list = identity::ListCertificatesRequest {
        tenant: tenant.clone(),
        name: name.clone(),
    };
    let issue = identity::IssueRequest {
        tenant,
        name,
        csr_pem: csr(),
        lifetime,
    };
    let renew = identity::RenewRequest {
        csr_pem: csr(),
        lifetime,
    };
    vec![
        whole(
            "identity.v0.Identity/CreateUser",
            "identity.v0.CreateUserRequest",
            &create,
        ),
        whole(
            "identity.v0.Identity/DisableUser",
            "identity.v0.DisableUserRequest",
            &disable,
        ),
        whole(
            "identity.v0.Identity/EnableUser",
            "identity.v0.EnableUserRequest",
            &enable,
        ),
        whole(
            "identity.v0.Identity/ListCertificates",
            "identity.v0.ListCertificatesRequest",
            &list,
        ),
        whole(
            "identity.v0.Identity/Issue",
            "identity.v0.IssueRequest",
            &issue,
        ),
        whole(
            "identity.v0.Identity/Renew",
            "identity.v0.RenewRequest",
            &renew,
        ),
    ]
}

fn grants(id: String) -> Vec<Whole> {
    let allow = identity::AllowRequest {
        tenant: "acme".into(),
        user: "ann".into(),
        action: "runtime.Get".into(),
        target_tenant: "acme".into(),
        path: "web".into(),
    };
    let deny = identity::DenyRequest {
        tenant: "acme".into(),
        user: "ann".into(),
        action: "runtime.Stop".into(),
        target_tenant: "acme".into(),
        path: "web".into(),
    };
    let explain = identity::ExplainRequest {
        tenant: "acme".into(),
        user: "ann".into(),
        action: "runtime.Get".into(),
        target_tenant: "acme".into(),
        path: "web".into(),
    };
    let withdraw = identity::WithdrawRequest { id };
    vec![
        whole(
            "identity.v0.Identity/Allow",
            "identity.v0.AllowRequest",
            &allow,
        ),
        whole(
            "identity.v0.Identity/Deny",
            "identity.v0.DenyRequest",
            &deny,
        ),
        whole(
            "identity.v0.Identity/Explain",
            "identity.v0.ExplainRequest",
            &explain,
        ),
        whole(
            "identity.v0.Identity/Withdraw",
            "identity.v0.WithdrawRequest",
            &withdraw,
        ),
    ]
}

fn others() -> Vec<Whole> {
    let name = || "acme".to_owned();
    let quotas = tenants::Quotas {
        memory_max: Some("10%".into()),
        ..Default::default()
    };
    let set = tenants::SetRequest {
        name: name(),
        quotas: Some(quotas),
    };
    let get = sets::GetRequest {
        tenant: name(),
        name: "shop".into(),
    };
    let remove = sets::RemoveRequest {
        tenant: name(),
        name: "shop".into(),
        expected_revision: 9,
    };
    let shutdown = node::ShutdownRequest {
        mode: node::shutdown_request::Mode::Halt.into(),
        bound: Some(prost_types::Duration {
            seconds: 1,
            nanos: 0,
        }),
    };
    let forget = tenants::RemoveRequest { name: name() };
    let show = tenants::GetRequest {
        name: name(),
        ..Default::default()
    };
    vec![
        whole("tenant.v0.Tenant/Get", "tenant.v0.GetRequest", &show),
        whole("tenant.v0.Tenant/Set", "tenant.v0.SetRequest", &set),
        whole(
            "tenant.v0.Tenant/Remove",
            "tenant.v0.RemoveRequest",
            &forget,
        ),
        whole("sets.v0.Sets/Get", "sets.v0.GetRequest", &get),
        whole("sets.v0.Sets/Remove", "sets.v0.RemoveRequest", &remove),
        Whole {
            is_asked: false,
            ..whole(
                "node.v0.Node/Shutdown",
                "node.v0.ShutdownRequest",
                &shutdown,
            )
        },
    ]
}

fn is_required(field: &FieldDescriptor) -> bool {
    let pool = field.parent_pool();
    let option = pool.get_extension_by_name("aurae.required").unwrap();
    let options = field.options();
    options.has_extension(&option) && options.get_extension(&option).as_bool() == Some(true)
}

/// Whether the node calls the request malformed.
async fn is_malformed(person: &Person, rpc: &str, bytes: Vec<u8>) -> bool {
    // A method's path lives as long as the program.
    let path: &'static str = Box::leak(format!("/aurae.{rpc}").into_boxed_str());
    send(person, path, bytes).await.code() == Some(Code::InvalidArgument)
}

#[tokio::test]
async fn what_the_daemon_refuses_when_it_is_missing_is_required() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    administrator.introduce(&node, "acme", "ann", None).await;
    let grant = identity::AllowRequest {
        tenant: "acme".into(),
        user: "ann".into(),
        action: "observe".into(),
        ..Default::default()
    };
    let id = administrator.allow(grant).await.id;
    let pool = api::descriptor_pool().unwrap();
    let mut wrong = Vec::new();
    for row in [users(), grants(id), others()].into_iter().flatten() {
        let kind = pool
            .get_message_by_name(&format!("aurae.{}", row.name))
            .unwrap();
        let message = DynamicMessage::decode(kind.clone(), row.bytes.as_slice()).unwrap();
        for field in kind.fields().filter(|field| message.has_field(field)) {
            if !row.is_asked && !is_required(&field) {
                continue;
            }
            let mut less = message.clone();
            less.clear_field(&field);
            let refused = is_malformed(&administrator, row.rpc, less.encode_to_vec()).await;
            if refused != is_required(&field) {
                wrong.push(format!(
                    "{}: refused without it: {refused}",
                    field.full_name()
                ));
            }
        }
        if row.is_asked && is_malformed(&administrator, row.rpc, row.bytes).await {
            wrong.push(format!("{} isn't whole", row.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
