// SPDX-License-Identifier: Apache-2.0
//! Loads the kernel modules that the root needs: those of the list in the initramfs, in its order.

use std::path::{Path, PathBuf};

use kernel::machine;

use crate::node::Console;

/// Paths, one a line, relative ones to this folder; `#` begins a comment.
const LIST: &str = "/lib/modules/aurae.load";

/// Loads the modules of the list, where there is one. One that can't be loaded is reported: the
/// root may come all the same.
pub(super) fn load_listed(console: &Console) {
    let Ok(list) = std::fs::read_to_string(LIST) else {
        return;
    };
    let folder = Path::new(LIST).parent().unwrap_or(Path::new("/"));
    for path in listed(&list, folder) {
        if let Err(error) = machine::load_module(&path, c"") {
            console.say(&error.to_string());
        }
    }
}

fn listed<'a>(list: &'a str, folder: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    let lines = list.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| folder.join(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_paths_comments_and_empty_lines() {
        let paths: Vec<_> = listed("# for the disk\na.ko\n\n /x/b.ko\n", Path::new("/m")).collect();
        assert_eq!(paths, [PathBuf::from("/m/a.ko"), PathBuf::from("/x/b.ko")]);
    }
}
