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
}
