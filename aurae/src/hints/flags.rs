// SPDX-License-Identifier: Apache-2.0
//! Flags of other tools, and those of `aurae` that mean the same.

const MOUNT: &str = "`--read SRC[:DST]` mounts a folder of the node read-only, \
                     `--write SRC[:DST],owner=UID` writable";
const SHARE: &str = "`--share net` uses the node's network (pid, ipc, uts and user likewise); by \
                     default a cell has namespaces of its own";

/// The flag to give instead of one of another tool.
pub(super) fn meant_by(command: &str, flag: &str) -> Option<&'static str> {
    match command {
        "run" | "exec" => of_a_run(flag).or_else(|| of_a_cell(flag)),
        "update" => of_a_cell(flag),
        "ps" | "ls" => of_a_list(flag),
        "logs" => of_logs(flag),
        "inspect" => match flag {
            "-f" | "--format" | "--template" => Some("`-o json` prints everything, for jq"),
            _ => None,
        },
        "rm" | "stop" => match flag {
            "-v" | "--volumes" => {
                Some("what a cell keeps in memory goes with it: leave the flag out")
            }
            "-a" | "--all" => Some("name what is meant: `aurae ps -a -o name` lists it"),
            _ => None,
        },
        "top" => match flag {
            "--no-stream" => Some("`--once` prints it once"),
            "-d" | "--delay" => Some("`--interval 5s` says how often"),
            _ => None,
        },
        _ => None,
    }
}

fn of_a_run(flag: &str) -> Option<&'static str> {
    Some(match flag {
        "--restart" => {
            "`aurae schedule now --restart always -- PROGRAM` starts it again when it has ended, \
             and after a reboot"
        }
        "--entrypoint" => "the program is what follows `--`",
        "--mac-address" => "the node gives each cell its hardware address: leave the flag out",
        "-P" => "name the ports: `-p 8080:80` leads the node's port 8080 to the cell's 80",
        "-p" => "`--property NAME=VALUE` sets a property in systemd's words",
        "-h" => "`--hostname NAME` names the cell for its programs",
        "--link" => "`--add-host NAME:ADDRESS` gives an address a name",
        "--unit" => "`--name NAME` names it",
        "--slice" => "`--cell CELL` runs it in a cell",
        "--pty" => "`-it` gives it your terminal",
        "--pipe" => "`-i` hands standard input over",
        "--scope" | "--wait" => "it is attached unless `-d` says otherwise: leave the flag out",
        "--same-dir" => "`-w $PWD` sets the working directory; `--read $PWD` lets the folder in",
        "--setenv" => "`-e KEY=VALUE` sets a variable",
        "--uid" => "`--user USER` runs it as that user",
        "--gid" => "`--group GROUP` runs it with that group",
        _ => return None,
    })
}

fn of_a_cell(flag: &str) -> Option<&'static str> {
    Some(match flag {
        "-v" | "--volume" | "--mount" | "--bind" | "-B" => MOUNT,
        "--pid" | "--ipc" | "--uts" | "--userns" | "--cgroupns" => SHARE,
        "--privileged" => {
            "no flag gives everything: `--cap-add ALL`, `--all-devices`, `--unmasked`, \
             `--seccomp unconfined`, `--share` and `--allow-new-privileges` give a part each"
        }
        "--read-only" => "the root is read-only already: leave the flag out",
        "--init" => "every cell has an init already: leave the flag out",
        "--security-opt" => {
            "`--seccomp FILE`, `--apparmor PROFILE`, `--selinux LABEL`, `--selinux-files LABEL`, \
             `--cap-drop`, `--allow-new-privileges`, `--mask` and `--unmasked` say it one by one"
        }
        "--systemd" => "`--delegate-cgroup` lets a main process make cgroups",
        "-m" => "`--memory SIZE` limits the memory",
        "--memory-reservation" => "`--memory-min SIZE` protects memory",
        "--memory-swap" => "`--memory-swap-max SIZE` limits swap (without the memory)",
        "-c" | "--cpu-shares" => "`--cpu-weight NUMBER` shares CPU time",
        "--cpu-quota" => "`--cpus NUMBER` limits CPU time",
        "--cpuset" => "`--cpuset-cpus CPUS` chooses CPUs",
        "--pids" | "--tasks-max" => "`--pids-limit NUMBER` limits processes",
        _ => return None,
    })
}

fn of_a_list(flag: &str) -> Option<&'static str> {
    Some(match flag {
        "--no-trunc" => "`-o wide` shows whole commands",
        "-f" | "--filter" => "`-l app=web` selects by label; a cell's name shows what is in it",
        "--format" => "`-o json` prints everything, for jq; `-o name` names alone",
        "-n" | "--namespace" => "`--tenant TENANT` shows another tenant's",
        "-w" => "`aurae ps --watch` goes on with every change",
        _ => return None,
    })
}

fn of_logs(flag: &str) -> Option<&'static str> {
    Some(match flag {
        "-u" | "--unit" | "-c" | "--container" => {
            "give the executable's name alone: `aurae logs web/nginx`"
        }
        "-p" | "--previous" => "a name's last run alone is kept",
        "-r" | "--reverse" => "lines come in order; `--tail NUMBER` shows the last ones",
        "-t" => "`--timestamps` shows the time before each line",
        _ => return None,
    })
}
