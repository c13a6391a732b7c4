// SPDX-License-Identifier: Apache-2.0
//! The last words of containers: what a program has left, when it has ended, in a file that it was
//! given, or else in its log; as Kubernetes' kubelet has them (`terminationMessagePath`).
//!
//! ```text
//! pods/UID/.words/NAME   a tmpfs of the pod, with a file for each container, mounted in it
//! pods/UID/.told/NAME    what was found at the end of the last run; no container sees it
//! ```
//!
//! A container is not trusted: of its file the end is read, which is bounded, through no link. It
//! can't put another file there, because its mount is of the file alone, which it may detach from
//! itself at most; it can fill the tmpfs, which has a size, with pages of its own memory. The
//! daemon may die between the end of a run and here: the file outlives it, and is emptied only for
//! the next run.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use model::error::Error;
use model::name::Uid;
use model::object::Kind;
use model::pod::PodSpec;
use model::pod::debug::MAX_DEBUG;
use model::pod::spec::Container;
use model::quota::Storage;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::volumes::{Volumes, folder};
use super::{CellSandbox, GET};
use crate::sandbox::Ran;

/// The folder of the files; a volume's name has no dot in it.
const WORDS: &str = ".words";
/// The folder of what they said.
const TOLD: &str = ".told";
/// What the tmpfs has for each container, in bytes.
const ROOM: u64 = 16 << 10;
/// What is read of a file, in bytes.
const MOST: u16 = 4096;
/// What is told of all containers of a pod, in bytes.
const MOST_OF_POD: usize = 12 << 10;
/// What is read of a log, in bytes and lines.
const MOST_OF_LOG: (usize, usize) = (2048, 80);

impl Volumes {
    /// The file of a container, which is made where it isn't there.
    pub(super) fn word(&self, pod: &PodSpec, name: &str) -> Result<PathBuf, Error> {
        let failed = |e: io::Error| {
            let message = format!("the file for the termination message can't be made: {e}");
            Error::internal(message).errno(e.raw_os_error().unwrap_or_default())
        };
        let above = self.folder.join(WORDS);
        // Two containers that are made at once would mount one over the other.
        let _one = self.making.lock();
        folder(&above, 0o700).map_err(failed)?;
        let containers = u64::try_from(pod.all().count() + MAX_DEBUG).unwrap_or(u64::MAX);
        let storage = Storage::in_memory(containers.saturating_mul(ROOM));
        let ids = self.owner.ids();
        runtime::volume::mount(&above, storage, 0o700, ids, self.owner.label())?;
        let path = above.join(name);
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::open(&path, new, Mode::empty()) {
            Ok(_) => {}
            Err(Errno::EXIST) => return Ok(path),
            Err(errno) => return Err(failed(errno.into())),
        }
        // Whichever user the program is.
        self.owner.give(&path, 0o666).map_err(failed)?;
        Ok(path)
    }

    fn open_word(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let at = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let at = rustix::fs::open(self.folder.join(WORDS), at, Mode::empty())?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        rustix::fs::openat2(at, name, flags, Mode::empty(), within)
    }

    /// Empties the file for the next run.
    fn empty_word(&self, name: &str) -> io::Result<()> {
        match self.open_word(name, OFlags::WRONLY | OFlags::TRUNC) {
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The end of what the file says; nothing where it isn't there.
    fn read_word(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut file = match self.open_word(name, OFlags::RDONLY) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(errno) => return Err(errno.into()),
        };
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(MOST.into())))?;
        let mut word = Vec::new();
        file.take(MOST.into()).read_to_end(&mut word)?;
        Ok(word)
    }

    /// Keeps what a run has said. It gets its name last, so that one that is there is whole.
    fn keep_word(&self, name: &str, restarts: u32, word: &str) -> io::Result<()> {
        let above = self.folder.join(TOLD);
        folder(&above, 0o700)?;
        let draft = above.join(format!(".{name}"));
        std::fs::write(&draft, format!("{restarts}\n{word}"))?;
        std::fs::rename(draft, above.join(name))
    }

    /// What was kept of the run that was started again so often.
    pub(super) fn kept_word(&self, name: &str, restarts: u32) -> Option<String> {
        let kept = std::fs::read_to_string(self.folder.join(TOLD).join(name)).ok()?;
        let (of, word) = kept.split_once('\n')?;
        (of == restarts.to_string()).then(|| word.to_owned())
    }
}

impl CellSandbox {
    /// Before a run: what an earlier one has said is not this one's.
    pub(super) async fn forget_word(&self, container: &Container) -> Result<(), Error> {
        if container.message_path().is_none() {
            return Ok(());
        }
        let (volumes, name) = (self.volumes.clone(), container.name.clone());
        let emptied = tokio::task::spawn_blocking(move || volumes.empty_word(&name)).await;
        let emptied = emptied.map_err(|e| Error::internal(e.to_string()))?;
        emptied.map_err(|e| {
            let message = format!("the file for the termination message can't be emptied: {e}");
            Error::internal(message).errno(e.raw_os_error().unwrap_or_default())
        })
    }

    pub(super) async fn last_word_now(&self, container: &Container, ran: &Ran) -> String {
        let found = match container.message_path() {
            Some(path) => self.word_of_file(container, path).await,
            None => String::new(),
        };
        let from_log = container.termination_message_from_log && ran.failed;
        let found = match found.is_empty() && from_log {
            true => self.word_of_log(ran).await,
            false => found,
        };
        let containers = self.spec().all().count().max(1);
        let word = begin_of(&found, MOST_OF_POD / containers).to_owned();
        if !word.is_empty() {
            self.keep_word(container, ran.restarts, word.clone()).await;
        }
        word
    }

    async fn word_of_file(&self, container: &Container, path: &str) -> String {
        let (volumes, name) = (self.volumes.clone(), container.name.clone());
        let read = tokio::task::spawn_blocking(move || volumes.read_word(&name)).await;
        match read.unwrap_or_else(|e| Err(io::Error::other(e))) {
            Ok(word) => String::from_utf8_lossy(&word).into_owned(),
            // As the kubelet has it: who looks for a word is told why there is none.
            Err(error) => format!("the termination message at {path} can't be read: {error}"),
        }
    }

    async fn word_of_log(&self, ran: &Ran) -> String {
        match self.end_of_log(&ran.place, ran.uid).await {
            Ok(end) => last_lines(&String::from_utf8_lossy(&end), MOST_OF_LOG.1).to_owned(),
            Err(error) => format!("the log can't be read: {error}"),
        }
    }

    async fn end_of_log(&self, place: &str, uid: Uid) -> Result<Vec<u8>, Error> {
        let path = self.main(place)?;
        let target = self.target(path.clone(), Some(uid), Kind::Executable);
        let permit = self.permit(GET, &path)?;
        let read = self.runtime.last_output(permit, &target, MOST_OF_LOG.0);
        read.await
    }

    async fn keep_word(&self, container: &Container, restarts: u32, word: String) {
        let (volumes, name) = (self.volumes.clone(), container.name.clone());
        let keep = move || volumes.keep_word(&name, restarts, &word);
        let kept = tokio::task::spawn_blocking(keep).await;
        if let Err(error) = kept.unwrap_or_else(|e| Err(io::Error::other(e))) {
            // This daemon tells it; the next one doesn't.
            tracing::warn!(pod = %self.path, %error, "a termination message is not kept");
        }
    }
}

/// The last lines of a text; what follows the last newline is a line, too.
fn last_lines(text: &str, lines: usize) -> &str {
    let ends = text.trim_end_matches('\n').rmatch_indices('\n');
    match ends.map(|(at, _)| at + 1).nth(lines.saturating_sub(1)) {
        Some(at) => text.get(at..).unwrap_or_default(),
        None => text,
    }
}

/// What of a text is in so many bytes, without half a letter.
fn begin_of(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::pod::Draft;

    fn volumes(folder: &std::path::Path) -> Volumes {
        let spec = Draft {
            containers: vec![Container {
                name: "app".to_owned(),
                entrypoint: vec!["true".to_owned()],
                ..Container::default()
            }],
            ..Draft::default()
        };
        let volumes = Volumes::new(folder, Uid([1; 16]), 0, &spec.try_into().unwrap());
        std::fs::create_dir_all(volumes.folder.join(WORDS)).unwrap();
        volumes
    }

    #[test]
    fn of_a_file_the_end_is_read_and_no_link_is_followed() {
        let above = tempfile::tempdir().unwrap();
        let volumes = volumes(above.path());
        let at = |name: &str| volumes.folder.join(WORDS).join(name);
        assert_eq!(volumes.read_word("app").unwrap(), b"");
        volumes.empty_word("app").unwrap();
        std::fs::write(at("app"), format!("{}end", "x".repeat(1 << 20))).unwrap();
        let word = volumes.read_word("app").unwrap();
        assert_eq!(word.len(), usize::from(MOST));
        assert!(word.ends_with(b"xend"));
        volumes.empty_word("app").unwrap();
        assert_eq!(volumes.read_word("app").unwrap(), b"");
        let secret = above.path().join("secret");
        std::fs::write(&secret, "of the node").unwrap();
        std::os::unix::fs::symlink(&secret, at("link")).unwrap();
        volumes.read_word("link").unwrap_err();
        volumes.empty_word("link").unwrap_err();
        assert_eq!(std::fs::read(&secret).unwrap(), b"of the node");
    }

    #[test]
    fn what_was_said_is_kept_for_the_run_that_said_it() {
        let above = tempfile::tempdir().unwrap();
        let volumes = volumes(above.path());
        volumes.keep_word("app", 3, "line\nline").unwrap();
        assert_eq!(volumes.kept_word("app", 3).as_deref(), Some("line\nline"));
        assert_eq!(volumes.kept_word("app", 4), None);
        assert_eq!(volumes.kept_word("other", 3), None);
    }

    #[test]
    fn last_lines_and_whole_letters_are_told() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(last_lines("a\nb\nc", 1), "c");
        assert_eq!(last_lines("a\nb", 80), "a\nb");
        assert_eq!(last_lines("", 80), "");
        assert_eq!(begin_of("aä", 2), "a");
        assert_eq!(begin_of("aä", 3), "aä");
        assert_eq!(begin_of("a", 3), "a");
    }
}
