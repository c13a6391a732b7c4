// SPDX-License-Identifier: Apache-2.0
//! Crontabs as schedules.

use super::*;

fn imported(text: &str, owner: Owner, zone: Option<&str>) -> String {
    let origin = Origin {
        name: "crontab".to_owned(),
        zone: zone.map(str::to_owned),
        ..origin()
    };
    let text = crontab(text, owner, &origin).unwrap();
    assert_right(&text);
    // Comments as one line.
    text.replace("\n//   ", " ")
}

#[test]
fn an_entry_of_a_crontab_is_a_schedule_with_its_pattern() {
    let text = imported(
        "# edit me\nSHELL=/bin/bash\nPATH = \"/usr/local/bin:/usr/bin\"\n\n\
         */5 * * * *\tcd /srv && ./sync.sh --all\n@daily /usr/local/bin/backup\n\
         30 4 1-7 * mon [ -x /opt/a ] && /opt/a\n",
        Owner::User,
        None,
    );
    assert_has(
        &text,
        &[
            "// Imported from crontab by `aurae import`.",
            "name: \"sync/main\"",
            "argv: [\"/bin/bash\", \"-c\", \"cd /srv && ./sync.sh --all\"]",
            "env: { PATH: \"/usr/local/bin:/usr/bin\" }",
            "when: { cron: { pattern: \"*/5 * * * *\" } }",
            "name: \"backup\"",
            "when: { cron: { pattern: \"0 0 * * *\" } }",
            "pattern: \"30 4 1-7 * mon\"",
            "name: \"a\"",
        ],
    );
}

#[test]
fn the_machines_crontab_names_users_and_means_its_zone() {
    let text = imported(
        "17 * * * * root run-parts --report /etc/cron.hourly\n\
         CRON_TZ=UTC\n09,39 * * * * www-data /usr/lib/php/sessionclean\n",
        Owner::System,
        Some("Europe/Berlin"),
    );
    assert_has(
        &text,
        &[
            "name: \"run-parts\"",
            "zone: \"Europe/Berlin\"",
            "user: \"www-data\"",
            "zone: \"UTC\"",
        ],
    );
    assert!(!text.contains("user: \"root\""), "{text}");
}

#[test]
fn what_of_a_crontab_a_schedule_cant_have_is_a_comment_with_its_line() {
    let text = imported(
        "MAILTO=ann@example.com\n@reboot /opt/once\n0 5 * * * mail ann%hello%world\n\
         0 6 * * * date +\\%F\nnonsense\n0~59 * * * * /opt/any\n@never x\n0 0 * * *\n",
        Owner::User,
        None,
    );
    assert_has(
        &text,
        &[
            "// crontab:1: MAILTO=ann@example.com: no mail is sent",
            "// crontab:2: @reboot: it runs when it is declared",
            "// crontab:3: what follows `%` is standard input",
            "argv: [\"/bin/sh\", \"-c\", \"mail ann\"]",
            "\"date +%F\"",
            "// crontab:5: `nonsense`: it has no five fields of a time",
            "// crontab:6: `0~59 * * * * /opt/any`: a pattern has no times at random",
            "// crontab:7: `@never x`: @never is no word of a crontab",
            "// crontab:8: `0 0 * * *`: it has no command",
        ],
    );
    assert_eq!(
        crontab("# none\n", Owner::User, &origin()),
        Err(NotImported::NoEntry)
    );
}

#[test]
fn a_crontabs_text_ends_no_string_and_no_comment() {
    let text = imported(
        "0 0 * * * echo \"`id`\" ${HOME} '*/' \u{2028} \\u0000\nMAILTO=*/ evil()\n* \u{85} x\n",
        Owner::User,
        None,
    );
    assert!(text.contains("echo \\\"`id`\\\" ${HOME} '*/'"), "{text}");
}
