// SPDX-License-Identifier: Apache-2.0
//! Commands of other tools, and those of `aurae` that do the same.

/// The command to type instead of one of another tool.
pub(super) fn meant_by(word: &str) -> Option<&'static str> {
    Some(match word {
        "status" => {
            "`aurae ps` shows what runs, `aurae inspect NAME` one object, `aurae node info` \
             the node"
        }
        "describe" | "show" => {
            "`aurae inspect NAME` shows everything that the node knows of an object"
        }
        "ls" | "list" => "`aurae ps` lists cells and executables, `aurae cell ls` cells alone",
        "get" => "`aurae ps` lists objects, `aurae inspect NAME` shows one; both have -o json",
        "events" | "watch" => "`aurae ps --watch` shows every change",
        "start" => {
            "`aurae run --name NAME -- PROGRAM` runs a program; a name that has ended may be \
             used again. `aurae unit start UNIT` starts a unit"
        }
        "restart" => {
            "`aurae stop NAME`, then `aurae run --name NAME -- PROGRAM`; `aurae unit restart UNIT` \
             restarts a unit"
        }
        "create" => {
            "`aurae cell run NAME` creates a cell, `aurae run -d -- PROGRAM` runs a program"
        }
        "delete" | "remove" | "del" | "prune" => {
            "`aurae rm NAME` removes what has ended, `aurae rm -rf NAME` stops it first"
        }
        "pause" | "freeze" => {
            "`aurae cell freeze NAME` holds a cell, `aurae cell thaw NAME` lets it go on"
        }
        "unpause" | "thaw" => "`aurae cell thaw NAME` lets a cell go on",
        "update" | "edit" | "patch" => "`aurae cell update NAME` changes a running cell",
        "stats" => "`aurae top` shows what cells and executables use",
        "shell" | "enter" | "ssh" | "nsenter" | "login" => {
            "`aurae exec -it CELL sh` looks around inside"
        }
        "journalctl" | "log" => "`aurae logs NAME` shows what an executable has printed",
        "signal" => "`aurae kill -s SIGNAL NAME` sends a signal",
        "copy" => {
            "`aurae cp CELL:PATH PATH` copies files out of a cell, `aurae cp PATH CELL:PATH` \
             into it"
        }
        "info" => "`aurae node info` shows the node",
        "context" | "contexts" => "`aurae config get-contexts` lists the contexts",
        "whoami" => "`aurae identity whoami` says which user you are",
        "shutdown" | "poweroff" | "halt" => {
            "`aurae node shutdown` stops every workload, then the node"
        }
        "reboot" => "`aurae node reboot` stops every workload, then reboots",
        "pull" | "push" | "load" | "save" => "`aurae image` gets, gives and shows images",
        "images" => "`aurae image ls` lists images",
        "build" => {
            "images are built elsewhere (podman, buildah, docker): `aurae image import FILE` takes \
             them, `aurae image pull NAME` gets them from a registry"
        }
        "enable" | "disable" | "daemon-reload" => {
            "`aurae unit enable UNIT` starts a unit at each boot, `aurae unit daemon-reload` reads \
             its files anew; `aurae schedule now` keeps a program or an image running over reboots"
        }
        "user" | "users" => "`aurae identity user ls` lists users with their tenants",
        _ => return None,
    })
}

/// The same of a command in a group, such as `aurae identity`.
pub(super) fn meant_in(group: &str, word: &str) -> Option<&'static str> {
    Some(match (group, word) {
        ("identity", "ls" | "list" | "users" | "get") => {
            "`aurae identity user ls` lists users, `aurae identity certificates USER` a user's \
             certificates"
        }
        ("schedule", "run" | "start" | "create" | "add") => {
            "`aurae schedule now` runs it now, `aurae schedule cron`, `aurae schedule at` and \
             `aurae schedule after` at other times"
        }
        ("tenant", "create" | "add" | "new") => {
            "`aurae tenant set TENANT QUOTA=VALUE` creates a tenant, as its first user does"
        }
        ("cell", "create" | "start" | "add" | "new") => "`aurae cell run NAME` creates a cell",
        ("pod", "create" | "apply" | "start") => "`aurae pod run FILE` runs a pod",
        ("image", "run") => "`aurae run IMAGE` runs it",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Args;

    /// The commands that a file's texts name in backquotes.
    fn named(source: &str) -> Vec<String> {
        // A text may go on in the next line.
        let joined: Vec<&str> = source.split("\\\n").map(str::trim_start).collect();
        let joined = joined.concat();
        let quoted = joined.split('`').skip(1).step_by(2);
        let commands = quoted.filter_map(|text| text.strip_prefix("aurae "));
        commands.map(str::to_owned).collect()
    }

    /// A hint that was true once sends its reader to a command that isn't there.
    #[test]
    fn every_command_that_a_hint_names_is_there() {
        let sources = [
            include_str!("commands.rs"),
            include_str!("flags.rs"),
            include_str!("mod.rs"),
        ];
        let texts = sources.map(|source| source.split("#[cfg(test)]").next().unwrap_or(source));
        let commands: Vec<String> = texts.iter().flat_map(|text| named(text)).collect();
        assert!(commands.len() > 30, "{commands:?}");
        for words in commands {
            let mut at = Args::command();
            at.build();
            let mut depth = 0;
            for word in words.split_whitespace() {
                let Some(next) = at.find_subcommand(word) else {
                    break;
                };
                at = next.clone();
                depth += 1;
            }
            let first = words.split_whitespace().next().unwrap_or_default();
            // `--help`, and the place for a name that is put in.
            let of_no_command = first.starts_with(['-', '{']);
            assert!(of_no_command || depth > 0, "`aurae {words}`");
            let whole = !at.has_subcommands() || of_no_command || words == first;
            assert!(whole, "`aurae {words}` is no command of its group");
            let ours = words.split_whitespace().take_while(|word| *word != "--");
            for flag in ours.filter(|word| word.starts_with("--")) {
                let long = flag.trim_start_matches('-');
                let known = at.get_arguments().any(|it| it.get_long() == Some(long));
                assert!(known || long == "help", "`aurae {words}` has no {flag}");
            }
        }
    }

    #[test]
    fn what_is_there_in_a_group_is_not_hinted_at() {
        let groups = ["identity", "schedule", "tenant", "cell", "pod", "image"];
        for group in groups {
            let root = Args::command();
            let there = root.find_subcommand(group).unwrap();
            for command in there.get_subcommands() {
                for name in command.get_name_and_visible_aliases() {
                    assert_eq!(meant_in(group, name), None, "{group} {name}");
                }
            }
        }
    }

    #[test]
    fn what_is_there_is_not_hinted_at() {
        for command in Args::command().get_subcommands() {
            assert_eq!(meant_by(command.get_name()), None, "{}", command.get_name());
        }
    }
}
