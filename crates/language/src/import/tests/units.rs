// SPDX-License-Identifier: Apache-2.0
//! systemd's services and timers as schedules.

use ::units::calendar::zones::UtcOnly;
use ::units::files::Memory;
use ::units::name::UnitName;
use ::units::specifier::NoHost;
use ::units::unit::{Unit, from_texts};

use super::*;

fn unit(name: &str, text: &str) -> Unit {
    let name = UnitName::parse(name).unwrap();
    let path = format!("/lib/systemd/system/{name}");
    from_texts(&name, &[(&path, text.as_bytes())], &NoHost, &UtcOnly)
}

fn imported(found: &[Unit], files: &Memory, zone: Option<&str>) -> String {
    let origin = Origin {
        name: "the units".to_owned(),
        zone: zone.map(str::to_owned),
        ..origin()
    };
    let text = units(found, files, &origin).unwrap();
    assert_right(&text);
    // Comments as one line.
    text.replace("\n//   ", " ")
}

#[test]
fn a_daemon_becomes_a_schedule_that_runs_now() {
    let nginx = unit(
        "nginx.service",
        "[Unit]\nDescription=A web server\nAfter=network-online.target\n[Service]\nType=forking\n\
         PIDFile=/run/nginx.pid\nExecStartPre=/usr/sbin/nginx -t -q\n\
         ExecStart=/usr/sbin/nginx -g 'daemon on; master_process on;'\n\
         ExecReload=/usr/sbin/nginx -s reload\nTimeoutStopSec=5\nKillMode=mixed\nNonsense=1\n\
         [Install]\nWantedBy=multi-user.target\n",
    );
    let text = imported(&[nginx], &Memory::new(), None);
    assert_has(
        &text,
        &[
            "// nginx.service: A web server",
            "nginx.service:3: After=: a schedule waits for other schedules",
            "nginx.service:5: Type=: what is started is what runs",
            "nginx.service:6: PIDFile=: what is started is the main process",
            "nginx.service:7: ExecStartPre=: a run is one program",
            "nginx.service:9: ExecReload=: send its signal by `aurae kill`",
            "nginx.service:11: KillMode=: it is ended by its stop signal",
            "nginx.service:12:1: warning: Service.Nonsense: systemd 252 has no such directive",
            "const nginx = new Executable({",
            "argv: [\"/usr/sbin/nginx\", \"-g\", \"daemon on; master_process on;\"]",
            "stopGrace: \"5s\"",
            "work: { executable: { executable: nginx, ownCell: {} } }",
            "when: { now: {} }",
        ],
    );
    assert!(!text.contains("WantedBy"), "{text}");
}

#[test]
fn each_setting_of_a_service_has_its_place() {
    let full = unit(
        "full@.service",
        "[Unit]\nStartLimitIntervalSec=1min\nStartLimitBurst=3\n[Service]\nUser=app\n\
         Group=app\nSupplementaryGroups=video tty\nWorkingDirectory=/srv\n\
         UMask=0027\nNice=-5\nOOMScoreAdjust=-200\nEnvironment=A=1 \"B=two words\"\n\
         EnvironmentFile=/etc/default/full\nEnvironmentFile=-/etc/default/none\n\
         ExecStart=/opt/full --a ${A} $OPTS ${LOST}\nLimitNOFILE=1024:65536\nLimitCORE=infinity\n\
         CapabilityBoundingSet=CAP_NET_BIND_SERVICE\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n\
         NoNewPrivileges=yes\nKillSignal=SIGINT\nTimeoutStopSec=infinity\nRestart=on-failure\n\
         RestartSec=1500ms\nMemoryMax=512M\n\
         CPUQuota=150%\nCPUWeight=20\nIOWeight=30\nTasksMax=64\nCPUAffinity=0 2-3\n\
         ProtectSystem=strict\nPrivateTmp=yes\nSystemCallFilter=@system-service\n",
    );
    let files = Memory::new().file("/etc/default/full", "OPTS=\"-v -q\"\nC=3\n");
    let text = imported(&[full], &files, None);
    assert_has(
        &text,
        &[
            "\"--a\"",
            "\"-v\"",
            "\"-q\"",
            "user: \"app\"",
            "groups: [\"video\", \"tty\"]",
            "cwd: \"/srv\"",
            "umask: 0o027",
            "nice: -5",
            "oomScoreAdj: -200",
            "B: \"two words\"",
            "C: \"3\"",
            "{ name: \"NOFILE\", soft: 1024, hard: 65536 }",
            "{ name: \"CORE\" }",
            "bounding: [\"CAP_NET_BIND_SERVICE\"]",
            "noNewPrivileges: true",
            "stopSignal: \"SIGINT\"",
            "stopGrace: \"1h\"",
            "restart: \"on_failure\"",
            "backoff: { first: \"1500ms\" }",
            "startLimit: { starts: 3, within: \"1m\" }",
            "memory: { max: 536870912 }",
            "cpu: { quota: \"150ms\", weight: 20 }",
            "io: { weight: 30 }",
            "pidsMax: 64",
            "cpuAffinity: [0, 2, 3]",
            "EnvironmentFile=: /etc/default/full is taken as it is now",
            "${LOST} is empty: nothing here sets it",
            "SystemCallFilter=: the profile of system calls",
        ],
    );
    // Every cell is so.
    assert!(
        !text.contains("ProtectSystem") && !text.contains("PrivateTmp"),
        "{text}"
    );
}

#[test]
fn a_timer_says_when_its_service_runs() {
    let service = unit(
        "backup.service",
        "[Service]\nType=oneshot\nExecStart=/opt/backup\n",
    );
    let timer = unit(
        "backup.timer",
        "[Timer]\nOnCalendar=*-*-* 04:30:00\nOnCalendar=Sat 12:00 UTC\nOnCalendar=2030-01-01\n\
         OnBootSec=5min\nOnUnitActiveSec=2h\nPersistent=yes\nRandomizedDelaySec=1h\n",
    );
    let text = imported(&[timer, service], &Memory::new(), Some("Europe/Berlin"));
    assert_has(
        &text,
        &[
            "when: { cron: { pattern: \"30 4 * * *\", zone: \"Europe/Berlin\" } }",
            "when: { cron: { pattern: \"0 12 * * 6\" } }",
            "when: { cron: { pattern: \"0 */2 * * *\" } }",
            "missed: \"run_once\"",
            "name: \"backup\"",
            "name: \"backup-2\"",
            "backup.timer:4: OnCalendar=: `2030-01-01 00:00:00`: a pattern has no years",
            "backup.timer:5: OnBootSec=: `5min`: a schedule doesn't count from the node's start",
            "backup.timer:6: OnUnitActiveSec=: `2h` counts from the last run; here by the clock",
            "RandomizedDelaySec=: a time is a time",
        ],
    );
    assert!(!text.contains("now: {}"), "{text}");
}

#[test]
fn what_is_no_service_is_refused_by_its_name() {
    let refused = |name: &str, text: &str| {
        let problem = units(&[unit(name, text)], &Memory::new(), &origin());
        problem.unwrap_err().to_string()
    };
    for (name, text, words) in [
        (
            "a.socket",
            "[Socket]\nListenStream=1\n",
            "a.socket is a socket unit",
        ),
        (
            "a.timer",
            "[Timer]\nOnBootSec=1\n",
            "a.timer starts a unit that isn't there",
        ),
        (
            "a.service",
            "[Service]\nType=oneshot\nExecStop=/x\n",
            "a.service has no ExecStart=",
        ),
    ] {
        let said = refused(name, text);
        assert!(said.starts_with(words), "{said}");
    }
}

#[test]
fn a_units_text_ends_no_string_and_no_comment() {
    let odd = unit(
        "odd-\\x2d.service",
        "[Unit]\nDescription=*/ `${evil()}` \u{2028}\n[Service]\n\
         ExecStart=/bin/echo '`${a}`' \"\\x00\" %% */ \\\\u{0}\nEnvironment=__proto__=x constructor=y\n",
    );
    let text = imported(&[odd], &Memory::new(), None);
    assert_has(&text, &["[\"__proto__\"]: \"x\"", "constructor: \"y\""]);
}
