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
             used again"
        }
        "restart" => {
            "nothing is restarted yet: `aurae stop NAME`, then `aurae run --name NAME -- PROGRAM`"
        }
        "create" => "`aurae cell run NAME` makes a cell, `aurae run -d -- PROGRAM` runs a program",
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
            "what must outlive a reboot is not there yet; `boot.run` of the node's \
             configuration runs one program"
        }
        "user" | "users" => "`aurae identity user ls` lists users with their tenants",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Args;

    #[test]
    fn what_is_there_is_not_hinted_at() {
        for command in Args::command().get_subcommands() {
            assert_eq!(meant_by(command.get_name()), None, "{}", command.get_name());
        }
    }
}
