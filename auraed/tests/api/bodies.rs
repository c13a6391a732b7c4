// SPDX-License-Identifier: Apache-2.0
//! Requests that don't come, or late: the caller is looked at before the request is there, a
//! request has its time, and a client that begins late is served.

use std::time::{Duration, Instant};

use api::status::Reason;

use crate::node::TestNode;
use crate::raw::send_nothing;

const GET: &str = "/aurae.node.v0.Node/Get";

#[tokio::test]
async fn the_caller_is_looked_at_before_the_request_which_has_its_time() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let bob = administrator.introduce(&node, "blue", "bob", None).await;
    administrator.revoke(&ann).await;
    // Looked at after the request, ann would be told the same as bob.
    let (ann, bob) = tokio::join!(send_nothing(&ann, GET), send_nothing(&bob, GET));
    assert_eq!(ann.reason, Some(Reason::CertRevoked), "{ann:?}");
    assert_eq!(bob.reason, Some(Reason::Deadline), "{bob:?}");
    assert!(bob.message.contains("did not arrive within"), "{bob:?}");
    node.stop();
}

#[tokio::test]
async fn a_client_that_was_silent_until_the_node_hung_up_is_connected_anew() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let silent = client::Node::connect(&administrator.target).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !silent.has_hung_up() {
        assert!(Instant::now() < deadline, "a silent connection is kept");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let request = silent.unary(api::node::v0::GetRequest {});
    silent.node().get(request).await.unwrap();
    node.stop();
}
