// SPDX-License-Identifier: Apache-2.0
//! Beside Debian's own bus, which a test starts for itself.

use std::process::{Child, Command, Stdio};

use super::*;

/// A bus of the test's own.
struct Daemon {
    folder: PathBuf,
    child: Child,
}

impl Daemon {
    fn start(folder: &Path) -> Option<Daemon> {
        let program = Path::new("/usr/bin/dbus-daemon");
        if !program.exists() {
            eprintln!("skipped: dbus-daemon is not installed");
            return None;
        }
        std::fs::create_dir_all(folder).unwrap();
        let at = folder.join("bus");
        let config = folder.join("bus.conf");
        let text = format!(
            "<busconfig><listen>unix:path={}</listen><auth>EXTERNAL</auth><policy context=\"default\">\
             <allow send_destination=\"*\"/><allow receive_sender=\"*\"/><allow own=\"*\"/></policy>\
             </busconfig>",
            at.display()
        );
        std::fs::write(&config, text).unwrap();
        let child = Command::new(program)
            .arg(format!("--config-file={}", config.display()))
            .args(["--nofork", "--nopidfile"])
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let folder = folder.to_owned();
        Some(Daemon { folder, child })
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("bus")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(self.socket());
    }
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("aurae-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// A program on the bus, with a name.
async fn owner(path: &Path, name: &str) -> UnixStream {
    let mut stream = loop {
        match handshake(path).await {
            Ok(stream) => break stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let mut request = wire::call(2, "RequestName", &[name]);
    // `su`: the text, and no flags. The signature is the last field, and the body comes behind it.
    let at = request
        .windows(3)
        .rposition(|it| it == [1, b's', 0])
        .unwrap();
    request.splice(at..at + 3, [2, b's', b'u', 0]);
    let fields = u32::from_le_bytes(request[12..16].try_into().unwrap()) + 1;
    request[12..16].copy_from_slice(&fields.to_le_bytes());
    // One byte of padding less, where there is one.
    let body = 4 + name.len() + 1;
    let header = 16 + usize::try_from(fields).unwrap();
    let mut whole = request[..header].to_vec();
    whole.resize(header.next_multiple_of(8), 0);
    let text = request[request.len() - body..].to_vec();
    whole.extend(text);
    let from = header.next_multiple_of(8);
    while !(whole.len() - from).is_multiple_of(4) {
        whole.push(0);
    }
    whole.extend(0_u32.to_le_bytes());
    let length = u32::try_from(whole.len() - from).unwrap();
    whole[4..8].copy_from_slice(&length.to_le_bytes());
    stream
        .write_all(&wire::call(1, "Hello", &[]))
        .await
        .unwrap();
    stream.write_all(&whole).await.unwrap();
    stream
}

async fn soon(told: &mut mpsc::Receiver<Told>) -> (String, bool) {
    let told = tokio::time::timeout(Duration::from_secs(20), told.recv());
    let told = told.await.unwrap().unwrap();
    (told.name, told.owned)
}

fn of(name: &str, owned: bool) -> (String, bool) {
    (name.to_owned(), owned)
}

#[tokio::test]
async fn a_name_comes_and_goes_with_its_owner_and_over_a_new_bus() {
    let folder = folder("bus");
    let Some(daemon) = Daemon::start(&folder) else {
        return;
    };
    let (bus, mut told) = Bus::new(daemon.socket());
    bus.watch("org.x.One".to_owned()).await;
    assert_eq!(soon(&mut told).await, of("org.x.One", false));
    let one = owner(&daemon.socket(), "org.x.One").await;
    assert_eq!(soon(&mut told).await, of("org.x.One", true));
    bus.watch("org.x.Two".to_owned()).await;
    assert_eq!(soon(&mut told).await, of("org.x.Two", false));
    drop(one);
    assert_eq!(soon(&mut told).await, of("org.x.One", false));
    // Another bus takes its place: it is asked for both.
    drop(daemon);
    let daemon = Daemon::start(&folder).unwrap();
    let mut both = [soon(&mut told).await, soon(&mut told).await];
    both.sort();
    assert_eq!(both, [of("org.x.One", false), of("org.x.Two", false)]);
    let _two = owner(&daemon.socket(), "org.x.Two").await;
    assert_eq!(soon(&mut told).await, of("org.x.Two", true));
    drop(daemon);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_bus_that_comes_late_is_found() {
    let folder = folder("late-bus");
    let (bus, mut told) = Bus::new(folder.join("bus"));
    bus.watch("org.x.One".to_owned()).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let Some(daemon) = Daemon::start(&folder) else {
        return;
    };
    assert_eq!(soon(&mut told).await, of("org.x.One", false));
    drop(daemon);
    std::fs::remove_dir_all(folder).unwrap();
}
