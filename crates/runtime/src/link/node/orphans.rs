// SPDX-License-Identifier: Apache-2.0
//! What node-init is asked where a cell outlives its init (ADR 77).

use std::os::fd::OwnedFd;

use init::protocol::{NodeRequest, Uid};

use super::{Command, NodeInit};

impl NodeInit {
    /// Has node-init say on a socket how orphans end: for another init of this cell, which adopts
    /// what runs there.
    pub(crate) async fn tell_orphans(&self, uid: Uid, socket: OwnedFd) {
        let request = NodeRequest::TellOrphans { uid };
        self.command(Command::Plain(request, vec![socket])).await;
    }
}
