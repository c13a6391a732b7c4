// SPDX-License-Identifier: Apache-2.0
//! The folder of the node's state on a machine whose root can't be written: the daemon reads what
//! is there, and what changes is in memory until the next boot. A node comes up, and can be asked
//! what is wrong.

use std::path::Path;

use kernel::mount::{self, Attributes, NewFileSystem};
use kernel::{Error, Result, fsutil};

use super::console::Console;
use super::machine::ensure_folder;
use crate::options::Options;

/// What of the memory's file system the state may take where it begins empty.
const ROOM: u64 = 64 << 20;

/// Puts a layer of memory over the folder where its file system is read-only.
pub(super) fn make_writable(options: &Options, console: &Console) {
    let state = &options.state_dir;
    // A folder that isn't there can't be made, which was said.
    if !fsutil::space(state).is_ok_and(|it| it.read_only) {
        return;
    }
    let shown = state.display();
    match cover(state, &options.run_dir.join("state")) {
        Ok(()) => console.say(&format!(
            "{shown} can't be written: what changes there is kept until the next boot alone"
        )),
        Err(error) => {
            console.say(&format!(
                "{error}: {shown} is as if it were empty, in memory"
            ));
            if let Err(error) = empty(state) {
                console.say(&format!("{error}: {shown} can't be written"));
            }
        }
    }
}

/// An overlay: `memory` has what changes.
fn cover(state: &Path, memory: &Path) -> Result<()> {
    let (upper, work) = (memory.join("upper"), memory.join("work"));
    for folder in [memory, &upper, &work] {
        ensure_folder(folder, 0o700)?;
    }
    let layer = NewFileSystem::open("overlay")?
        .set("lowerdir", text(state)?)?
        .set("upperdir", text(&upper)?)?
        .set("workdir", text(&work)?)?
        .mount(Attributes::NO_SUID | Attributes::NO_DEV)?;
    mount::attach(layer, state)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .ok_or_else(|| Error::invalid("mount", "a path that is no text").on(path))
}

fn empty(state: &Path) -> Result<()> {
    let quiet = Attributes::NO_SUID | Attributes::NO_DEV;
    mount::attach(mount::tmpfs(ROOM, 0o700, quiet)?, state)
}
