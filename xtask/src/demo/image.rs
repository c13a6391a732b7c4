// SPDX-License-Identifier: Apache-2.0
//! The demo's image: made on the node of its own busybox, pushed to Debian's `docker-registry`,
//! which runs in a cell there, and pulled and run from it with one command.

use anyhow::{Context, Result, ensure};
use testkit::disk::Copy;

use super::Demo;
use crate::build;

/// What the image's server answers.
const PAGE: &str = "Hello from an image";
const REGISTRY: &str = "/usr/bin/docker-registry";

/// The registry's program, and that the node may ask it in the clear.
pub(super) fn copies() -> Result<Vec<Copy>> {
    let files = build::root()?.join("xtask/demo");
    Ok(vec![
        Copy::new(REGISTRY, REGISTRY),
        Copy::new(files.join("registries.toml"), "/etc/aurae/registries.toml"),
    ])
}

pub(super) fn tell(demo: &Demo) -> Result<()> {
    demo.step("A registry, in a cell on the node's network, and an image in it");
    for line in [
        "sh /srv/demo/image.sh /tmp/site.tar",
        "aurae image import --name localhost:5000/site:1 /tmp/site.tar",
        "aurae cell run registry --share net --read /srv/demo",
        "aurae run --cell registry --name serve -d -- docker-registry serve /srv/demo/registry.yml",
    ] {
        demo.shown(line)?;
    }
    let up = "for try in $(seq 100); do curl -sfo /dev/null http://localhost:5000/v2/ && exit; \
              sleep 0.1; done; exit 1";
    demo.node
        .sh(up)
        .context("the registry should answer: `aurae logs registry/serve`")?;
    demo.shown("aurae image push localhost:5000/site:1")?;
    demo.shown("aurae image rm localhost:5000/site:1 && aurae image prune")?;
    demo.step("The image, pulled and run by one command");
    demo.shown("aurae run -d --name site -p 8080:80 localhost:5000/site:1")?;
    demo.step("Its page, by the node's port");
    let page = "curl -sS --retry 20 --retry-connrefused --retry-delay 1 http://localhost:8080/";
    demo.shown(page)?;
    let said = demo.node.sh(page)?;
    ensure!(said.contains(PAGE), "the page is {said}");
    demo.shown("aurae ps && aurae rm -r --force site registry")
}
