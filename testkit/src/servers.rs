// SPDX-License-Identifier: Apache-2.0
//! The Debian with services ([`crate::disk`]), and databases and a proxy beside them: what takes
//! too long to boot for every story.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::disk::{self, Recipe};
use crate::recipes::{FINISH_SERVICES, SERVICES};

/// What it has beyond [`SERVICES`].
const SERVERS: &str = "haproxy,postgresql,redis-server,redis-tools";

/// HAProxy's own configuration listens nowhere.
const PROXY: &str = r#"
cat >> "$1/etc/haproxy/haproxy.cfg" <<'PROXY'

frontend story
    bind 127.0.0.1:8080
    default_backend pages

backend pages
    server nginx 127.0.0.1:80
PROXY
"#;

/// The Debian with servers in `folder`, made on first use.
///
/// # Errors
/// When mmdebstrap or mke2fs fails.
pub(crate) fn debian_with_servers(folder: &Path) -> Result<PathBuf> {
    disk::make(
        folder,
        &Recipe {
            name: "servers",
            packages: format!("{SERVICES},{SERVERS}"),
            finish: format!("{PROXY}{FINISH_SERVICES}"),
        },
    )
}
