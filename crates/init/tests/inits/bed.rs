// SPDX-License-Identifier: Apache-2.0
//! The test bed: a node-init of its own, a daemon in the hands of the test, cells and executables.
//!
//! The process that node-init starts as the daemon says `Hello` (only it may), hands its socket to
//! the test, and sleeps. From then on the test is the daemon. [`Daemon::crash`] kills that process
//! and drops the sockets.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use init::codec::Packet;
use init::protocol::*;
use kernel::cgroup::{Cgroup, find};
use kernel::mount::{self, Attributes, Change};
use kernel::sealed::Sealed;
use kernel::seqpacket::{self, Mode};

/// Nothing in these tests takes longer, unless it is broken.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
/// The first id of the node that cells are given.
pub(crate) const IDS: u32 = 1_000_000;

pub(crate) fn be_init(arguments: Vec<String>) {
    let [state, run, cgroup, control, bound] = arguments.try_into().expect("five arguments");
    let me = std::env::current_exe().unwrap();
    let options = init::Options {
        daemon: vec![me.into(), "serve".into(), control.into()],
        state_dir: state.into(),
        run_dir: run.into(),
        cgroup: Some(cgroup.into()),
        shutdown_bound: Duration::from_millis(bound.parse().unwrap()),
        role: Some(Role::Service),
        root: init::DEFAULT_ROOT
            .iter()
            .map(PathBuf::from)
            .chain(std::env::var_os("AURAE_TEST_SHOWN").map(PathBuf::from))
            .collect(),
        back_off: std::env::var_os("AURAE_TEST_AT_ONCE")
            .map_or(Duration::from_secs(5), |_| Duration::ZERO),
        ..init::Options::default()
    };
    let error = init::run(options).unwrap_err();
    panic!("{error}");
}

/// Says hello and hands the socket to the test.
pub(crate) fn be_daemon(arguments: Vec<String>) {
    let (control, fd) = (&arguments[0], arguments[2].parse().unwrap());
    let init = kernel::inherit::take(fd).unwrap();
    let flavour = std::fs::read_to_string(format!("{control}.flavour")).unwrap_or_default();
    match flavour.as_str() {
        "crash" => std::process::exit(3),
        "old" => send(
            &init,
            &NodeRequest::Hello {
                version: 0,
                build: "old".into(),
            },
            &[],
        ),
        _ => send(
            &init,
            &NodeRequest::Hello {
                version: VERSION,
                build: "test".into(),
            },
            &[],
        ),
    }
    let Ok(control) = seqpacket::connect(Path::new(control), Mode::Blocking) else {
        return;
    };
    let pid = std::process::id().to_le_bytes();
    let _ = seqpacket::send(control, &pid, &[init.as_fd()]);
    drop(init);
    std::thread::sleep(Duration::from_secs(600));
}

pub(crate) fn send(socket: impl AsFd, message: &impl Packet, fds: &[BorrowedFd<'_>]) {
    let mut packet = Vec::new();
    message.encode(&mut packet).unwrap();
    seqpacket::send(socket, &packet, fds).unwrap();
}

/// Sends to a process that may be gone: `None` then.
pub(crate) fn try_send(
    socket: impl AsFd,
    message: &impl Packet,
    fds: &[BorrowedFd<'_>],
) -> Option<()> {
    let mut packet = Vec::new();
    message.encode(&mut packet).unwrap();
    seqpacket::send(socket, &packet, fds).ok()
}

/// The next message, or `None` at the end of the connection.
pub(crate) fn receive<P: Packet>(socket: impl AsFd) -> Option<(P, Vec<OwnedFd>)> {
    receive_within(socket, TIMEOUT)
}

/// [`receive`] with another bound.
pub(crate) fn receive_within<P: Packet>(
    socket: impl AsFd,
    timeout: Duration,
) -> Option<(P, Vec<OwnedFd>)> {
    let mut buffer = vec![0; MAX_PACKET];
    let deadline = kernel::poll::Deadline::after(timeout);
    let ready = kernel::poll::wait(socket.as_fd(), kernel::poll::Interest::Readable, deadline);
    assert!(ready.unwrap(), "nothing came in {timeout:?}");
    match seqpacket::receive(socket, &mut buffer) {
        Ok(packet) => {
            let packet = packet?;
            Some((P::decode(&buffer[..packet.length]).unwrap(), packet.fds))
        }
        Err(error) => {
            let error = kernel::Error::from(error);
            assert!(error.is(104), "{error}");
            None
        }
    }
}

/// A node-init with folders and a cgroup of its own.
pub(crate) struct Node {
    pub(crate) init: std::process::Child,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) base: Cgroup,
    control: OwnedFd,
    next: std::cell::Cell<u32>,
}

impl Node {
    pub(crate) fn start() -> Node {
        Node::with_bound(Duration::from_secs(5))
    }

    /// One that starts the next daemon at once, however often they die.
    pub(crate) fn with_short_timeouts() -> Node {
        Node::with(Duration::from_secs(5), &[("AURAE_TEST_AT_ONCE", "1")])
    }

    /// One whose cells see this folder, too.
    pub(crate) fn showing(folder: &str) -> Node {
        Node::with(Duration::from_secs(5), &[("AURAE_TEST_SHOWN", folder)])
    }

    pub(crate) fn with_bound(bound: Duration) -> Node {
        Node::with(bound, &[])
    }

    /// One that is executed from a file of its own, which can be replaced.
    pub(crate) fn installed() -> Node {
        let folder = tempfile::tempdir().unwrap();
        let binary = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        install(folder.path(), &binary);
        Node::in_folder(folder, Duration::from_secs(5), &[])
    }

    fn with(bound: Duration, variables: &[(&str, &str)]) -> Node {
        Node::in_folder(tempfile::tempdir().unwrap(), bound, variables)
    }

    fn in_folder(folder: tempfile::TempDir, bound: Duration, variables: &[(&str, &str)]) -> Node {
        let root = Cgroup::open(&find::mount_point().unwrap()).unwrap();
        let name = folder
            .path()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .replace('.', "aurae-test-");
        let base = root.ensure(&name).unwrap();
        let control = folder.path().join("control");
        let listener = seqpacket::listen(&control, 8, Mode::Blocking).unwrap();
        let mut command = Node::command(&folder, &base, bound);
        command.envs(variables.iter().copied());
        let init = command.spawn().unwrap();
        Node {
            init,
            folder,
            base,
            control: listener,
            next: 0.into(),
        }
    }

    fn command(folder: &tempfile::TempDir, base: &Cgroup, bound: Duration) -> Command {
        let path = |name: &str| folder.path().join(name);
        let installed = Some(path(INSTALLED)).filter(|it| it.exists());
        let mut command =
            Command::new(installed.unwrap_or_else(|| std::env::current_exe().unwrap()));
        command
            .arg("init")
            .arg(path("state"))
            .arg(path("run"))
            .arg(base.path());
        command
            .arg(path("control"))
            .arg(bound.as_millis().to_string());
        if std::env::var_os("AURAE_TEST_LOUD").is_none() {
            command.stderr(std::process::Stdio::null());
        }
        command
    }

    /// `kill -9` of node-init, and another one in its place.
    pub(crate) fn replace_init(&mut self) {
        self.init.kill().unwrap();
        self.init.wait().unwrap();
        self.start_init();
    }

    /// The next node-init, where the last one has ended.
    pub(crate) fn start_init(&mut self) {
        self.init = Node::command(&self.folder, &self.base, Duration::from_secs(5))
            .spawn()
            .unwrap();
    }

    /// How daemons behave from the next on: "", "crash" or "old".
    pub(crate) fn flavour(&self, flavour: &str) {
        std::fs::write(self.folder.path().join("control.flavour"), flavour).unwrap();
    }

    /// The daemon's socket and pid, before its welcome.
    pub(crate) fn raw_daemon(&self) -> (OwnedFd, i32) {
        let deadline = kernel::poll::Deadline::after(TIMEOUT);
        let ready = kernel::poll::wait(&self.control, kernel::poll::Interest::Readable, deadline);
        assert!(ready.unwrap(), "no daemon came");
        let connection = seqpacket::accept(&self.control, Mode::Blocking).unwrap();
        let mut pid = [0; 4];
        let packet = seqpacket::receive(connection, &mut pid).unwrap().unwrap();
        (
            packet.fds.into_iter().next().unwrap(),
            i32::from_le_bytes(pid),
        )
    }

    /// Makes the test the daemon of this node.
    pub(crate) fn daemon(&self) -> Daemon {
        let (socket, pid) = self.raw_daemon();
        let (event, _) = receive(&socket).unwrap();
        let NodeEvent::Welcome(welcome) = event else {
            panic!("{event:?}")
        };
        Daemon {
            socket,
            pid,
            welcome,
            request: 0,
        }
    }

    pub(crate) fn socket_path(&self, uid: Uid) -> PathBuf {
        self.place().socket_path(uid)
    }

    pub(crate) fn place(&self) -> Place {
        let cells = self.folder.path().join("run/cells");
        Place {
            base: self.base.try_clone().unwrap(),
            cells,
        }
    }

    /// A plan for an isolated cell with nothing special.
    pub(crate) fn plan(&self) -> Plan {
        let number = self.next.get();
        self.next.set(number + 1);
        Plan::new(&format!("cell{number}"), IDS + number * 70_000, 65_536)
    }

    /// Orders node-init to read its configuration again.
    pub(crate) fn reload(&self) {
        let pid = rustix::process::Pid::from_child(&self.init);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    }

    /// Stops node-init as a service manager would.
    pub(crate) fn stop(&mut self) -> Duration {
        let start = Instant::now();
        let pid = rustix::process::Pid::from_child(&self.init);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = self.init.wait().unwrap();
        assert!(status.success(), "{status}");
        start.elapsed()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.init.kill();
        let _ = self.init.wait();
        let _ = self.base.kill_and_wait(TIMEOUT);
        let above = Cgroup::open(self.base.path().parent().unwrap()).unwrap();
        let name = self.base.path().file_name().unwrap().to_str().unwrap();
        let _ = above.remove(name, TIMEOUT);
    }
}

/// The name of a node's own binary in its folder.
pub(crate) const INSTALLED: &str = "auraed";

/// Puts another file in its place, as dpkg does; returns its inode's number.
pub(crate) fn install(folder: &Path, binary: &[u8]) -> u64 {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let new = folder.join("auraed.new");
    std::fs::write(&new, binary).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&new, folder.join(INSTALLED)).unwrap();
    std::fs::metadata(folder.join(INSTALLED)).unwrap().ino()
}

/// Where a node keeps its cells.
pub(crate) struct Place {
    pub(crate) base: Cgroup,
    pub(crate) cells: PathBuf,
}

impl Place {
    pub(crate) fn of_machine(base: &Cgroup) -> Place {
        Place {
            base: base.try_clone().unwrap(),
            cells: "/run/aurae/cells".into(),
        }
    }

    /// A tenant's group, whose cell-inits may clone into those below it. The administrators' is
    /// beside that of all others.
    pub(crate) fn tenant(&self, name: &str) -> Cgroup {
        let tenants = match name {
            "system" => self.base.try_clone().unwrap(),
            _ => self.base.ensure("tenants").unwrap(),
        };
        let tenant = tenants.ensure(name).unwrap();
        for group in [&tenants, &tenant] {
            for controller in group.controllers().unwrap() {
                let _ = group.enable(&[controller]);
            }
        }
        tenant.let_group_clone(CLONERS).unwrap();
        tenant
    }

    fn socket_path(&self, uid: Uid) -> PathBuf {
        let name: String = uid.0.iter().map(|byte| format!("{byte:02x}")).collect();
        self.cells.join(name + ".sock")
    }
}

/// A cell to be.
pub(crate) struct Plan {
    pub(crate) tenant: &'static str,
    pub(crate) name: String,
    pub(crate) launch: CellLaunch,
    pub(crate) mounts: Vec<(OwnedFd, MountTarget)>,
    /// What goes with the root of an image.
    pub(crate) root: Vec<OwnedFd>,
    /// Files of the cell's cgroup, and what is written to them.
    pub(crate) limits: Vec<(&'static str, &'static str)>,
}

pub(crate) fn random_uid() -> Uid {
    let mut uid = [0; 16];
    kernel::machine::random(&mut uid).unwrap();
    Uid(uid)
}

impl Plan {
    pub(crate) fn new(name: &str, first_id: u32, count: u32) -> Plan {
        let map = vec![IdMap {
            inside: 0,
            outside: first_id,
            count: count - 1,
        }];
        let launch = CellLaunch {
            uid: random_uid(),
            unshare: Namespaces::ALL,
            root: Root::Node,
            parent: false,
            joins: vec![],
            uid_map: map.clone(),
            gid_map: map,
            init_id: first_id + count - 1,
            title: format!("test/{name}"),
            hostname: name.to_owned(),
            volumes: vec![],
            sysctls: vec![],
            record: Record::Here(format!("record of {name}").into_bytes()),
        };
        // The test binary, as a program of the cell.
        let me = std::env::current_exe().unwrap();
        let plan = Plan {
            tenant: "tenant",
            name: name.to_owned(),
            launch,
            mounts: vec![],
            root: vec![],
            limits: vec![],
        };
        plan.mounting(me.parent().unwrap(), "/run/bed")
    }

    /// A cell without anything that isn't every cell's.
    pub(crate) fn bare(name: &str, first_id: u32) -> Plan {
        let mut plan = Plan::new(name, first_id, 65_536);
        plan.mounts.clear();
        plan
    }

    /// Mounts a folder of the node, read-only.
    pub(crate) fn mounting(mut self, source: &Path, target: &str) -> Plan {
        let copy = mount::copy_tree(source, false).unwrap();
        let set = Attributes::READ_ONLY | Attributes::NO_SUID | Attributes::NO_DEV;
        mount::set_attributes(
            &copy,
            &Change {
                set,
                ..Change::default()
            },
        )
        .unwrap();
        let to = MountTarget {
            target: target.into(),
            directory: true,
        };
        self.mounts.push((copy, to));
        self
    }

    /// Shares these namespaces with the parent.
    pub(crate) fn sharing(mut self, which: u8) -> Plan {
        self.launch.unshare = Namespaces(Namespaces::ALL.0 & !which);
        if which & Namespaces::USER != 0 {
            self.launch.uid_map.clear();
            self.launch.gid_map.clear();
            // Made known when the parent is.
            self.launch.init_id = 0;
        }
        if which & Namespaces::MOUNT != 0 {
            self.mounts.clear();
        }
        self
    }
}

/// The test, as the daemon.
pub(crate) struct Daemon {
    pub(crate) socket: OwnedFd,
    pub(crate) pid: i32,
    pub(crate) welcome: Welcome,
    pub(crate) request: u64,
}

impl Daemon {
    pub(crate) fn event(&self) -> (NodeEvent, Vec<OwnedFd>) {
        receive(&self.socket).expect("node-init is there")
    }

    /// [`Daemon::ask_for_cell`] of a node-init that may have hung up: `None` then.
    pub(crate) fn try_ask_for_cell(&mut self, node: &Node, plan: &Plan) -> Option<u64> {
        let (order, fds, _) = self.order(&node.place(), plan, None);
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        try_send(&self.socket, &order, &fds)?;
        Some(self.request)
    }

    /// Asks for a cell without waiting for the answer.
    pub(crate) fn ask_for_cell(
        &mut self,
        node: &Node,
        plan: &Plan,
        parent: Option<&Cell>,
    ) -> (u64, Cgroup) {
        self.ask_at(&node.place(), plan, parent)
    }

    fn ask_at(&mut self, node: &Place, plan: &Plan, parent: Option<&Cell>) -> (u64, Cgroup) {
        let (order, fds, group) = self.order(node, plan, parent);
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        send(&self.socket, &order, &fds);
        (self.request, group)
    }

    /// The request for a cell, its descriptors, and the cgroup that was made for it.
    fn order(
        &mut self,
        node: &Place,
        plan: &Plan,
        parent: Option<&Cell>,
    ) -> (NodeRequest, Vec<OwnedFd>, Cgroup) {
        let tenant = node.tenant(plan.tenant);
        let inits = tenant.ensure("_inits").unwrap().into_fd();
        let above = parent.map_or(tenant, |p| p.group.try_clone().unwrap());
        let group = above.create(&plan.name).unwrap();
        for controller in group.controllers().unwrap() {
            let _ = group.enable(&[controller]);
        }
        for (file, value) in &plan.limits {
            group.write(file, value).unwrap();
        }
        let path = node.socket_path(plan.launch.uid);
        let listener = seqpacket::listen(&path, 8, Mode::Nonblocking).unwrap();
        let mut launch = plan.launch.clone();
        launch.parent = parent.is_some();
        if let Some(parent) = parent.filter(|_| launch.uid_map.is_empty()) {
            launch.init_id = parent.init_id;
        }
        let copy = |fd: &OwnedFd| fd.try_clone().unwrap();
        let mut fds = vec![inits, listener];
        fds.extend(parent.map(|parent| copy(&parent.pidfd)));
        fds.extend(plan.root.iter().map(copy));
        self.request += 1;
        let order = NodeRequest::CreateCell {
            request: self.request,
            launch,
        };
        (order, fds, group)
    }

    pub(crate) fn try_cell(
        &mut self,
        node: &Node,
        plan: Plan,
        parent: Option<&Cell>,
    ) -> Result<Cell, Failure> {
        self.try_at(&node.place(), plan, parent)
    }

    pub(crate) fn try_at(
        &mut self,
        node: &Place,
        plan: Plan,
        parent: Option<&Cell>,
    ) -> Result<Cell, Failure> {
        let (asked, group) = self.ask_at(node, &plan, parent);
        match self.event() {
            (NodeEvent::CellCreated { request, pid }, fds) => {
                assert_eq!(request, asked);
                let [pidfd] = fds.try_into().unwrap();
                let root = plan.launch.uid_map.first().map_or(0, |map| map.outside);
                let root = if root == 0 {
                    parent.map_or(0, |parent| parent.root)
                } else {
                    root
                };
                let path = node.socket_path(plan.launch.uid);
                let link = CellLink::connect(&path);
                let init_id = match (&plan.launch.uid_map[..], parent) {
                    ([], Some(parent)) => parent.init_id,
                    _ => plan.launch.init_id,
                };
                let cell = Cell {
                    uid: plan.launch.uid,
                    init_id,
                    group,
                    pidfd,
                    pid,
                    root,
                    path,
                    link,
                    number: 0.into(),
                };
                cell.mount(plan.mounts)?;
                Ok(cell)
            }
            (NodeEvent::CellFailed { request, failure }, _) => {
                assert_eq!(request, asked);
                Err(failure)
            }
            (other, _) => panic!("{other:?}"),
        }
    }

    pub(crate) fn cell(&mut self, node: &Node, plan: Plan) -> Cell {
        self.try_cell(node, plan, None).unwrap()
    }

    pub(crate) fn nested(&mut self, node: &Node, plan: Plan, parent: &Cell) -> Cell {
        self.try_cell(node, plan, Some(parent)).unwrap()
    }

    /// Dies, as by `kill -9`.
    pub(crate) fn crash(self) {
        let pid = rustix::process::Pid::from_raw(self.pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

/// A cell that runs.
pub(crate) struct Cell {
    pub(crate) uid: Uid,
    /// Of the user of its init, in the node's ids.
    pub(crate) init_id: u32,
    pub(crate) group: Cgroup,
    pub(crate) pidfd: OwnedFd,
    pub(crate) pid: i32,
    /// The cell's root, in the node's ids.
    pub(crate) root: u32,
    pub(crate) path: PathBuf,
    pub(crate) link: CellLink,
    pub(crate) number: std::cell::Cell<u32>,
}

/// A connection to a cell-init that has said welcome.
pub(crate) struct CellLink {
    pub(crate) socket: OwnedFd,
    pub(crate) record: Vec<u8>,
    pub(crate) workloads: Vec<(WorkloadState, Vec<OwnedFd>)>,
    early: std::cell::RefCell<VecDeque<(CellEvent, Vec<OwnedFd>)>>,
    request: std::cell::Cell<u64>,
}

impl CellLink {
    pub(crate) fn connect(path: &Path) -> CellLink {
        let socket = seqpacket::connect(path, Mode::Blocking).unwrap();
        seqpacket::reserve_send_buffer(&socket, MAX_PACKET).unwrap();
        send(&socket, &CellRequest::Hello { version: VERSION }, &[]);
        let (event, fds) = receive(&socket).unwrap();
        let CellEvent::Welcome {
            record,
            workloads: count,
            ..
        } = event
        else {
            panic!("{event:?}")
        };
        let workloads = (0..count)
            .map(|_| match receive(&socket).unwrap() {
                (CellEvent::Workload(state), fds) => (state, fds),
                (other, _) => panic!("{other:?}"),
            })
            .collect();
        CellLink {
            socket,
            record: bytes_of(&record, &fds),
            workloads,
            early: Default::default(),
            request: 0.into(),
        }
    }

    pub(crate) fn next_request(&self) -> u64 {
        self.request.set(self.request.get() + 1);
        self.request.get()
    }

    /// The next event that is wanted; others are kept for later.
    pub(crate) fn wait_for<T>(
        &self,
        wanted: impl Fn(&CellEvent) -> Option<T>,
    ) -> (T, Vec<OwnedFd>) {
        let mut early = self.early.borrow_mut();
        if let Some(at) = early.iter().position(|(event, _)| wanted(event).is_some()) {
            let (event, fds) = early.remove(at).unwrap();
            return (wanted(&event).unwrap(), fds);
        }
        loop {
            let (event, fds) = receive(&self.socket).expect("the cell-init is there");
            match wanted(&event) {
                Some(value) => return (value, fds),
                None => early.push_back((event, fds)),
            }
        }
    }

    /// Sends a request made with a new number, and waits for its answer.
    pub(crate) fn ask(
        &self,
        make: impl Fn(u64) -> CellRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), Failure> {
        let number = self.next_request();
        send(&self.socket, &make(number), fds);
        self.wait_for(|event| match event {
            CellEvent::Done { request } if *request == number => Some(Ok(())),
            CellEvent::Failed { request, failure } if *request == number => {
                Some(Err(failure.clone()))
            }
            _ => None,
        })
        .0
    }

    pub(crate) fn exit_of(&self, wanted: Uid) -> ExitRecord {
        self.wait_for(|event| match event {
            CellEvent::Exited { uid, exit } if *uid == wanted => Some(*exit),
            _ => None,
        })
        .0
    }
}

/// What a record says that came in a packet with these descriptors.
pub(crate) fn bytes_of(record: &Record, fds: &[OwnedFd]) -> Vec<u8> {
    match record {
        Record::Here(bytes) => bytes.clone(),
        Record::Beside => {
            let file = fds.last().expect("the descriptor of a long record");
            Sealed::open(file, MAX_SEALED).unwrap().to_vec()
        }
    }
}

/// A started executable, with the daemon's ends of its pipes.
pub(crate) struct Running {
    pub(crate) uid: Uid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) stdin: Option<OwnedFd>,
}

/// How an executable went.
#[derive(Debug)]
pub(crate) struct Went {
    pub(crate) exit: ExitRecord,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn launch_of(argv: &[&str]) -> Launch {
    Launch {
        argv: argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
        env: vec![b"PATH=/usr/bin:/bin:/usr/sbin:/sbin".to_vec()],
        bounding: u64::MAX,
        grace_ms: 500,
        record: Record::Here(b"a record".to_vec()),
        ..Launch::plain(random_uid())
    }
}

impl Cell {
    /// Hangs up, for others to connect.
    pub(crate) fn without_link(mut self) -> Cell {
        let (unconnected, _) = seqpacket::pair(Mode::Blocking).unwrap();
        self.link.socket = unconnected;
        self
    }

    pub(crate) fn reconnect(&mut self) {
        // The old connection is dropped first, as a dead daemon's is.
        let (a, _) = seqpacket::pair(Mode::Blocking).unwrap();
        self.link.socket = a;
        self.link = CellLink::connect(&self.path);
    }

    /// Attaches mounts of the node as the daemon does.
    pub(crate) fn mount(&self, mounts: Vec<(OwnedFd, MountTarget)>) -> Result<(), Failure> {
        if mounts.is_empty() {
            return Ok(());
        }
        let (mounts, targets): (Vec<_>, Vec<_>) = mounts.into_iter().unzip();
        let kinds = targets.iter().map(|to| to.directory).collect();
        self.staged(kinds, mounts, || {
            targets.iter().zip(0..).try_for_each(|(to, from)| {
                let to = || to.clone();
                let mount = |request| CellRequest::Mount {
                    request,
                    from,
                    to: to(),
                };
                self.link.ask(mount, &[])
            })
        })
    }

    /// Does something while these have come by the cell's folder for mounts. The thread that has
    /// brought them is gone afterwards.
    pub(crate) fn staged<T>(
        &self,
        directories: Vec<bool>,
        mounts: Vec<OwnedFd>,
        act: impl FnOnce() -> T,
    ) -> T {
        use kernel::mount::stage;
        use std::sync::mpsc;
        let (folder, folders) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let (there, theres) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            stage::enter().unwrap();
            folder
                .send(stage::open("cell", &directories).unwrap())
                .unwrap();
            gone.recv().unwrap();
            for (number, mount) in mounts.iter().enumerate() {
                stage::attach("cell", number, mount).unwrap();
            }
            there.send(()).unwrap();
            let _ = gone.recv();
            stage::close("cell").unwrap();
        });
        let slave = folders.recv().unwrap();
        let stage = |request| CellRequest::Stage { request };
        self.link.ask(stage, &[slave.as_fd()]).unwrap();
        go.send(()).unwrap();
        theres.recv().unwrap();
        let result = act();
        drop(go);
        thread.join().unwrap();
        result
    }

    /// A leaf for an executable, as the daemon makes it.
    pub(crate) fn leaf(&self) -> OwnedFd {
        let number = self.number.get();
        self.number.set(number + 1);
        let leaf = self
            .group
            .create(&format!("exe{number}"))
            .unwrap()
            .into_fd();
        let owner = Some(rustix::fs::Uid::from_raw(self.root));
        let none = rustix::fs::AtFlags::empty();
        rustix::fs::chownat(&leaf, "cgroup.procs", owner, None, none).unwrap();
        leaf
    }

    /// Sends a start and returns its number and the daemon's ends.
    pub(crate) fn ask_to_start(&self, launch: &Launch) -> (u64, [OwnedFd; 2], Option<OwnedFd>) {
        self.ask_to_start_by(launch, |number, start, fds| {
            assert!(matches!(start, CellRequest::Start { request, .. } if *request == number));
            send(&self.link.socket, start, fds);
        })
    }

    /// A start whose request goes another way.
    pub(crate) fn ask_to_start_by(
        &self,
        launch: &Launch,
        by: impl FnOnce(u64, &CellRequest, &[BorrowedFd<'_>]),
    ) -> (u64, [OwnedFd; 2], Option<OwnedFd>) {
        let leaf = self.leaf();
        let pipe = || kernel::pipe::pipe().unwrap();
        let (out, err, input) = (pipe(), pipe(), pipe());
        let number = self.link.next_request();
        let mut fds = vec![leaf.as_fd(), input.0.as_fd(), out.1.as_fd(), err.1.as_fd()];
        fds.extend([out.0.as_fd(), err.0.as_fd()]);
        if launch.keep_stdin {
            fds.push(input.1.as_fd());
        }
        let start = CellRequest::Start {
            request: number,
            launch: launch.clone(),
        };
        by(number, &start, &fds);
        (number, [out.0, err.0], launch.keep_stdin.then_some(input.1))
    }

    pub(crate) fn try_start(&self, launch: &Launch) -> Result<Running, Failure> {
        self.hear_of_start(launch, self.ask_to_start(launch))
    }

    /// The answer to a start.
    pub(crate) fn hear_of_start(
        &self,
        launch: &Launch,
        (number, [stdout, stderr], stdin): (u64, [OwnedFd; 2], Option<OwnedFd>),
    ) -> Result<Running, Failure> {
        let (result, fds) = self.link.wait_for(|event| match event {
            CellEvent::Started { request, .. } if *request == number => Some(Ok(())),
            CellEvent::Failed { request, failure } if *request == number => {
                Some(Err(failure.clone()))
            }
            _ => None,
        });
        result?;
        let [pidfd] = fds.try_into().unwrap();
        Ok(Running {
            uid: launch.uid,
            pidfd,
            stdout,
            stderr,
            stdin,
        })
    }

    pub(crate) fn start(&self, launch: &Launch) -> Running {
        self.try_start(launch).unwrap()
    }

    pub(crate) fn ack(&self, uid: Uid) {
        send(&self.link.socket, &CellRequest::Ack { uid }, &[]);
    }

    /// Runs to the end; acknowledged.
    pub(crate) fn run_launch(&self, launch: &Launch) -> Went {
        self.finish(self.start(launch))
    }

    /// Waits for the end, and acknowledges it.
    pub(crate) fn finish(&self, running: Running) -> Went {
        let (out, err) = (read_all(running.stdout), read_all(running.stderr));
        let exit = self.link.exit_of(running.uid);
        self.ack(running.uid);
        Went {
            exit,
            stdout: out,
            stderr: err,
        }
    }

    pub(crate) fn run(&self, argv: &[&str]) -> Went {
        self.run_launch(&launch_of(argv))
    }

    pub(crate) fn sh(&self, script: &str) -> Went {
        self.run(&["/bin/sh", "-c", script])
    }

    /// Runs a part of [`crate::escapes`] in the cell.
    pub(crate) fn workload(&self, what: &[&str]) -> Went {
        let me = std::env::current_exe().unwrap();
        let me = format!("/run/bed/{}", me.file_name().unwrap().to_str().unwrap());
        let mut argv = vec![me.as_str(), "workload"];
        argv.extend(what);
        self.run(&argv)
    }
}

pub(crate) fn read_all(from: OwnedFd) -> String {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::fs::File::from(from), &mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Up to and with the next line feed, and no further.
pub(crate) fn read_line(from: &OwnedFd) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while bytes.last() != Some(&b'\n') && rustix::io::read(from, &mut byte).unwrap() > 0 {
        bytes.extend(byte);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Does something as another user of the node, in a thread: only that becomes the other.
pub(crate) fn as_user(uid: u32, gid: u32, act: impl FnOnce() -> bool + Send) -> bool {
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            kernel::process::set_gid(gid).unwrap();
            kernel::process::set_uid(uid).unwrap();
            act()
        });
        other.join().unwrap()
    })
}

/// What a line of a process's `smaps_rollup` says, in KiB (proc_pid_smaps(5)).
pub(crate) fn memory_of(pid: u32, line: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let number = text.lines().find_map(|it| it.strip_prefix(line)).unwrap();
    number.trim().trim_end_matches(" kB").parse().unwrap()
}
