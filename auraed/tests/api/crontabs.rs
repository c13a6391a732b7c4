// SPDX-License-Identifier: Apache-2.0
//! Users' crontabs on a real node, in a folder as Debian has it, and mail of what they print.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use api::schedule::v0 as wire;
use wire::history_entry::Outcome;

use crate::caller::Person;
use crate::node::TestNode;
use crate::schedule::{self, history, schedules};

/// Debian's user without rights.
const NOBODY: u32 = 65534;
const SOON: Duration = Duration::from_secs(30);

/// Puts each mail, with the words that it was called with, in a file of its own.
const SENDMAIL: &str = "#!/bin/sh\nfile=$(mktemp \"${0%/*}/box/XXXXXX\")\n{ echo \"$(id -un) \
                        $*\"; cat; } > \"$file\"\n";

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// A crontab as crontab(1) leaves it.
fn put(folder: &Path, user: &str, uid: u32, text: &str) {
    let new = folder.join("tmp.new");
    std::fs::write(&new, text).unwrap();
    set_mode(&new, 0o600);
    chown(&new, Some(uid), None).unwrap();
    std::fs::rename(new, folder.join(user)).unwrap();
}

/// The one schedule whose name begins so.
async fn named(person: &Person, start: &str) -> String {
    let begun = Instant::now();
    loop {
        let request = wire::ListRequest::default();
        let all = schedules(person).list(request).await.unwrap().into_inner();
        let mut own = all.schedules.iter().map(|it| it.name.clone());
        if let Some(name) = own.find(|name| name.starts_with(start)) {
            return name;
        }
        assert!(begun.elapsed() < SOON, "no {start}: {all:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs it now; how that ended.
async fn run(person: &Person, name: &str) -> Outcome {
    let request = wire::TriggerRequest {
        name: name.to_owned(),
        ..Default::default()
    };
    schedules(person).trigger(request).await.unwrap();
    let begun = Instant::now();
    loop {
        if let Some(entry) = history(person, name).await.first() {
            return entry.outcome();
        }
        assert!(begun.elapsed() < SOON, "{name} doesn't end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn log(person: &Person, path: String) -> String {
    person.log_of(schedule::at(path)).await
}

fn mails(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap());
    files
        .map(|it| std::fs::read_to_string(it.path()).unwrap())
        .collect()
}

#[tokio::test]
async fn a_users_crontab_runs_as_the_user_and_its_output_is_mailed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (spool, mailer, mailbox) = (at("crontabs"), at("sendmail"), at("box"));
    set_mode(folder.path(), 0o755);
    std::fs::create_dir(&spool).unwrap();
    std::fs::create_dir(&mailbox).unwrap();
    set_mode(&mailbox, 0o777);
    std::fs::write(&mailer, SENDMAIL).unwrap();
    set_mode(&mailer, 0o755);
    let settings = [
        "cell_network.enabled=false".to_owned(),
        format!("schedule.user_crontabs={}", spool.display()),
        format!("schedule.sendmail={}", mailer.display()),
    ];
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    let Some(node) = TestNode::start_installed(folder.path(), &settings) else {
        return;
    };
    let text = "HOME=/\nMAILTO=ann@example.org\n0 0 1 1 * echo said; id -un >&2; exit 3\n";
    put(&spool, "nobody", NOBODY, text);
    put(&spool, "root", 0, "MAILTO=\"\"\n0 0 1 1 * echo quiet\n");
    // Another user's file, which says what root should do.
    put(&spool, "daemon", NOBODY, "0 0 1 1 * echo never\n");
    let ann = node.administrator().await;
    let own = named(&ann, "user-nobody-").await;
    assert_eq!(run(&ann, &own).await, Outcome::Failed);
    let said = log(&ann, format!("{own}-1/main")).await;
    assert!(
        said.contains("said\n") && said.contains("nobody\n"),
        "{said}"
    );
    let [mail] = &mails(&mailbox)[..] else {
        panic!("{:?}", mails(&mailbox));
    };
    let called = "nobody -FCronDaemon -i -B8BITMIME -oem ann@example.org\nFrom: root";
    assert!(mail.starts_with(called), "{mail}");
    for part in [
        "\nTo: ann@example.org\n",
        "\nSubject: Cron <nobody@",
        "> echo said; id -un >&2; exit 3 (failed)\n",
        "\nX-Cron-Env: <MAILTO=ann@example.org>\n",
        "\n\n",
        "said\n",
        "nobody\n",
    ] {
        assert!(mail.contains(part), "no {part:?} in {mail}");
    }
    let quiet = named(&ann, "user-root-").await;
    assert_eq!(run(&ann, &quiet).await, Outcome::Succeeded);
    assert_eq!(log(&ann, format!("{quiet}-1/main")).await, "quiet\n");
    assert_eq!(mails(&mailbox).len(), 1, "MAILTO is empty");
    let begun = Instant::now();
    while !node.log().contains("belongs to user 65534") {
        assert!(begun.elapsed() < SOON, "{}", node.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Without sendmail the log says where the output is.
    std::fs::remove_file(&mailer).unwrap();
    put(&spool, "root", 0, "0 0 1 1 * echo alone\n");
    while named(&ann, "user-root-").await == quiet {
        assert!(begun.elapsed() < SOON, "{}", node.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let alone = named(&ann, "user-root-").await;
    assert_eq!(run(&ann, &alone).await, Outcome::Succeeded);
    let said = log(&ann, format!("{alone}-1/main")).await;
    assert!(
        said.starts_with("alone\ncron: not mailed to root"),
        "{said}"
    );
    assert!(said.contains(mailer.to_str().unwrap()), "{said}");
    node.stop();
}
