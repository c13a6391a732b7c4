// SPDX-License-Identifier: Apache-2.0
//! What a specifier leads to, and the words where it leads nowhere.

use crate::root;

/// The path, relative to the root, that `specifier` in the module at `from` leads to.
///
/// # Errors
/// It is no relative path to a `.ts` file below the root: one sentence that says what to write.
pub(super) fn target(from: &str, specifier: &str) -> Result<String, String> {
    let relative = specifier.starts_with("./") || specifier.starts_with("../");
    if !relative {
        return Err(if specifier.starts_with('/') {
            format!("\"{specifier}\" is an absolute path; modules are named relative to the file")
        } else {
            format!(
                "\"{specifier}\" is no module: there are no packages, only files such as \"./{specifier}.ts\""
            )
        });
    }
    if specifier.ends_with(".d.ts") {
        return Err(format!(
            "\"{specifier}\" only declares; import what it declares as a type"
        ));
    }
    if !specifier.ends_with(".ts") {
        let stem = specifier.strip_suffix(".js").unwrap_or(specifier);
        return Err(format!(
            "\"{specifier}\" has no extension `.ts`; write \"{stem}.ts\""
        ));
    }
    root::join(from, specifier)
        .ok_or_else(|| format!("\"{specifier}\" leads out of the program's root"))
}

/// Of `names` the one most like `name`, if any is like it at all.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let most = 1 + name.chars().count() / 3;
    names
        .map(|other| (distance(name, other), other))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, other)| other)
}

/// Insertions, removals, replacements and swaps of neighbours from one name to another; letters
/// that differ in case alone cost nothing.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().flat_map(char::to_lowercase).collect();
    let to: Vec<char> = to.chars().flat_map(char::to_lowercase).collect();
    if from.len().abs_diff(to.len()) > 8 || from.len().max(to.len()) > 128 {
        return usize::MAX;
    }
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.iter().enumerate() {
        let mut next = vec![at + 1];
        for (column, other) in to.iter().enumerate() {
            let get =
                |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX / 2);
            let same = usize::from(letter != other);
            let mut best = get(&row, column) + same;
            best = best
                .min(get(&row, column + 1) + 1)
                .min(get(&next, column) + 1);
            let swapped = at > 0
                && column > 0
                && from.get(at - 1) == Some(other)
                && to.get(column - 1) == Some(letter);
            if swapped {
                best = best.min(get(&above, column - 1) + 1);
            }
            next.push(best);
        }
        above = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relative_typescript_is_a_module() {
        assert_eq!(
            target("apps/web.ts", "../lib/a.ts").as_deref(),
            Ok("lib/a.ts")
        );
        assert!(
            target("a.ts", "left-pad")
                .unwrap_err()
                .contains("no packages")
        );
        assert!(
            target("a.ts", "./b.js")
                .unwrap_err()
                .ends_with("write \"./b.ts\"")
        );
        assert!(target("a.ts", "../b.ts").unwrap_err().contains("leads out"));
    }

    #[test]
    fn a_slip_has_a_nearest_name() {
        let names = ["web", "database", "cache"];
        assert_eq!(nearest("databsae", names.into_iter()), Some("database"));
        assert_eq!(nearest("Web", names.into_iter()), Some("web"));
        assert_eq!(nearest("completely", names.into_iter()), None);
    }
}
