// SPDX-License-Identifier: Apache-2.0
//! Requests that don't come: the caller is looked at before the request is there, and a request has
//! its time.

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
