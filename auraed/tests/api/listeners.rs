// SPDX-License-Identifier: Apache-2.0
//! Agents that decide on system calls of programs (`SCMP_ACT_NOTIFY`): what they are told, what
//! they decide, whose they may be, and what becomes of programs when one isn't there, takes
//! nothing, or ends.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use api::runtime::v0 as wire;
use api::status::{Failure, Reason, from_status};
use kernel::seccomp::Arch;
use kernel::seccomp::listener::{Call, Word, answer, receive};
use kernel::seqpacket;
use serde_json::Value;

use crate::caller::Person;
use crate::containers::{
    BOX, WELL, at, cast, cell_of, container, request, run_in, script, with_image,
};

/// What is heard is heard by then.
const SOON: Duration = Duration::from_secs(30);
/// `EXDEV`: by itself mkdir(2) has no such.
const UNUSUAL: i32 = 18;

/// What an agent does with the calls of a program.
#[derive(Clone, Copy, PartialEq)]
enum Habit {
    /// Refuses the first, lets the others through.
    RefusesTheFirst,
    /// Closes the listener with the first.
    LeavesAtTheFirst,
    /// Never says anything.
    IsSilent,
}

/// An agent of the node. Each program that it gets has a thread.
struct Agent {
    socket: PathBuf,
    told: Receiver<Value>,
    calls: Receiver<Call>,
}

impl Agent {
    fn at(socket: PathBuf, habit: Habit) -> Agent {
        let listener = UnixListener::bind(&socket).unwrap();
        let (tell, told) = channel();
        let (call, calls) = channel();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut text = vec![0; 8192];
                let heard = seqpacket::receive(connection.unwrap(), &mut text).unwrap();
                let mut heard = heard.unwrap();
                let document = serde_json::from_slice(text.get(..heard.length).unwrap()).unwrap();
                let theirs = heard.fds.remove(0);
                assert!(heard.fds.is_empty());
                let call = call.clone();
                std::thread::spawn(move || decide(theirs, habit, &call));
                let _over = tell.send(document);
            }
        });
        Agent {
            socket,
            told,
            calls,
        }
    }

    fn told(&self) -> Value {
        self.told.recv_timeout(SOON).unwrap()
    }

    fn call(&self) -> Call {
        self.calls.recv_timeout(SOON).unwrap()
    }
}

fn decide(listener: OwnedFd, habit: Habit, calls: &Sender<Call>) {
    let mut is_first = true;
    // An error: nobody is left to ask.
    while let Ok(call) = receive(&listener) {
        let name = Arch::NATIVE.name(u32::try_from(call.number).unwrap());
        assert!(
            name.is_some_and(|name| name.starts_with("mkdir")),
            "{name:?}"
        );
        let word = match habit {
            Habit::RefusesTheFirst if is_first => Some(Word::Fail(UNUSUAL)),
            Habit::RefusesTheFirst => Some(Word::GoOn),
            Habit::LeavesAtTheFirst => return,
            Habit::IsSilent => None,
        };
        is_first = false;
        let _over = calls.send(call);
        if let Some(word) = word {
            // An error: its caller was killed.
            let _gone = answer(&listener, call.id, word);
        }
    }
}

/// Asks the agent about new folders. The program itself may not say `sendmsg`, as few that have a
/// list of what they may do.
fn profile(socket: &Path) -> String {
    serde_json::json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "listenerPath": socket,
        "listenerMetadata": "of the test",
        "syscalls": [
            { "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_NOTIFY" },
            { "names": ["sendmsg", "recvmsg"], "action": "SCMP_ACT_ERRNO" }
        ]
    })
    .to_string()
}

fn asking(socket: &Path, mut spec: wire::ExecutableSpec) -> wire::ExecutableSpec {
    spec.seccomp = Some(wire::Seccomp {
        custom: profile(socket),
        ..Default::default()
    });
    spec
}

/// The second of two folders can be made, as the agent says.
const TWICE: &str = "! busybox mkdir /tmp/a && [ ! -d /tmp/a ] && busybox mkdir /tmp/b && \
                     [ -d /tmp/b ]";

/// What the shell says of the first, and the program of the second.
const MADE: &str = "mkdir: can't create directory '/tmp/a': Invalid cross-device link\nmade\n";

async fn tried(person: &Person, spec: wire::ExecutableSpec) -> Result<wire::exit::How, Failure> {
    let how = run_in(person, cell_of(container()), spec).await;
    how.map_err(|status| from_status(&status))
}

#[tokio::test]
async fn an_agent_decides_on_calls_and_is_told_whose_they_are() {
    let Some((node, administrator, _)) = cast().await else {
        return;
    };
    with_image(&administrator).await;
    let agent = Agent::at(node.folder().join("agent"), Habit::RefusesTheFirst);
    for no_new_privileges in [None, Some(false)] {
        let mut spec = asking(&agent.socket, script(TWICE));
        spec.no_new_privileges = no_new_privileges;
        assert_eq!(tried(&administrator, spec).await.unwrap(), WELL);
        let (told, first, second) = (agent.told(), agent.call(), agent.call());
        assert_eq!(told["fds"], serde_json::json!(["seccompFd"]));
        assert_eq!(told["metadata"], "of the test");
        let state = &told["state"];
        assert_eq!(state["annotations"]["aurae.path"], "box/main");
        assert_eq!(state["annotations"]["aurae.tenant"], "system");
        assert_eq!(state["id"].as_str().map(str::len), Some(32), "{state}");
        // The shell's children ask, in the numbers of the node: neither is the program itself.
        let pid = told["pid"].as_u64().unwrap();
        assert!(pid > 1 && pid == state["pid"].as_u64().unwrap());
        for call in [first, second] {
            assert!(u64::from(call.pid) > 1 && u64::from(call.pid) != pid);
        }
    }
    let how = tried(&administrator, script("busybox mkdir /tmp/a")).await;
    assert_eq!(how.unwrap(), WELL, "the control: without an agent");
}

/// The daemon's death is none of the agent's.
#[tokio::test]
async fn an_agent_outlives_the_daemon_and_no_cell_init_names_one() {
    let Some((mut node, administrator, _)) = cast().await else {
        return;
    };
    with_image(&administrator).await;
    let agent = Agent::at(node.folder().join("agent"), Habit::RefusesTheFirst);
    let waits = "until [ -e /tmp/go ]; do busybox sleep 0.1; done";
    let text = format!("{waits}; {TWICE} && echo made; while :; do busybox sleep 0.1; done");
    let mut asked = request("box/main", asking(&agent.socket, script(&text)));
    asked.own_cell = Some(cell_of(container()));
    asked.wait_for = wire::WaitFor::Started.into();
    let mut runtime = administrator.node.runtime();
    runtime.run_executable(asked).await.unwrap();
    assert_eq!(
        agent.told()["state"]["annotations"]["aurae.path"],
        "box/main"
    );
    node.kill_daemon();
    let administrator = node.administrator().await;
    // What the cell-init says of an agent doesn't count: it could name any socket.
    let word = |text: &str| wire::ExecutableSpec {
        argv: ["/bin/busybox", "sh", "-c", text]
            .map(str::to_owned)
            .to_vec(),
        ..Default::default()
    };
    let go = request("box/go", word("echo >/tmp/go"));
    let refused = administrator.node.runtime().run_executable(go).await;
    let error = from_status(&refused.unwrap_err());
    let field = Some("executable.spec.seccomp");
    assert_eq!(
        (error.reason, error.field.as_deref()),
        (Some(Reason::WrongState), field)
    );
    let mut go = request("box/go", word("echo >/tmp/go"));
    let spec = go.executable.as_mut().and_then(|it| it.spec.as_mut());
    spec.unwrap().seccomp = Some(wire::Seccomp {
        custom: r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#.to_owned(),
        ..Default::default()
    });
    administrator
        .node
        .runtime()
        .run_executable(go)
        .await
        .unwrap();
    let (first, second) = (agent.call(), agent.call());
    assert_ne!(first.id, second.id);
    crate::pods::until_logged(&administrator, "box/main", MADE).await;
    // What is begun beside it has a filter of its own, and so a listener.
    let spec = word("busybox mkdir /tmp/c");
    let mut runtime = administrator.node.runtime();
    let asked = request("box/beside", asking(&agent.socket, spec));
    let ended = runtime.run_executable(asked).await.unwrap().into_inner();
    assert_eq!(ended.exit.unwrap().how.unwrap(), wire::exit::How::Code(1));
    assert_eq!(
        agent.told()["state"]["annotations"]["aurae.path"],
        "box/beside"
    );
}

#[tokio::test]
async fn an_agent_that_is_missing_takes_nothing_or_ends_costs_its_own_programs_alone() {
    let Some((node, administrator, ann)) = cast().await else {
        return;
    };
    with_image(&administrator).await;
    // It isn't there: the program doesn't begin without it.
    let socket = node.folder().join("late");
    let spec = asking(&socket, script("echo begun"));
    let error = tried(&administrator, spec).await.unwrap_err();
    assert_eq!(error.reason, Some(Reason::WrongState), "{error:?}");
    let field = "executable.spec.seccomp.custom";
    assert_eq!(error.field.as_deref(), Some(field));
    assert!(error.message.contains("late: No such file"), "{error:?}");
    // It takes no connection: its queue is full, and no program waits for it.
    let full = node.folder().join("full");
    let _listener = queue_of_one(&full);
    let mut refused = 0;
    for _ in 0..4 {
        match tried(&administrator, asking(&full, script("true"))).await {
            Ok(how) => assert_eq!(how, WELL),
            Err(error) => {
                assert_eq!(error.reason, Some(Reason::WrongState), "{error:?}");
                refused += 1;
            }
        }
    }
    assert!((2..4).contains(&refused), "{refused} of 4");
    // It hears and says nothing: the call waits, the program can be ended, and others don't care.
    let silent = Agent::at(node.folder().join("silent"), Habit::IsSilent);
    let mut asked = request(
        "box/main",
        asking(&silent.socket, script("busybox mkdir /tmp/a")),
    );
    asked.own_cell = Some(cell_of(container()));
    asked.wait_for = wire::WaitFor::Started.into();
    let mut runtime = administrator.node.runtime();
    runtime.run_executable(asked).await.unwrap();
    silent.call();
    assert_eq!(
        tried(&ann, script("busybox mkdir /tmp/a")).await.unwrap(),
        WELL
    );
    let stop = wire::StopRequest {
        r#ref: at("box/main"),
        grace: Some(prost_types::Duration {
            seconds: 0,
            nanos: 100_000_000,
        }),
    };
    runtime.stop(stop).await.unwrap();
    // It ends: calls that it would decide on aren't carried out.
    let leaving = Agent::at(node.folder().join("leaving"), Habit::LeavesAtTheFirst);
    let text = "! busybox mkdir /tmp/a && ! busybox mkdir /tmp/b && [ ! -d /tmp/a ]";
    let spec = asking(&leaving.socket, script(text));
    assert_eq!(tried(&administrator, spec).await.unwrap(), WELL);
    leaving.told();
}

/// One connection waits to be taken beside the one that is next.
fn queue_of_one(path: &Path) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&socket, 1).unwrap();
    socket
}

#[tokio::test]
async fn whose_calls_an_agent_hears_is_for_administrators_to_say() {
    let Some((node, administrator, ann)) = cast().await else {
        return;
    };
    let agent = Agent::at(node.folder().join("agent"), Habit::RefusesTheFirst);
    let field = Some("executable.spec.seccomp.custom");
    let closed = serde_json::json!({
        "defaultAction": "SCMP_ACT_ERRNO", "listenerPath": agent.socket,
        "syscalls": [{ "names": ["mkdir"], "action": "SCMP_ACT_NOTIFY" }]
    });
    let with = |custom: &Value| {
        let mut spec = script("true");
        spec.seccomp = Some(wire::Seccomp {
            custom: custom.to_string(),
            ..Default::default()
        });
        spec
    };
    let error = tried(&ann, with(&closed)).await.unwrap_err();
    assert_eq!(error.reason, Some(Reason::PermissionDenied), "{error:?}");
    assert_eq!(error.field.as_deref(), field);
    with_image(&administrator).await;
    let changed = |key: &str, value: Value| {
        let mut changed = closed.clone();
        changed[key] = value;
        changed
    };
    for (wrong, said) in [
        (changed("listenerPath", "".into()), "no listenerPath"),
        (changed("listenerPath", "agent".into()), "absolute"),
        (
            changed("defaultAction", "SCMP_ACT_NOTIFY".into()),
            "defaultAction",
        ),
        (
            changed(
                "syscalls",
                serde_json::json!([{ "names": ["sendmsg"], "action": "SCMP_ACT_NOTIFY" }]),
            ),
            "sendmsg",
        ),
    ] {
        let error = tried(&administrator, with(&wrong)).await.unwrap_err();
        assert_eq!(error.reason, Some(Reason::InvalidField), "{error:?}");
        assert_eq!(error.field.as_deref(), field, "{said}");
        assert!(error.message.contains(said), "{error:?}");
    }
    assert_eq!(BOX, container().image);
    assert!(
        agent.told.try_recv().is_err(),
        "it was told of none of these"
    );
}
