// SPDX-License-Identifier: Apache-2.0
//! The last words of containers on a real node (Kubernetes' termination messages): of a file, of
//! the log, of hostile containers, and over the death of the daemon.

use api::pod::v0 as wire;
use api::pod::v0::container_status::State;
use rustix::process::{Pid, Signal, kill_process};
use wire::{Phase, WaitFor};

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{
    EXITED, IMAGE, assert_clean, busybox, container, exec, get, people, remove, run, spec, until,
};

fn saying(name: &str, script: &str) -> wire::Container {
    wire::Container {
        termination_message_path: "/run/word".to_owned(),
        ..container(name, script)
    }
}

fn word(status: &wire::PodStatus) -> &str {
    let first = status.containers.first();
    first.map_or("", |it| it.termination_message.as_str())
}

crate::pods::in_each_class! {
    a_last_word_is_of_the_file_or_of_the_log_and_bounded_whatever_a_container_does,
    a_last_word_outlives_the_daemon_and_the_next_run,
}

async fn a_last_word_is_of_the_file_or_of_the_log_and_bounded_whatever_a_container_does(
    node: TestNode,
) {
    let (_, ann) = people(&node).await;
    crate::images::import(&ann, &busybox()).await.unwrap();
    // By default where Kubernetes has it, also in a root that can't be written, and of any user.
    let mut of_image = container("app", "echo of an image > /dev/termination-log");
    of_image.image = IMAGE.to_owned();
    of_image.read_only = true;
    of_image.user = "1000".to_owned();
    of_image.cwd = "/data".to_owned();
    of_image.mounts.clear();
    let status = run(&ann, "image", spec(vec![of_image]), WaitFor::Ended).await;
    let status = status.unwrap();
    assert_eq!(status.phase(), Phase::Succeeded, "{status:#?}");
    assert_eq!(word(&status), "of an image\n");
    // It takes all that it gets, and can put nothing else in the file's place.
    let greedy = "dd if=/dev/zero of=/run/word bs=1M count=64 2>/dev/null && exit 9
        [ $(stat -c %s /run/word) -le 1048576 ] || exit 8
        rm /run/word 2>/dev/null && exit 7
        ln -s /etc/passwd /run/other; mv /run/other /run/word 2>/dev/null && exit 6
        printf 'the end' | dd of=/run/word bs=1 seek=8192 conv=notrunc 2>/dev/null
        truncate -s 8199 /run/word; exit 3";
    let mut greedy = saying("app", greedy);
    greedy.add_capabilities = vec!["SYS_ADMIN".to_owned()];
    let status = run(&ann, "greedy", spec(vec![greedy]), WaitFor::Ended).await;
    let status = status.unwrap();
    let how = Some(api::runtime::v0::exit::How::Code(3));
    assert_eq!(crate::pods::how(&status), how, "{status:#?}");
    assert_eq!(word(&status).len(), 4096);
    assert!(word(&status).ends_with("\0the end"));
    // What fails without a word has the end of its log, where that is asked for.
    let lines = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo line $i; done;";
    let of_log = |path: &str, end: &str, from_log: bool| {
        let mut app = saying("app", &format!("{lines} {end}"));
        app.termination_message_from_log = from_log;
        (path.to_owned(), spec(vec![app]))
    };
    for ((path, spec), expected) in [
        (of_log("log", "exit 1", true), Some("line 121\n")),
        (of_log("file", "echo word > /run/word; exit 1", true), None),
        (of_log("well", "exit 0", true), Some("")),
        (of_log("no", "exit 1", false), Some("")),
    ] {
        let status = run(&ann, &path, spec, WaitFor::Ended).await.unwrap();
        match expected {
            None => assert_eq!(word(&status), "word\n", "{path}"),
            Some("") => assert_eq!(word(&status), "", "{path}"),
            Some(first) => {
                assert!(word(&status).starts_with(first), "{}", word(&status));
                assert!(word(&status).ends_with("line 200\n"));
            }
        }
        remove(&ann, &path, false).await.unwrap();
    }
    for path in ["image", "greedy"] {
        remove(&ann, path, false).await.unwrap();
    }
    assert_clean(&node);
    node.stop();
}

/// How long the second run sleeps: no other program of this machine has such an argument.
const SLEEPS: &str = "98765";

/// Kills the program that sleeps so long, while the daemon sees nothing.
fn kill_unseen(node: &TestNode) {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    let group = node.with_pods().group();
    let group = format!("{}/", group.file_name().unwrap().to_string_lossy());
    let sleeps = |pid: &i32| {
        // Other nodes have such programs, too.
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if !groups.contains(&group) {
            return false;
        }
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(SLEEPS.as_bytes())
    };
    let found: Vec<_> = pids.filter(sleeps).collect();
    let [found] = *found.as_slice() else {
        panic!("not one program sleeps: {found:?}");
    };
    let of = |pid: i32| Pid::from_raw(pid).unwrap();
    kill_process(of(node.daemon().parse().unwrap()), Signal::STOP).unwrap();
    kill_process(of(found), Signal::KILL).unwrap();
}

async fn a_last_word_outlives_the_daemon_and_the_next_run(mut node: TestNode) {
    let (_, ann) = people(&node).await;
    let again = format!(
        "if [ -e /mnt/again ]; then [ -s /run/word ] && exit 9; exec sleep {SLEEPS}; fi
        touch /mnt/again; echo first > /run/word; exit 1"
    );
    let spec = wire::PodSpec {
        restart_policy: wire::RestartPolicy::Always.into(),
        ..spec(vec![saying("app", &again)])
    };
    run(&ann, "web", spec, WaitFor::Created).await.unwrap();
    let second = |status: &wire::PodStatus| {
        let app = &status.containers[0];
        app.restarts == 1 && app.state() == State::Running
    };
    let status = until(&ann, "web", "started again", second).await;
    assert_eq!(word(&status), "first\n");
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    let status = get(&ann, "web").await;
    assert!(second(&status), "{status:#?}");
    assert_eq!(word(&status), "first\n");
    // This one ends while no daemon looks.
    let says = "echo second > /run/word";
    assert_eq!(exec(&ann, "web/app", says).await, EXITED);
    kill_unseen(&node);
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    let said = |status: &wire::PodStatus| word(status) == "second\n";
    let status = until(&ann, "web", "told the second word", said).await;
    let exit = status.containers[0].last_exit.as_ref().unwrap().how;
    assert_eq!(exit, Some(api::runtime::v0::exit::How::Signal(9)));
    remove(&ann, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}
