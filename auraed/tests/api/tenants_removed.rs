// SPDX-License-Identifier: Apache-2.0
//! A tenant is removed, and another one gets its name, and finds nothing of it.

use api::identity::v0 as identity;
use api::observe::v0 as observe;
use api::runtime::v0 as wire;
use api::sets::v0 as sets;
use api::sets::v0::sets_client::SetsClient;
use api::status::{Reason, from_status};
use api::tenant::v0 as tenant;

use crate::caller::Person;
use crate::node::TestNode;
use crate::requests::{program, shared_cell};
use crate::table::Whom::{Administrator, Owner};
use crate::table::at;

async fn list(person: &Person) -> wire::ListResponse {
    let request = wire::ListRequest::default();
    let page = person.node.runtime().list(request).await;
    page.unwrap().into_inner()
}

async fn sets_of(person: &Person) -> Vec<sets::Set> {
    let request = sets::ListRequest::default();
    let all = SetsClient::new(person.node.channel()).list(request).await;
    all.unwrap().into_inner().sets
}

async fn remove(administrator: &Person) -> Result<(), Option<Reason>> {
    let request = tenant::RemoveRequest {
        name: "acme".into(),
    };
    let removed = administrator.node.tenant().remove(request).await;
    removed.map(drop).map_err(|e| from_status(&e).reason)
}

/// What eve prints and declares; answers the log that was written.
async fn leaves_something(administrator: &Person, eve: &Person) -> observe::LogsRequest {
    let mut runtime = administrator.node.runtime();
    runtime.run_cell(shared_cell("web")).await.unwrap();
    let mut request = program("web/job", &["echo", "a secret"]);
    request.wait_for = wire::WaitFor::Exited.into();
    let ended = eve.node.runtime().run_executable(request).await;
    let ended = ended.unwrap().into_inner();
    let set = sets::Set {
        name: "shop".into(),
        program: "shop/main.ts".into(),
        ..Default::default()
    };
    let put = sets::PutRequest {
        set: Some(set),
        expected_revision: 0,
    };
    let mut client = SetsClient::new(eve.node.channel());
    client.put(put).await.unwrap();
    let stop = wire::StopRequest {
        r#ref: at(Administrator, "web"),
        grace: None,
    };
    runtime.stop(stop).await.unwrap();
    let mut written = at(Owner, "web/job").unwrap();
    written.uid = ended.meta.unwrap().r#ref.unwrap().uid;
    observe::LogsRequest {
        refs: vec![written],
        ..Default::default()
    }
}

#[tokio::test]
async fn the_next_tenant_of_a_name_finds_nothing_of_the_one_before() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let eve = administrator.introduce(&node, "acme", "eve", None).await;
    let earlier = list(&eve).await.resume_token;
    let written = leaves_something(&administrator, &eve).await;
    assert_eq!(list(&eve).await.objects.len(), 2);
    assert_eq!(remove(&administrator).await, Err(Some(Reason::NotEmpty)));
    assert_eq!(sets_of(&eve).await.len(), 1, "refused, it takes nothing");

    let disable = identity::DisableUserRequest {
        tenant: "acme".into(),
        name: "eve".into(),
    };
    let mut users = administrator.node.identity();
    users.disable_user(disable).await.unwrap();
    assert_eq!(remove(&administrator).await, Ok(()));

    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    assert_eq!(list(&ann).await.objects, []);
    assert_eq!(sets_of(&ann).await, []);
    let read = ann.node.observe().logs(written).await.map(drop);
    assert_eq!(
        from_status(&read.unwrap_err()).reason,
        Some(Reason::NotFound)
    );
    let logs = node.state().join("logs/acme");
    let logs = std::fs::read_dir(logs).map_or(0, Iterator::count);
    assert_eq!(logs, 0);
    // What was told of it is told no more.
    let watch = wire::WatchRequest {
        resume_token: earlier,
        ..Default::default()
    };
    let events = ann.node.runtime().watch(watch).await.unwrap();
    let first = events.into_inner().message().await.unwrap().unwrap();
    assert_eq!(first.r#type(), wire::watch_event::Type::Reset);
    // Neither does a later daemon find any of it.
    node.kill_daemon();
    let ann = Person::new(ann.target, ann.serial).await;
    assert_eq!(list(&ann).await.objects, []);
    node.stop();
}
