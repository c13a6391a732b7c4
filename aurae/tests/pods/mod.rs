// SPDX-License-Identifier: Apache-2.0
//! Pods by the command line: a port of one here, and what is typed there. The containers run the
//! machine's own busybox.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::bed::{Node, node, read_line};

/// Runs a pod of one container, and waits until it is ready.
fn run(node: &Node, container: &serde_json::Value) {
    let document = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [container]},
    });
    let file = node.path("pod.yaml");
    std::fs::write(&file, document.to_string()).unwrap();
    let file = file.display().to_string();
    let ran = node.aurae(&["pod", "run", "-f", &file, "--wait", "ready"]);
    assert_eq!(ran.ok(), "web\n");
}

#[test]
fn a_port_of_a_pod_is_forwarded_to_one_here() {
    let Some(node) = node() else { return };
    let serve = "mkdir /tmp/site && echo hello > /tmp/site/page
        exec /bin/busybox httpd -f -p 8080 -h /tmp/site";
    run(
        &node,
        &serde_json::json!({
            "name": "httpd", "command": ["/bin/busybox", "sh", "-c", serve],
            "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}),
    );
    let mut forward = node.command(&["pod", "port-forward", "web", ":8080"]);
    let mut forward = forward.stderr(Stdio::piped()).spawn().unwrap();
    let said = read_line(forward.stderr.as_mut().unwrap());
    let (here, rest) = said.split_once(" leads to ").unwrap_or_default();
    assert!(rest.starts_with("port 8080 of web"), "{said}");
    let here = here.rsplit(' ').next().unwrap_or_default();
    let ask = || {
        let mut stream = TcpStream::connect(here).unwrap();
        stream.write_all(b"GET /page HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    // One connection after the other, and two at once.
    let idle = TcpStream::connect(here).unwrap();
    for _ in 0..2 {
        let answer = ask();
        assert!(answer.contains("200 OK"), "{answer}");
        assert!(answer.ends_with("hello\n"), "{answer}");
    }
    drop(idle);
    let pid = i32::try_from(forward.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.unwrap(), Signal::INT).unwrap();
    assert_eq!(forward.wait().unwrap().code(), Some(130));
    TcpStream::connect(here).unwrap_err();
    node.aurae(&["pod", "rm", "-f", "web"]).ok();
}

#[test]
fn what_is_typed_reaches_a_container_of_a_pod() {
    let Some(node) = node() else { return };
    run(
        &node,
        &serde_json::json!({
            "name": "cat", "command": ["/bin/busybox", "cat"], "stdin": true}),
    );
    let mut attach = node.command(&["attach", "web/cat/main"]);
    let attach = attach.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut attach = attach.spawn().unwrap();
    let mut typed = attach.stdin.take().unwrap();
    typed.write_all(b"hello\n").unwrap();
    assert_eq!(read_line(attach.stdout.as_mut().unwrap()), "hello");
    // It ends with its input, and so does who is attached.
    drop(typed);
    assert_eq!(attach.wait().unwrap().code(), Some(0));
    node.aurae(&["pod", "rm", "-f", "web"]).ok();
}
