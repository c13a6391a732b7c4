// SPDX-License-Identifier: Apache-2.0
//! Stories of the journal: real sockets, a real log, and senders that lie.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use model::observe::JournalQuery;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tempfile::TempDir;

use super::*;
use crate::LogsConfig;

/// Longer than anything takes that comes, on a slow machine with other work, too.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every sender is this unit's.
struct Everybody;

impl Owners for Everybody {
    fn owner(&self, _: &str) -> BoxFuture<'_, Owner> {
        let owner = Owner {
            tenant: "system".to_owned(),
            path: "system/web-1".to_owned(),
            unit: Some("web.service".to_owned()),
        };
        Box::pin(async move { owner })
    }
}

struct Bed {
    folder: TempDir,
    logs: Logs,
    journal: Journal,
}

async fn bed(limit: RateLimit) -> Bed {
    bed_of(limit, own_words().1).await
}

/// With what the daemon says.
async fn bed_saying(own: Words) -> Bed {
    bed_of(RateLimit::default(), own).await
}

async fn bed_of(limit: RateLimit, own: Words) -> Bed {
    let folder = tempfile::tempdir().unwrap();
    let logs = Logs::start(&folder.path().join("logs"), LogsConfig::default()).unwrap();
    let config = config(folder.path(), limit);
    let journal = start_saying(config, &logs, Arc::new(Shelf::default()), own).await;
    Bed {
        folder,
        logs,
        journal,
    }
}

async fn start(folder: &Path, logs: &Logs, limit: RateLimit) -> Journal {
    start_keeping(config(folder, limit), logs, Arc::new(Shelf::default())).await
}

fn config(folder: &Path, limit: RateLimit) -> JournalConfig {
    JournalConfig {
        folder: folder.join("journal"),
        link: Some(folder.join("log")),
        kernel: None,
        max_bytes: 1 << 24,
        limit,
        boot_id: "b".repeat(32),
    }
}

async fn start_keeping(config: JournalConfig, logs: &Logs, shelf: Arc<Shelf>) -> Journal {
    start_saying(config, logs, shelf, own_words().1).await
}

async fn start_saying(
    config: JournalConfig,
    logs: &Logs,
    shelf: Arc<Shelf>,
    own: Words,
) -> Journal {
    Journal::start(config, logs, Arc::new(Everybody), shelf, own)
        .await
        .unwrap()
}

/// Keeps descriptors as node-init does.
#[derive(Default)]
struct Shelf {
    all: std::sync::Mutex<Vec<Kept>>,
    last: std::sync::atomic::AtomicU64,
}

impl Shelf {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .all
            .lock()
            .unwrap()
            .iter()
            .map(|it| it.name.clone())
            .collect();
        names.sort();
        names
    }
}

impl Keep for Shelf {
    fn keep<'a>(&'a self, name: &'a str, fd: OwnedFd) -> BoxFuture<'a, Result<u64, Error>> {
        let number = self.last.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = name.to_owned();
        self.all.lock().unwrap().push(Kept { number, name, fd });
        Box::pin(async move { Ok(number) })
    }

    fn forget(&self, number: u64) -> BoxFuture<'_, ()> {
        self.all.lock().unwrap().retain(|it| it.number != number);
        Box::pin(async {})
    }

    fn left(&self) -> BoxFuture<'_, Result<Vec<Kept>, Error>> {
        let all = self.all.lock().unwrap();
        let copy = |it: &Kept| Kept {
            number: it.number,
            name: it.name.clone(),
            fd: it.fd.try_clone().unwrap(),
        };
        let left = all.iter().map(copy).collect();
        Box::pin(async move { Ok(left) })
    }
}

impl Bed {
    fn socket(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("journal").join(name)
    }

    fn native(&self) -> UnixDatagram {
        let socket = UnixDatagram::unbound().unwrap();
        socket.connect(self.socket("socket")).unwrap();
        socket
    }

    async fn entries(&self, query: JournalQuery) -> Vec<Entry> {
        let mut stream = read(&self.logs, query).await.unwrap();
        let mut entries = Vec::new();
        while let Some(item) = stream.next().await {
            entries.push(item.unwrap().0);
        }
        entries
    }

    /// All entries, once there are so many.
    async fn all(&self, count: usize) -> Vec<Entry> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let entries = self.entries(JournalQuery::default()).await;
            if entries.len() >= count {
                return entries;
            }
            let there = entries.len();
            assert!(Instant::now() < deadline, "{there} entries, not {count}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn text(entry: &Entry, name: &str) -> String {
    String::from_utf8_lossy(entry.get(name).unwrap_or_default()).into_owned()
}

fn messages(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|it| text(it, "MESSAGE")).collect()
}

#[tokio::test]
async fn all_three_protocols_are_taken_and_signed() {
    let bed = bed(RateLimit::default()).await;
    let syslog = UnixDatagram::unbound().unwrap();
    let link = bed.folder.path().join("log");
    syslog
        .send_to(b"<11>Nov 23 22:46:04 cron[5]: one", &link)
        .unwrap();
    bed.all(1).await;
    bed.native().send(b"MESSAGE=two\nCODE_LINE=7\n").unwrap();
    bed.all(2).await;
    let mut stream = UnixStream::connect(bed.socket("stdout")).unwrap();
    stream
        .write_all(b"web\n\n6\n1\n0\n0\n0\n<4>three\nfour")
        .unwrap();
    drop(stream);
    let entries = bed.all(4).await;
    assert_eq!(messages(&entries), ["one", "two", "three", "four"]);
    let transports: Vec<String> = entries.iter().map(|it| text(it, "_TRANSPORT")).collect();
    assert_eq!(transports, ["syslog", "journal", "stdout", "stdout"]);
    for entry in &entries {
        assert_eq!(text(entry, "_PID"), std::process::id().to_string());
        assert_eq!(text(entry, "_SYSTEMD_UNIT"), "web.service");
        assert_eq!(text(entry, "_AURAE_PATH"), "system/web-1");
        assert_eq!(text(entry, "_BOOT_ID"), "b".repeat(32));
        assert!(!text(entry, "_EXE").is_empty() && !text(entry, "_COMM").is_empty());
    }
    assert_eq!(text(&entries[0], "SYSLOG_PID"), "5");
    assert_eq!(text(&entries[1], "CODE_LINE"), "7");
    assert_eq!(text(&entries[2], "PRIORITY"), "4");
}

#[tokio::test]
async fn nobody_speaks_for_another_one() {
    let bed = bed(RateLimit::default()).await;
    let lie = b"MESSAGE=lie\n_PID=1\n_SYSTEMD_UNIT=ssh.service\n_UID=0\n__CURSOR=x\n";
    bed.native().send(lie).unwrap();
    let entries = bed.all(1).await;
    let [entry] = entries.as_slice() else {
        panic!("{entries:?}");
    };
    let units: Vec<_> = entry
        .fields
        .iter()
        .filter(|it| it.0 == "_SYSTEMD_UNIT")
        .collect();
    assert_eq!(units.len(), 1);
    assert_eq!(text(entry, "_SYSTEMD_UNIT"), "web.service");
    assert_eq!(text(entry, "_PID"), std::process::id().to_string());
    assert!(entry.get("__CURSOR").is_none());
}

/// Sends a descriptor and no bytes.
fn send_file(bed: &Bed, file: &impl AsFd) {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    let socket = bed.native();
    rustix::net::sendmsg(&socket, &[], &mut control, SendFlags::empty()).unwrap();
}

fn memfd(text: &[u8], seals: rustix::fs::SealFlags) -> std::os::fd::OwnedFd {
    let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("message", flags).unwrap();
    rustix::io::write(&file, text).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file
}

#[tokio::test]
async fn a_large_message_comes_in_a_sealed_file_alone() {
    use rustix::fs::SealFlags;
    let bed = bed(RateLimit::default()).await;
    let whole = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    // One that may change while it is read, and one that isn't a memfd.
    send_file(&bed, &memfd(b"MESSAGE=unsealed\n", SealFlags::SHRINK));
    let path = bed.folder.path().join("plain");
    std::fs::write(&path, "MESSAGE=plain\n").unwrap();
    send_file(&bed, &std::fs::File::open(&path).unwrap());
    let large = memfd(b"", SealFlags::empty());
    rustix::fs::ftruncate(&large, (LARGEST + 1) as u64).unwrap();
    rustix::fs::fcntl_add_seals(&large, whole).unwrap();
    send_file(&bed, &large);
    let long = "x".repeat(300 << 10);
    send_file(&bed, &memfd(format!("MESSAGE={long}\n").as_bytes(), whole));
    bed.native().send(b"MESSAGE=last\n").unwrap();
    let entries = bed.all(2).await;
    assert_eq!(messages(&entries), [long.as_str(), "last"]);
}

#[tokio::test]
async fn a_flood_is_cut_and_its_loss_is_told() {
    let limit = RateLimit {
        interval: Duration::from_millis(500),
        burst: 10,
        ..RateLimit::default()
    };
    let bed = bed(limit).await;
    let socket = bed.native();
    let begun = Instant::now();
    for number in 0..100 {
        socket
            .send(format!("MESSAGE={number}\n").as_bytes())
            .unwrap();
    }
    bed.all(10).await;
    // Until one is taken: while the span isn't over it is one of the flood.
    let entries = loop {
        socket.send(b"MESSAGE=after\n").unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let entries = bed.entries(JournalQuery::default()).await;
        if messages(&entries).last().is_some_and(|it| it == "after") {
            break entries;
        }
        assert!(begun.elapsed() < PATIENCE, "{:?}", messages(&entries));
    };
    // On a slow machine the flood lasts for more than a span.
    let spans = usize::try_from(begun.elapsed().as_millis() / 500).unwrap() + 1;
    let is_of_flood = |it: &&String| it.parse::<u32>().is_ok();
    let taken = messages(&entries).iter().filter(is_of_flood).count();
    assert!(taken <= 10 * spans, "{taken} in {spans} spans");
    let told = entries
        .iter()
        .find(|it| it.get("N_DROPPED").is_some())
        .unwrap();
    assert!(text(told, "MESSAGE").ends_with("messages from web.service"));
}

#[tokio::test]
async fn entries_are_found_by_matches_by_the_last_and_behind_a_cursor() {
    let bed = bed(RateLimit::default()).await;
    let socket = bed.native();
    for number in 0..50 {
        let message = format!("MESSAGE={number}\nPARITY={}\n", number % 2);
        socket.send(message.as_bytes()).unwrap();
    }
    bed.all(50).await;
    let odd = JournalQuery {
        matches: vec![("PARITY".to_owned(), b"1".to_vec())],
        ..JournalQuery::default()
    };
    assert_eq!(bed.entries(odd.clone()).await.len(), 25);
    let last = JournalQuery {
        tail: Some(3),
        ..odd
    };
    assert_eq!(messages(&bed.entries(last).await), ["45", "47", "49"]);
    let mut stream = read(&bed.logs, JournalQuery::default()).await.unwrap();
    let (first, behind) = stream.next().await.unwrap().unwrap();
    assert_eq!(text(&first, "MESSAGE"), "0");
    let rest = JournalQuery {
        cursor: Some(behind),
        ..JournalQuery::default()
    };
    let rest = bed.entries(rest).await;
    assert_eq!(
        (rest.len(), text(&rest[0], "MESSAGE")),
        (49, "1".to_owned())
    );
    // One that is in the midst of an entry is passed over up to the next.
    let within = JournalQuery {
        cursor: Some(behind + 3),
        ..JournalQuery::default()
    };
    assert_eq!(text(&bed.entries(within).await[0], "MESSAGE"), "2");
    let since = JournalQuery {
        since: Some(first.time),
        ..JournalQuery::default()
    };
    assert_eq!(bed.entries(since).await.len(), 50);
}

#[tokio::test]
async fn who_follows_gets_what_comes() {
    let bed = bed(RateLimit::default()).await;
    bed.native().send(b"MESSAGE=old\n").unwrap();
    bed.all(1).await;
    let query = JournalQuery {
        tail: Some(1),
        follow: true,
        ..JournalQuery::default()
    };
    let mut stream = read(&bed.logs, query).await.unwrap();
    let next = stream.next().await.unwrap().unwrap();
    assert_eq!(text(&next.0, "MESSAGE"), "old");
    bed.native().send(b"MESSAGE=new\n").unwrap();
    let wait = tokio::time::timeout(PATIENCE, stream.next());
    let next = wait.await.unwrap().unwrap().unwrap();
    assert_eq!(text(&next.0, "MESSAGE"), "new");
}

#[tokio::test]
async fn another_daemon_goes_on_with_the_same_journal() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Logs::start(&folder.path().join("logs"), LogsConfig::default()).unwrap();
    let say = |word: &str| {
        let socket = UnixDatagram::unbound().unwrap();
        let message = format!("MESSAGE={word}\n");
        let path = folder.path().join("journal/socket");
        socket.send_to(message.as_bytes(), path).unwrap();
    };
    let wait = async |logs: &Logs, count: usize| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut stream = read(logs, JournalQuery::default()).await.unwrap();
            let mut entries = Vec::new();
            while let Some(item) = stream.next().await {
                entries.push(item.unwrap().0);
            }
            if entries.len() >= count {
                return messages(&entries);
            }
            let there = entries.len();
            assert!(Instant::now() < deadline, "{there} entries, not {count}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let logs = open();
    let journal = start(folder.path(), &logs, RateLimit::default()).await;
    say("one");
    wait(&logs, 1).await;
    drop(journal);
    logs.stop().await.unwrap();
    drop(logs);
    let logs = open();
    let _journal = start(folder.path(), &logs, RateLimit::default()).await;
    say("two");
    assert_eq!(wait(&logs, 2).await, ["one", "two"]);
}

#[tokio::test]
async fn rsyslog_gets_what_comes_and_is_never_waited_for() {
    let bed = bed(RateLimit::default()).await;
    // Nobody reads it: its queue is full after some.
    let rsyslog = UnixDatagram::bind(bed.socket("syslog")).unwrap();
    let socket = UnixDatagram::unbound().unwrap();
    let to = bed.socket("dev-log");
    for number in 0..500 {
        socket
            .send_to(format!("<30>a: {number}").as_bytes(), &to)
            .unwrap();
    }
    bed.all(500).await;
    let mut buffer = [0; 100];
    let length = rsyslog.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"<30>a: 0");
}

/// `journalctl --sync`: what was sent before is there, without a wait of the test's own, and though
/// another one sends without end.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_before_is_stored_when_that_is_waited_for() {
    let limit = RateLimit {
        burst: u32::MAX,
        bytes: u64::MAX,
        ..RateLimit::default()
    };
    let bed = bed(limit).await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (flood, ended) = (bed.native(), stop.clone());
    let flood = std::thread::spawn(move || {
        while !ended.load(std::sync::atomic::Ordering::Relaxed) {
            flood.send(b"MESSAGE=flood\n").unwrap();
        }
    });
    for round in 0..5 {
        let mut stream = UnixStream::connect(bed.socket("stdout")).unwrap();
        write!(stream, "web\n\n6\n0\n0\n0\n0\nstream {round}\n").unwrap();
        let native = bed.native();
        native
            .send(format!("MESSAGE=native {round}\n").as_bytes())
            .unwrap();
        let syslog = UnixDatagram::unbound().unwrap();
        let line = format!("<11>web[5]: syslog {round}");
        syslog
            .send_to(line.as_bytes(), bed.folder.path().join("log"))
            .unwrap();
        bed.journal.inbox().is_taken().await;
        bed.logs.settle(Tenant::system()).await.unwrap();
        let told = messages(&bed.entries(JournalQuery::default()).await);
        for kind in ["stream", "native", "syslog"] {
            let wanted = format!("{kind} {round}");
            assert!(told.contains(&wanted), "no {wanted} among {}", told.len());
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    flood.join().unwrap();
}

/// What was sent while there was no daemon is there with the next one, and a connection goes on.
#[tokio::test]
async fn sockets_connections_and_what_was_on_its_way_outlive_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Arc::new(Shelf::default());
    let open = || Logs::start(&folder.path().join("logs"), LogsConfig::default()).unwrap();
    let begin = async |logs: &Logs| {
        let config = config(folder.path(), RateLimit::default());
        start_keeping(config, logs, shelf.clone()).await
    };
    let native = || {
        let socket = UnixDatagram::unbound().unwrap();
        let path = folder.path().join("journal/socket");
        socket.connect(path).unwrap();
        socket
    };
    let logs = open();
    let journal = begin(&logs).await;
    let mut stream = UnixStream::connect(folder.path().join("journal/stdout")).unwrap();
    write!(stream, "web\n\n3\n0\n0\n0\n0\nbefore\n").unwrap();
    let socket = native();
    socket.send(b"MESSAGE=first\n").unwrap();
    journal.inbox().is_taken().await;
    // The daemon's end: its threads, the mover among them, are gone without another word.
    let inbox = journal.inbox();
    drop(journal);
    inbox.asks.closed().await;
    logs.stop().await.unwrap();
    drop(logs);
    assert_eq!(shelf.names().len(), 6, "{:?}", shelf.names());
    // A frame that was cut off by that end.
    let pipe = shelf.left().await.unwrap().into_iter();
    let pipe = pipe
        .into_iter()
        .find(|it| it.name.contains("write end"))
        .unwrap();
    rustix::io::write(&pipe.fd, b"torn").unwrap();
    drop(pipe);
    socket.send(b"MESSAGE=meanwhile\n").unwrap();
    native().send(b"MESSAGE=by another\n").unwrap();
    writeln!(stream, "a line").unwrap();
    let logs = open();
    let journal = begin(&logs).await;
    writeln!(stream, "after").unwrap();
    journal.inbox().is_taken().await;
    logs.settle(Tenant::system()).await.unwrap();
    let mut items = read(&logs, JournalQuery::default()).await.unwrap();
    let mut entries = Vec::new();
    while let Some(item) = items.next().await {
        entries.push(item.unwrap().0);
    }
    let mut told = messages(&entries);
    told.sort();
    let all = [
        "a line",
        "after",
        "before",
        "by another",
        "first",
        "meanwhile",
    ];
    assert_eq!(told, all);
    let line = entries
        .iter()
        .find(|it| text(it, "MESSAGE") == "after")
        .unwrap();
    assert_eq!(text(line, "PRIORITY"), "3");
    assert_eq!(text(line, "SYSLOG_IDENTIFIER"), "web");
    // One that ends is kept no longer.
    drop(stream);
    let deadline = Instant::now() + PATIENCE;
    while shelf.names().len() > 5 {
        assert!(Instant::now() < deadline, "{:?}", shelf.names());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Where a socket's file is gone, another one takes the place of the one that leads nowhere.
#[tokio::test]
async fn a_socket_without_its_file_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Arc::new(Shelf::default());
    let logs = Logs::start(&folder.path().join("logs"), LogsConfig::default()).unwrap();
    let config = || config(folder.path(), RateLimit::default());
    let path = folder.path().join("journal/socket");
    drop(start_keeping(config(), &logs, shelf.clone()).await);
    std::fs::remove_file(&path).unwrap();
    let journal = start_keeping(config(), &logs, shelf.clone()).await;
    let socket = UnixDatagram::unbound().unwrap();
    socket.send_to(b"MESSAGE=anew\n", &path).unwrap();
    journal.inbox().is_taken().await;
    assert_eq!(shelf.names().len(), 5, "{:?}", shelf.names());
}

#[tokio::test]
async fn what_the_daemon_says_is_an_entry_that_no_sender_can_forge() {
    let (speaker, words) = own_words();
    // Before there is a journal, and from a thread that stores it.
    speaker.say(4, b"early");
    let storing = std::thread::Builder::new().name("log-mover".to_owned());
    let silent = speaker.clone();
    storing
        .spawn(move || silent.say(3, b"to myself"))
        .unwrap()
        .join()
        .unwrap();
    let bed = bed_saying(words).await;
    bed.all(1).await;
    bed.native()
        .send(b"MESSAGE=forged\nSYSLOG_IDENTIFIER=auraed\n_TRANSPORT=driver\n")
        .unwrap();
    bed.all(2).await;
    speaker.say(6, b"later");
    let entries = bed.all(3).await;
    assert_eq!(messages(&entries), ["early", "forged", "later"]);
    let transports: Vec<String> = entries.iter().map(|it| text(it, "_TRANSPORT")).collect();
    assert_eq!(transports, ["driver", "journal", "driver"]);
    assert_eq!(text(&entries[0], "PRIORITY"), "4");
    assert_eq!(text(&entries[0], "_PID"), std::process::id().to_string());
}

#[tokio::test]
async fn more_than_waits_is_counted_and_told() {
    let (speaker, words) = own_words();
    for number in 0..2000 {
        speaker.say(6, number.to_string().as_bytes());
    }
    let bed = bed_saying(words).await;
    let said = messages(&bed.all(1025).await);
    assert_eq!(said.first().unwrap(), "0");
    let told = said.iter().find(|it| it.starts_with("Suppressed")).unwrap();
    assert_eq!(told, "Suppressed 976 messages from auraed");
}
