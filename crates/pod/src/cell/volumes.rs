// SPDX-License-Identifier: Apache-2.0
//! The folders that the node makes for a pod: its empty volumes, the files that its spec brings
//! ([`files`]), its `/etc/hosts`. They are below `pods/UID` of the state directory, belong to the
//! ids of the pod's root, and go with the pod. A cell sees them by mounts, never by their path.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::cell::{Access, Mount, Propagation};
use model::error::{Error, Reason};
use model::name;
use model::pod::env::Facts;
use model::pod::spec::Container;
use model::pod::volume::{Empty, Source, VolumeMount};
use model::pod::{PodSpec, sub_path, told};
use rustix::fs::{Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

use super::{files, host, remove};

/// Where SELinux keeps the label of a file.
const LABEL: &str = "security.selinux";

/// Whose the files of a pod are, in ids of the node, and SELinux's label of them.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    root_id: u32,
    group: Option<u32>,
    label: String,
}

impl Owner {
    /// `root_id`: of the pod's root; `group`: that may have the volumes, too, of the pod's ids;
    /// `label`: of SELinux's, empty for what its policy says.
    pub(super) fn new(root_id: u32, group: Option<u32>, label: &str) -> Self {
        let label = label.to_owned();
        Self {
            root_id,
            group,
            label,
        }
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn ids(&self) -> (u32, u32) {
        let group = self.group.unwrap_or(0);
        (self.root_id, self.root_id.saturating_add(group))
    }

    pub(super) fn give(&self, path: &Path, mode: u32) -> io::Result<()> {
        let (uid, gid) = self.ids();
        chown(path, Some(uid), Some(gid))?;
        if !self.label.is_empty() {
            let none = rustix::fs::XattrFlags::empty();
            rustix::fs::lsetxattr(path, LABEL, self.label.as_bytes(), none)?;
        }
        // After the owner: changing that takes set-id bits away.
        std::fs::set_permissions(path, Permissions::from_mode(mode))
    }

    /// The mode of a folder: what is made in it is the group's, too.
    fn folder_mode(&self, mode: u32) -> u32 {
        mode | self.group.map_or(0, |_| 0o2000)
    }

    /// Makes a folder, where there is none.
    pub(super) fn folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        match folder(path, mode)? {
            true => self.give(path, self.folder_mode(mode)),
            false => Ok(()),
        }
    }

    /// Writes a file that isn't there.
    pub(super) fn file(&self, path: &Path, text: &str, mode: u32) -> io::Result<()> {
        std::fs::write(path, text)?;
        self.give(path, mode | self.group.map_or(0, |_| 0o040))
    }
}

/// The folders of one pod.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    pub(super) folder: PathBuf,
    pub(super) owner: Owner,
    /// Held while a folder is mounted that several containers want.
    pub(super) making: Arc<std::sync::Mutex<()>>,
}

impl Volumes {
    /// `root_id`: the node's id of the pod's root.
    pub(crate) fn new(pods: &Path, uid: name::Uid, root_id: u32, spec: &PodSpec) -> Self {
        Self {
            folder: pods.join(uid.to_string()),
            owner: Owner::new(root_id, spec.fs_group, &spec.selinux_file_label),
            making: Arc::default(),
        }
    }

    /// Those of a pod of which no more is known, to be removed.
    pub(crate) fn left(pods: &Path, uid: name::Uid) -> Self {
        Self {
            folder: pods.join(uid.to_string()),
            owner: Owner::new(0, None, ""),
            making: Arc::default(),
        }
    }

    /// Makes what isn't there yet, and puts the spec's files in force, with the facts as they are.
    /// What is there may be a volume with something in it.
    pub(crate) fn make(&self, spec: &PodSpec, facts: &Facts) -> Result<(), Error> {
        let failed = |what: &str, e: io::Error| {
            let message = format!("{what} can't be made: {e}");
            Error::internal(message).errno(e.raw_os_error().unwrap_or_default())
        };
        folder(&self.folder, 0o700).map_err(|e| failed("the pod's folder", e))?;
        for volume in &spec.volumes {
            let path = self.folder.join(&volume.name);
            let failed = |e| failed(&format!("the volume {}", volume.name), e);
            match &volume.source {
                Source::Empty(empty) => self.empty(&path, empty)?,
                Source::Files(files) => {
                    self.own_folder(&path, 0o755).map_err(failed)?;
                    let files = told::contents(spec, files, facts);
                    files::put(&path, &files, &self.owner).map_err(failed)?;
                }
                Source::Host(_) => {}
            }
        }
        self.hosts(spec).map_err(|e| failed("/etc/hosts", e))
    }

    /// One that is there has its owner: it gets its name last.
    fn own_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        if path.exists() {
            return Ok(());
        }
        let draft = self.folder.join(".folder");
        folder(&draft, mode)?;
        self.owner.give(&draft, self.owner.folder_mode(mode))?;
        std::fs::rename(&draft, path)
    }

    fn empty(&self, path: &Path, empty: &Empty) -> Result<(), Error> {
        let failed = |e: io::Error| {
            let message = format!("an empty volume can't be made: {e}");
            Error::internal(message).errno(e.raw_os_error().unwrap_or_default())
        };
        let Some(storage) = empty.storage() else {
            return self.own_folder(path, 0o777).map_err(failed);
        };
        // Covered by what is mounted on it.
        folder(path, 0o700).map_err(failed)?;
        let (mode, ids) = (self.owner.folder_mode(0o777), self.owner.ids());
        runtime::volume::mount(path, storage, mode, ids, &self.owner.label)
    }

    /// A file that is there is whole: it gets its name last. A volume's name has no dot in it.
    fn hosts(&self, spec: &PodSpec) -> io::Result<()> {
        let (path, draft) = (self.folder.join(HOSTS), self.folder.join(".draft"));
        if path.exists() {
            return Ok(());
        }
        self.owner.file(&draft, &hosts(spec), 0o644)?;
        std::fs::rename(&draft, path)
    }

    /// Removes all of it; what isn't there is removed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove::remove(&self.folder)
    }

    /// The mounts of a container that is made now.
    pub(crate) fn mounts(
        &self,
        pod: &PodSpec,
        container: &Container,
        facts: &Facts,
    ) -> Result<Vec<Mount>, Error> {
        let mut mounts = Vec::new();
        for mount in &sub_path::expanded(container, facts)? {
            let volume = pod.volumes.iter().find(|it| it.name == mount.volume);
            let Some(volume) = volume else {
                let message = format!("the pod has no volume {}", mount.volume);
                return Err(Error::internal(message));
            };
            mounts.push(match &volume.source {
                Source::Empty(_) => self.own(mount)?,
                Source::Files(_) => self.of_files(mount)?,
                Source::Host(host) => host::mount(host, mount)?,
            });
        }
        if let Some(path) = container.message_path() {
            let source = self.word(pod, &container.name)?;
            mounts.push(plain(&source, path, Access::Own));
        }
        let has_hosts = mounts.iter().any(|it| it.target == "/etc/hosts");
        // An image's is the runtime's to bring, with the pod's name and addresses.
        if !has_hosts && !pod.host_aliases.is_empty() && container.image.is_empty() {
            let source = self.folder.join(HOSTS);
            mounts.push(plain(&source, "/etc/hosts", Access::OwnRead));
        }
        Ok(mounts)
    }

    fn of_files(&self, mount: &VolumeMount) -> Result<Mount, Error> {
        let volume = self.folder.join(&mount.volume);
        let source = match mount.sub_path.as_str() {
            "" => Ok(volume),
            sub_path => files::part(&volume, sub_path),
        };
        let source = source.map_err(|e| {
            let message = format!("the files of the volume {}: {e}", mount.volume);
            Error::internal(message).errno(e.raw_os_error().unwrap_or_default())
        })?;
        Ok(plain(&source, &mount.path, Access::OwnRead))
    }

    fn own(&self, mount: &VolumeMount) -> Result<Mount, Error> {
        let volume = self.folder.join(&mount.volume);
        let source = match mount.sub_path.as_str() {
            "" => volume,
            sub_path => self.part(&volume, sub_path)?,
        };
        let access = match mount.read_only {
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
                    let (uid, gid) = self.owner.ids();
                    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
                    rustix::fs::fchown(&made, Some(uid), Some(gid)).map_err(failed)?;
                    let open = Mode::from_raw_mode(self.owner.folder_mode(0o777));
                    rustix::fs::fchmod(&made, open).map_err(failed)?;
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
pub(super) fn folder(path: &Path, mode: u32) -> io::Result<bool> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn plain(source: &Path, target: &str, access: Access) -> Mount {
    Mount {
        source: source.display().to_string(),
        target: target.to_owned(),
        access,
        owner_uid: None,
        owner_gid: None,
        allow_root_owner: false,
        propagation: Propagation::None,
    }
}
