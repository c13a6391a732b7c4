// SPDX-License-Identifier: Apache-2.0
//! One QEMU process: how it is started, waited for and ended.
//!
//! It knows kernels, disks and channels, not what runs on them; that is [`crate::node`].

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::agent::PORT;
use crate::exec;

/// What QEMU's monitor prints when it has carried out a command.
const PROMPT: &[u8] = b"(qemu) ";
/// The virtual processors take turns in one thread. With a thread each (`thread=multi`), a
/// processor may go on with the translation of an instruction that another has replaced since: the
/// kernel patches its own code while it runs, with a breakpoint in between, and such a processor
/// meets the breakpoint for ever. The node stands still, busy, without a word on its console. The
/// first and the last group with a quota of the processor make the kernel patch `update_curr`,
/// which runs at each tick: three nodes of three that set and lifted a quota in a loop stood still
/// within a minute (QEMU 7.2, Linux 6.1), and none did whose loop patched nothing, or in one
/// thread.
const TRANSLATOR: &str = "tcg,thread=single";
/// The monitor answers at once, or QEMU hangs.
const MONITOR_DEADLINE: Duration = Duration::from_secs(10);

/// What runs the guest's instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accel {
    /// The processor's own virtualisation.
    Kvm,
    /// QEMU's translator, without virtualisation.
    Tcg,
}

impl Accel {
    /// Its name in QEMU's words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// Where the machine's console goes.
#[derive(Clone, Debug)]
pub enum Console {
    /// To the terminal that this program has; Ctrl-a x ends the machine.
    Terminal,
    /// To the end of a file.
    File(PathBuf),
    /// The same, and [`Machine::type_in`] types there.
    Typed(PathBuf),
}

/// A raw disk of a machine.
#[derive(Clone, Debug)]
pub enum Disk {
    /// What the machine writes is gone with it: the file isn't written to.
    Fresh(PathBuf),
    /// What the machine writes is in the file.
    Kept(PathBuf),
}

/// A machine to start. Its reboot ends it: QEMU's translator would throw the code of the first boot
/// away page by page, and its second boot crawls. For another boot, start another machine.
#[derive(Clone, Debug)]
pub struct Spec {
    /// What runs the guest's instructions.
    pub accel: Accel,
    /// The path of the kernel's image.
    pub kernel: PathBuf,
    /// The path of the initramfs.
    pub initramfs: Option<PathBuf>,
    /// The root disk.
    pub disk: Option<Disk>,
    /// The kernel's command line.
    pub append: String,
    /// The number of virtual processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Where the console's output goes.
    pub console: Console,
    /// A Unix socket that is listened on already, for the agent.
    pub agent: Option<PathBuf>,
    /// Where QEMU's monitor listens: a Unix socket that QEMU makes.
    pub monitor: Option<PathBuf>,
    /// A port of the host's loopback address that leads to one of the machine.
    pub forward: Option<Forward>,
}

/// A port of the host's loopback address and the machine's that it leads to. Another machine
/// reaches it at [`HOST`].
#[derive(Clone, Copy, Debug)]
pub struct Forward {
    /// On the host.
    pub host: u16,
    /// In the machine.
    pub guest: u16,
}

/// The host's loopback address as machines see it.
pub const HOST: &str = "10.0.2.2";

/// A running machine; killed when dropped.
#[derive(Debug)]
pub struct Machine {
    child: Child,
}

impl Machine {
    /// Starts it.
    ///
    /// # Errors
    /// When QEMU can't be started.
    pub fn start(spec: &Spec) -> Result<Self> {
        let mut command = command(spec);
        match spec.console {
            Console::Terminal => command.stdin(Stdio::inherit()),
            Console::File(_) => command.stdin(Stdio::null()),
            Console::Typed(_) => command.stdin(Stdio::piped()).stdout(Stdio::null()),
        };
        let child = command
            .spawn()
            .context("can't start setpriv and qemu-system-x86_64")?;
        Ok(Self { child })
    }

    /// The process id of QEMU.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// QEMU's exit status, once the machine is off; none if it still runs after this time.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        exec::wait(&mut self.child, limit)
    }

    /// Types that on a console that is [`Console::Typed`].
    ///
    /// # Errors
    /// When it is none, or the machine is off.
    pub fn type_in(&mut self, text: &str) -> Result<()> {
        let keyboard = self.child.stdin.as_mut().context("no one can type there")?;
        keyboard.write_all(text.as_bytes())?;
        Ok(keyboard.flush()?)
    }

    /// Cuts the power.
    ///
    /// # Errors
    /// When QEMU can't be killed or waited for.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.kill(); // it may have ended long ago
    }
}

/// Has QEMU's monitor at this socket do something, in the monitor's words, and returns what it says
/// when it has.
///
/// # Errors
/// When there is no monitor, or it doesn't answer within ten seconds.
pub fn command_monitor(socket: &Path, words: &str) -> Result<String> {
    let mut monitor = UnixStream::connect(socket).context("QEMU's monitor")?;
    monitor.set_read_timeout(Some(MONITOR_DEADLINE))?;
    read_prompt(&mut monitor)?;
    monitor.write_all(format!("{words}\n").as_bytes())?;
    read_prompt(&mut monitor)
}

fn read_prompt(monitor: &mut UnixStream) -> Result<String> {
    let (mut said, mut part) = (Vec::new(), [0; 512]);
    while !said.ends_with(PROMPT) {
        let count = monitor.read(&mut part).context("QEMU's monitor")?;
        ensure!(count > 0, "QEMU's monitor hung up");
        said.extend_from_slice(part.get(..count).unwrap_or_default());
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// QEMU's command line. `setpriv` makes it die with us, whatever kills us.
fn command(spec: &Spec) -> Command {
    let mut qemu = Command::new("setpriv");
    qemu.args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64"]);
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none"]);
    match spec.accel {
        Accel::Kvm => qemu.args(["-accel", "kvm", "-cpu", "host"]),
        Accel::Tcg => qemu.args(["-accel", TRANSLATOR, "-cpu", "max"]),
    };
    qemu.arg("-smp")
        .arg(spec.cpus.to_string())
        .arg("-m")
        .arg(spec.memory_mib.to_string());
    qemu.arg("-kernel")
        .arg(&spec.kernel)
        .arg("-append")
        .arg(&spec.append);
    if let Some(initramfs) = &spec.initramfs {
        qemu.arg("-initrd").arg(initramfs);
    }
    if let Some(disk) = &spec.disk {
        // The host's page cache outlives QEMU, however it ends: what the machine has written is
        // there at its next start without the host's disk being waited for.
        let (file, how) = match disk {
            Disk::Fresh(file) => (file, "snapshot=on"),
            Disk::Kept(file) => (file, "snapshot=off,cache=unsafe"),
        };
        let file = comma_safe(file);
        qemu.arg("-drive")
            .arg(format!("file={file},format=raw,if=virtio,{how}"));
    }
    let forward = spec
        .forward
        .map(|Forward { host, guest }| format!(",hostfwd=tcp:127.0.0.1:{host}-:{guest}"));
    let network = format!("user,id=net{}", forward.unwrap_or_default());
    qemu.args(["-netdev", &network]);
    qemu.args(["-device", "virtio-net-pci,netdev=net,romfile="]);
    match &spec.console {
        Console::Terminal => qemu.args(["-serial", "mon:stdio"]),
        Console::File(file) => {
            let path = comma_safe(file);
            qemu.arg("-chardev")
                .arg(format!("file,id=console,path={path},append=on"));
            qemu.args(["-serial", "chardev:console"])
        }
        Console::Typed(file) => {
            let path = comma_safe(file);
            qemu.arg("-chardev").arg(format!(
                "stdio,id=console,signal=off,logfile={path},logappend=on"
            ));
            qemu.args(["-serial", "chardev:console"])
        }
    };
    if let Some(socket) = &spec.agent {
        let path = comma_safe(socket);
        qemu.args(["-device", "virtio-serial-pci"]);
        qemu.arg("-chardev")
            .arg(format!("socket,id=agent,path={path}"));
        qemu.arg("-device")
            .arg(format!("virtserialport,chardev=agent,name={PORT}"));
    }
    if let Some(socket) = &spec.monitor {
        let path = comma_safe(socket);
        qemu.arg("-monitor")
            .arg(format!("unix:{path},server=on,wait=off"));
    }
    qemu.arg("-no-reboot");
    qemu
}

/// QEMU splits its options at commas; a doubled one stands for itself.
fn comma_safe(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}
