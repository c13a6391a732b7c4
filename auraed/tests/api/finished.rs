// SPDX-License-Identifier: Apache-2.0
//! Finished objects live in the store: many with a large environment cost the daemon little memory,
//! and are shown whole.

use api::runtime::v0 as wire;

use crate::caller::Person;
use crate::node::TestNode;
use crate::requests::{cell, executable};
use crate::table::Whom::Owner;
use crate::table::at;

const RUNS: usize = 300;
/// Of each, in bytes.
const ENVIRONMENT: usize = 46 * 1024;
/// What all of them may cost: less than one copy of what they were asked to be.
const MOST_KB: u64 = 12 * 1024;

async fn run(person: &Person, n: usize) {
    let value = format!("{n:05}").repeat(ENVIRONMENT / 5);
    let spec = wire::ExecutableSpec {
        argv: vec!["/bin/true".into()],
        env: [("LARGE".to_owned(), value)].into(),
        ..Default::default()
    };
    let request = wire::RunExecutableRequest {
        wait_for: wire::WaitFor::Exited.into(),
        ..executable(&format!("web/r{n}"), spec)
    };
    let ended = person.node.runtime().run_executable(request).await;
    assert!(ended.unwrap().into_inner().exit.is_some());
}

fn environment(executable: &wire::ExecutableStatus) -> usize {
    let spec = executable.spec.as_ref().unwrap();
    spec.env.get("LARGE").map_or(0, String::len)
}

/// Every executable, page by page.
async fn listed(person: &Person) -> Vec<wire::ExecutableStatus> {
    use wire::object::Object;
    let mut found = Vec::new();
    let mut request = wire::ListRequest::default();
    loop {
        let page = person.node.runtime().list(request.clone()).await;
        let page = page.unwrap().into_inner();
        found.extend(
            page.objects
                .into_iter()
                .filter_map(|object| match object.object? {
                    Object::Executable(executable) => Some(executable),
                    Object::Cell(_) => None,
                }),
        );
        if page.next_page_token.is_empty() {
            return found;
        }
        request.page_token = page.next_page_token;
    }
}

#[tokio::test]
async fn finished_runs_with_large_environments_cost_little_memory() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let cell = cell(Owner, "web", wire::CellSpec::default());
    ann.node.runtime().run_cell(cell).await.unwrap();
    run(&ann, 0).await;
    let before = node.daemon_rss_kb();
    for n in 1..=RUNS {
        run(&ann, n).await;
    }
    let more = node.daemon_rss_kb().saturating_sub(before);
    println!("{RUNS} finished runs: {more} KB more in the daemon");
    assert!(more < MOST_KB, "{more} KB");
    // All of them are there, whole.
    let all = listed(&ann).await;
    assert_eq!(all.len(), RUNS + 1);
    assert!(
        all.iter()
            .all(|one| environment(one) == ENVIRONMENT / 5 * 5)
    );
    let request = wire::GetRequest {
        r#ref: at(Owner, "web/r7"),
    };
    let got = ann.node.runtime().get(request).await.unwrap().into_inner();
    let Some(wire::object::Object::Executable(got)) = got.object else {
        panic!("{got:?}");
    };
    assert!(got.spec.unwrap().env["LARGE"].starts_with("00007"));
    assert_eq!(got.effective.unwrap().argv, ["/bin/true"]);
    node.stop();
}
