// SPDX-License-Identifier: Apache-2.0
//! The folders that the node makes for a pod: its empty volumes, the files that its spec brings,
//! its `/etc/hosts`. They are below `pods/UID` of the state directory, belong to the ids of the
//! pod's root, and go with the pod. A cell sees them by mounts, never by their path.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use model::cell::{Access, Mount};
use model::error::{Error, Reason};
use model::name;
use model::pod::PodSpec;
use model::pod::spec::Container;
use model::pod::volume::{Files, Host, HostKind, Source, VolumeMount};
use rustix::fs::{Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

/// The folders of one pod.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    folder: PathBuf,
    /// The node's id of the pod's root.
    root_id: u32,
}

impl Volumes {
    pub(crate) fn new(pods: &Path, uid: name::Uid, root_id: u32) -> Self {
        let folder = pods.join(uid.to_string());
        Self { folder, root_id }
    }

    /// Makes what isn't there yet. What is there may be a volume with something in it.
    pub(crate) fn make(&self, spec: &PodSpec) -> io::Result<()> {
        folder(&self.folder, 0o700)?;
        for volume in &spec.volumes {
            let path = self.folder.join(&volume.name);
            match &volume.source {
                Source::Empty => self.own_folder(&path, 0o777)?,
                Source::Files(files) => self.files(&path, files)?,
                Source::Host(_) => {}
            }
        }
        // A volume's name has no dot in it.
        self.file(&self.folder.join(HOSTS), &hosts(spec), 0o644)
    }

    fn own_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        if !folder(path, mode)? {
            return Ok(());
        }
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
        chown(path, Some(self.root_id), Some(self.root_id))
    }

    fn files(&self, folder: &Path, files: &Files) -> io::Result<()> {
        self.own_folder(folder, 0o755)?;
        for (path, text) in &files.files {
            let path = folder.join(path);
            let above = path.ancestors().skip(1);
            let mut above: Vec<_> = above.take_while(|it| *it != folder).collect();
            above.reverse();
            for above in above {
                self.own_folder(above, 0o755)?;
            }
            self.file(&path, text, files.effective_mode())?;
        }
        Ok(())
    }

    /// A file that is there is whole: it gets its name last.
    fn file(&self, path: &Path, text: &str, mode: u32) -> io::Result<()> {
        let draft = self.folder.join(".draft");
        std::fs::write(&draft, text)?;
        std::fs::set_permissions(&draft, Permissions::from_mode(mode))?;
        chown(&draft, Some(self.root_id), Some(self.root_id))?;
        std::fs::rename(&draft, path)
    }

    /// Removes all of it; what isn't there is removed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// The mounts of a container.
    pub(crate) fn mounts(&self, pod: &PodSpec, container: &Container) -> Result<Vec<Mount>, Error> {
        let mut mounts = Vec::new();
        for mount in &container.mounts {
            let volume = pod.volumes.iter().find(|it| it.name == mount.volume);
            let Some(volume) = volume else {
                let message = format!("the pod has no volume {}", mount.volume);
                return Err(Error::internal(message));
            };
            mounts.push(match &volume.source {
                Source::Empty => self.own(mount, mount.read_only)?,
                Source::Files(_) => self.own(mount, true)?,
                Source::Host(host) => of_node(host, mount)?,
            });
        }
        let has_hosts = mounts.iter().any(|it| it.target == "/etc/hosts");
        if !has_hosts && (!pod.host_aliases.is_empty() || !container.image.is_empty()) {
            let source = self.folder.join(HOSTS);
            mounts.push(plain(&source, "/etc/hosts", Access::OwnRead));
        }
        Ok(mounts)
    }

    fn own(&self, mount: &VolumeMount, read_only: bool) -> Result<Mount, Error> {
        let volume = self.folder.join(&mount.volume);
        let source = match mount.sub_path.as_str() {
            "" => volume,
            sub_path => self.part(&volume, sub_path)?,
        };
        let access = match read_only {
            true => Access::OwnRead,
            false => Access::Own,
        };
        Ok(plain(&source, &mount.path, access))
    }

    /// A part of a volume, made as a folder where it isn't there. What is in the volume is the
    /// containers', who may change it meanwhile: each step is one from an open folder, and no link
    /// is followed, here and where the mount opens its source.
    fn part(&self, volume: &Path, sub_path: &str) -> Result<PathBuf, Error> {
        let failed = |errno: Errno| {
            let problem = match errno {
                Errno::LOOP | Errno::XDEV => "leads over a symbolic link of the volume".to_owned(),
                errno => io::Error::from(errno).to_string(),
            };
            let message = format!("{sub_path} of a volume: {problem}");
            Error::new(Reason::WrongState, message).errno(errno.raw_os_error())
        };
        let (flags, mode) = (OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let mut at = rustix::fs::open(volume, flags, mode).map_err(failed)?;
        for part in sub_path.split('/') {
            let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let open = || rustix::fs::openat2(&at, part, flags, mode, within);
            let next = match open() {
                Err(Errno::NOENT) => {
                    rustix::fs::mkdirat(&at, part, Mode::RWXU).map_err(failed)?;
                    let made = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                    let made = rustix::fs::openat2(&at, part, made, mode, within);
                    let made = made.map_err(failed)?;
                    let open = Mode::RWXU | Mode::RWXG | Mode::RWXO;
                    rustix::fs::fchmod(&made, open).map_err(failed)?;
                    let (uid, gid) = (Uid::from_raw(self.root_id), Gid::from_raw(self.root_id));
                    rustix::fs::fchown(&made, Some(uid), Some(gid)).map_err(failed)?;
                    made
                }
                found => found.map_err(failed)?,
            };
            at = next;
        }
        Ok(volume.join(sub_path))
    }
}

/// Where the pod's `/etc/hosts` is.
const HOSTS: &str = ".hosts";

fn hosts(spec: &PodSpec) -> String {
    let mut text = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n".to_owned();
    for alias in &spec.host_aliases {
        text.push_str(&format!("{} {}\n", alias.ip, alias.names.join(" ")));
    }
    text
}

/// Whether it was made now.
fn folder(path: &Path, mode: u32) -> io::Result<bool> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn plain(source: &Path, target: &str, access: Access) -> Mount {
    Mount {
        source: source.display().to_string(),
        target: target.to_owned(),
        access,
        owner_uid: None,
        owner_gid: None,
        allow_root_owner: false,
    }
}

fn of_node(host: &Host, mount: &VolumeMount) -> Result<Mount, Error> {
    let source = match mount.sub_path.as_str() {
        "" => host.path.clone(),
        sub_path => format!("{}/{sub_path}", host.path.trim_end_matches('/')),
    };
    let wrong = |problem: String| {
        Error::invalid("pod.spec.volumes.host.path", problem)
            .hint("name an existing file or folder of the node by its real path")
    };
    let found = std::fs::symlink_metadata(&host.path);
    let found = found.map_err(|e| wrong(format!("{}: {e}", host.path)))?;
    let (is, what) = match host.kind {
        HostKind::Any => (true, ""),
        HostKind::Folder => (found.is_dir(), "folder"),
        HostKind::File => (found.is_file(), "regular file"),
        HostKind::Socket => (found.file_type().is_socket(), "socket"),
    };
    if !is {
        let problem = format!("{} is no {what} (mode {:o})", host.path, found.mode());
        return Err(wrong(problem));
    }
    let writes = host.owner_uid.is_some() && !mount.read_only;
    Ok(match writes {
        false => Mount {
            source,
            ..plain(Path::new(""), &mount.path, Access::Read)
        },
        true => Mount {
            source,
            owner_uid: host.owner_uid,
            owner_gid: host.owner_gid,
            // Whoever names uid 0 in a pod's volume is an administrator, and has named it.
            allow_root_owner: host.owner_uid == Some(0),
            ..plain(Path::new(""), &mount.path, Access::Write)
        },
    })
}
