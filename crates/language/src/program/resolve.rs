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
        return Err(not_relative(specifier));
    }
    if let Some(stem) = specifier.strip_suffix(".json") {
        return Err(format!(
            "\"{specifier}\" is data, no module: write it as `export default {{ … }}` in \"{stem}.ts\""
        ));
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

/// What to write in the place of what other hosts of JavaScript resolve.
fn not_relative(specifier: &str) -> String {
    if specifier.starts_with('/') {
        return format!(
            "\"{specifier}\" is an absolute path; modules are named relative to the file"
        );
    }
    if specifier.contains("://") || specifier.starts_with("data:") {
        return format!(
            "\"{specifier}\" is a URL: nothing is fetched; put the module beside the program and write \
             \"./name.ts\""
        );
    }
    let host = specifier.split_once(':').map(|(scheme, _)| scheme);
    match host {
        Some("node" | "bun") => format!(
            "\"{specifier}\" is another host's: a program reaches nodes alone (`runtime`, `observe`, …)"
        ),
        Some("npm" | "jsr") | None if is_package(specifier) => format!(
            "\"{specifier}\" is a package: none is looked up; copy the sources that are needed beside the \
             program and write \"./name.ts\""
        ),
        _ => {
            let stem = specifier.trim_end_matches(".ts").trim_end_matches(".js");
            format!("\"{specifier}\" is no module: write \"./{stem}.ts\"")
        }
    }
}

/// `left-pad`, `@scope/name`, `name/part`, `npm:name`; a path that lacks its `./` ends in a file.
fn is_package(specifier: &str) -> bool {
    let last = specifier.rsplit('/').next().unwrap_or_default();
    !last.ends_with(".ts") && !last.ends_with(".js")
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
            target("a.ts", "./b.js")
                .unwrap_err()
                .ends_with("write \"./b.ts\"")
        );
        assert!(target("a.ts", "../b.ts").unwrap_err().contains("leads out"));
    }

    #[test]
    fn what_other_hosts_resolve_is_named() {
        for (specifier, said) in [
            ("./limits.json", "`export default { … }` in \"./limits.ts\""),
            ("https://esm.sh/zod", "is a URL: nothing is fetched"),
            ("data:text/javascript,1", "is a URL: nothing is fetched"),
            ("node:fs", "is another host's"),
            ("left-pad", "is a package: none is looked up"),
            ("@scope/name", "is a package: none is looked up"),
            ("npm:zod", "is a package: none is looked up"),
            ("lib/a.ts", "write \"./lib/a.ts\""),
        ] {
            let message = target("a.ts", specifier).unwrap_err();
            assert!(message.contains(said), "{specifier}: {message}");
        }
    }
}
