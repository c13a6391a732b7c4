// SPDX-License-Identifier: Apache-2.0
//! Terminals and the loopback.

use std::os::fd::AsFd;

use kernel::clone::Options;
use kernel::namespace::{self, Namespaces};
use kernel::{netlink, process, tty};

use crate::{Story, ok_in_clone};

pub(crate) const STORIES: &[Story] = &[
    (
        "a_new_network_namespace_gets_its_loopback",
        the_loopback_comes_up,
    ),
    (
        "a_terminal_becomes_the_controlling_one",
        a_terminal_becomes_the_controlling_one,
    ),
    (
        "interruption_reaches_the_terminal_s_session",
        interruption_reaches_the_session,
    ),
];

fn the_loopback_comes_up() {
    namespace::unshare(Namespaces::NET).unwrap();
    assert!(
        std::net::UdpSocket::bind("[::1]:0").is_err(),
        "a new namespace has no addresses"
    );
    netlink::bring_loopback_up().unwrap();
    let listener = std::net::TcpListener::bind("[::1]:0").unwrap();
    std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    // Without the right to it, the kernel's refusal comes back as such.
    ok_in_clone(Options::default(), || {
        process::set_uid(1234).unwrap();
        assert_eq!(
            netlink::bring_loopback_up().unwrap_err().errno(),
            libc::EPERM
        );
    });
}

fn a_terminal_becomes_the_controlling_one() {
    let (_master, slave) = tty::open_pair().unwrap();
    ok_in_clone(Options::default(), || {
        process::new_session().unwrap();
        assert!(std::fs::File::open("/dev/tty").is_err(), "no terminal yet");
        tty::make_controlling(&slave).unwrap();
        std::fs::File::open("/dev/tty").unwrap();
    });
}

fn interruption_reaches_the_session() {
    use std::io::{Read, Write};
    let (master, slave) = tty::open_pair().unwrap();
    let mut master = std::fs::File::from(master);
    let exit = crate::in_clone(Options::default(), || {
        // Behind `nohup` or `&` of a script this process ignores SIGINT.
        kernel::signal::reset_dispositions().unwrap();
        process::new_session().unwrap();
        tty::make_controlling(&slave).unwrap();
        master.write_all(&[3]).unwrap();
        // The signal is on its way; the echo (^C) shows that the line discipline has seen it.
        let _ = master.read(&mut [0; 8]);
        let _ = kernel::poll::wait(
            slave.as_fd(),
            kernel::poll::Interest::Readable,
            kernel::poll::Deadline::after(std::time::Duration::from_secs(5)),
        );
        process::exit(1);
    });
    assert_eq!(
        exit.status,
        kernel::wait::ExitStatus::Signal {
            signal: 2,
            core: false
        }
    );
}
