// SPDX-License-Identifier: Apache-2.0
//! Stories of logins on a Debian disk under auraed: systemd's own logind and `pam_systemd` ask the
//! daemon for scopes, and neither's death loses a session. Told in the chapter `debian`.

use std::time::Duration;

use anyhow::{Result, ensure};
use testkit::node::Node;

use crate::debian::SERVING;

/// An ordinary user who may come in by a key.
const USER: &str = "id story >/dev/null 2>&1 || { \
    useradd -m -s /bin/bash story && rm -f /root/key && \
    ssh-keygen -q -t ed25519 -N '' -f /root/key && \
    install -d -m 700 -o story -g story /home/story/.ssh && \
    install -m 600 -o story -g story /root/key.pub /home/story/.ssh/authorized_keys; }";

/// Words that scripts use: `come_in`: a login with a terminal that stays, until it is its `sleep`;
/// `session`: the number of the user's one; `until_gone`: waits until the user has none.
const WORDS: &str = r#"
come_in() {
    rm -f /home/story/dir
    setsid ssh -tt -q -i /root/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
        story@127.0.0.1 'tty > ~/tty; echo "$XDG_SESSION_ID" > ~/id; \
        echo "$XDG_RUNTIME_DIR" > ~/dir; exec sleep 1000' > /root/ssh.log 2>&1 < /dev/null &
    for try in $(seq 300); do
        test -s /home/story/dir && pgrep -u story -x sleep >/dev/null && return; sleep 0.1
    done
    cat /root/ssh.log; systemctl status systemd-logind; journalctl -n 30 --no-pager; return 1
}
session() { loginctl --no-legend --no-pager list-sessions | awk '$3 == "story" { print $1 }'; }
until_gone() {
    for try in $(seq 300); do test -z "$(session)" && return; sleep 0.1; done
    loginctl --no-pager session-status $(session); return 1
}
until_logind() {
    for try in $(seq 300); do loginctl --no-legend list-sessions >/dev/null 2>&1 && return; sleep 0.1; done
    systemctl status systemd-logind; return 1
}
"#;

/// How long a script may take on a busy machine: what it waits for it looks at 300 times.
const LONG: Duration = Duration::from_secs(400);

fn tell(node: &Node, script: &str) -> Result<String> {
    let finished = node.start(&format!("{WORDS}\n{script}"))?;
    let finished = finished.finish_within(LONG)?;
    let out = String::from_utf8_lossy(&finished.out).into_owned();
    let (status, err) = (finished.status, String::from_utf8_lossy(&finished.err));
    ensure!(status == 0, "{script}\nended with {status}\n{out}{err}");
    Ok(out)
}

/// The sessions of the user, and the processes in their scopes.
const SEEN: &str = "id=$(session); echo $id; loginctl show-session $id -p Scope -p Leader -p State; \
    sort -n /sys/fs/cgroup/user.slice/user-$(id -u story).slice/session-$id.scope/cgroup.procs";

/// systemd-logind.service(8), pam_systemd(8).
pub(crate) fn comes_in(node: &mut Node) -> Result<()> {
    node.sh(USER)?;
    tell(node, "come_in")?;
    let uid = node.sh("id -u story")?;
    let uid = uid.trim();
    let dir = node.sh("cat /home/story/dir")?;
    ensure!(
        dir.trim() == format!("/run/user/{uid}"),
        "XDG_RUNTIME_DIR is {dir}"
    );
    node.sh(&format!(
        "test \"$(stat -c %U:%a /run/user/{uid})\" = story:700 && findmnt -t tmpfs /run/user/{uid}"
    ))?;
    let id = tell(node, "session")?;
    let id = id.trim();
    ensure!(!id.is_empty(), "loginctl lists no session of the user");
    ensure!(
        node.sh("cat /home/story/id")?.trim() == id,
        "XDG_SESSION_ID"
    );
    let shown = node.sh(&format!(
        "loginctl show-session {id} -p Name -p Scope -p Type -p Class -p State -p Remote"
    ))?;
    for line in [
        "Name=story",
        &format!("Scope=session-{id}.scope"),
        "Type=tty",
        "Class=user",
        "State=active",
    ] {
        ensure!(shown.lines().any(|it| it == line), "no {line} in {shown}");
    }
    node.sh(&format!(
        "set -e; \
         systemctl is-active -q session-{id}.scope user-{uid}.slice user-runtime-dir@{uid}.service; \
         pid=$(pgrep -u story -x sleep); \
         grep -qx 0::/user.slice/user-{uid}.slice/session-{id}.scope /proc/$pid/cgroup; \
         loginctl --no-pager user-status story | grep -q session-{id}.scope"
    ))?;
    // What the user's slice may use is changed, and lifted, while the session is in it.
    node.sh(&format!(
        "set -e; limit=/sys/fs/cgroup/user.slice/user-{uid}.slice/pids.max; was=$(cat $limit); \
         systemctl set-property --runtime user-{uid}.slice TasksMax=77; \
         until test $(cat $limit) = 77; do sleep 0.1; done; \
         rm -r /run/systemd/system.control/user-{uid}.slice.d; systemctl daemon-reload; \
         until test $(cat $limit) = $was; do sleep 0.1; done"
    ))
    .map(drop)
}

/// Each process of the machine is an object's (`aurae ps --unowned`).
pub(crate) fn everything_has_an_owner(node: &mut Node) -> Result<()> {
    let unowned = node.sh("aurae ps --unowned -o json")?;
    ensure!(unowned.trim() == "{}", "these have no owner:\n{unowned}");
    // A process that an administrator has put elsewhere is named.
    node.sh(
        "mkdir /sys/fs/cgroup/stray; sleep 1000 & echo $! > /sys/fs/cgroup/stray/cgroup.procs",
    )?;
    let unowned = node.sh("aurae ps --unowned")?;
    ensure!(
        unowned.contains("/stray") && unowned.contains("sleep 1000"),
        "the stray one is not named:\n{unowned}"
    );
    node.sh("echo 1 > /sys/fs/cgroup/stray/cgroup.kill; \
         until rmdir /sys/fs/cgroup/stray 2>/dev/null; do sleep 0.1; done")
        .map(drop)
}

pub(crate) fn outlives_both(node: &mut Node) -> Result<()> {
    let before = tell(node, SEEN)?;
    tell(
        node,
        "pkill -KILL -x systemd-logind; until_logind; for try in $(seq 300); do \
         systemctl is-active -q systemd-logind && exit 0; sleep 0.1; done; \
         systemctl status systemd-logind; exit 1",
    )?;
    let after = tell(node, SEEN)?;
    ensure!(
        before == after,
        "logind's death: before\n{before}\nafter\n{after}"
    );
    tell(
        node,
        &format!("pkill -KILL -f '[s]erve .*--init-fd'; {SERVING}; until_logind"),
    )?;
    let after = tell(node, SEEN)?;
    ensure!(
        before == after,
        "the daemon's death: before\n{before}\nafter\n{after}"
    );
    Ok(())
}

pub(crate) fn goes(node: &mut Node) -> Result<()> {
    let uid = node.sh("id -u story")?;
    let uid = uid.trim();
    // Logged out.
    tell(node, "pkill -u story -x sleep; until_gone")?;
    // logind keeps the user for ten seconds more (`UserStopDelaySec=`).
    tell(
        node,
        &format!(
            "for try in $(seq 600); do \
             ls -d /sys/fs/cgroup/user.slice/user-{uid}.slice/session-*.scope 2>/dev/null || \
             {{ findmnt /run/user/{uid} || exit 0; }}; sleep 0.1; done; exit 1"
        ),
    )?;
    // Logged out while there is no daemon: logind hears of it from the next one.
    tell(node, "come_in")?;
    tell(
        node,
        &format!(
            "pkill -KILL -f '[s]erve .*--init-fd'; pkill -u story -x sleep; {SERVING}; until_gone"
        ),
    )?;
    // Thrown out.
    tell(
        node,
        "come_in && loginctl terminate-session $(session) && until_gone && \
         ! pgrep -u story -x sleep",
    )?;
    let failed = node.sh("systemctl list-units --failed --no-legend --plain")?;
    ensure!(failed.trim().is_empty(), "these failed: {failed}");
    Ok(())
}

/// A getty whose main process is moved into the session's scope: the unit still ends it.
pub(crate) fn at_a_terminal(node: &mut Node) -> Result<()> {
    node.sh("mkdir -p /run/systemd/system/getty@tty5.service.d; \
         printf '[Service]\\nExecStart=\\nExecStart=-/sbin/agetty -a story - linux\\n' \
         > /run/systemd/system/getty@tty5.service.d/login.conf; \
         systemctl daemon-reload && systemctl start getty@tty5")?;
    // The session is listed before the job of its scope has moved the getty.
    tell(
        node,
        "moved() { grep -qs session- \
             /proc/$(systemctl show -p MainPID --value getty@tty5)/cgroup; }; \
         for try in $(seq 300); do test -n \"$(session)\" && moved && break; sleep 0.1; done; \
         loginctl show-session $(session) -p TTY -p Seat -p Scope && \
         test \"$(loginctl show-session $(session) -p TTY --value)\" = tty5 && moved",
    )?;
    tell(
        node,
        "systemctl stop getty@tty5 && until_gone && ! pgrep -u story; \
         rm -r /run/systemd/system/getty@tty5.service.d; systemctl daemon-reload",
    )
    .map(drop)
}
