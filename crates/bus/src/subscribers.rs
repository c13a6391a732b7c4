// SPDX-License-Identifier: Apache-2.0
//! Who has subscribed on the bus, kept for the next daemon. A client subscribes once, when it
//! starts (logind does), and its name lives as long as its connection to the bus: the daemon's
//! death takes nothing of that away. So names are written to a file below `/run`, with the id of
//! the bus that has given them; a name of another bus means another client, and is forgotten.
//!
//! Not what subscribers missed meanwhile: they are told to look again (`Reloading`).

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// The largest file that is read: 256 names of at most 255 bytes.
const LARGEST: u64 = 128 << 10;

/// Where they are kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept(PathBuf);

impl Kept {
    pub(crate) fn at(path: PathBuf) -> Kept {
        Kept(path)
    }

    /// The names that the bus of this id has given. None where the file can't be read: who has
    /// subscribed then hears nothing until it does so again, and that is in the log.
    pub(crate) fn read(&self, bus: &str) -> BTreeSet<String> {
        match text(&self.0) {
            Ok(text) => names(&text, bus),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => {
                tracing::warn!(path = %self.0.display(), %error, "subscribers are not known");
                BTreeSet::new()
            }
        }
    }

    /// Writes them; the file is whole or the one before, whatever ends the daemon.
    pub(crate) fn write(&self, bus: &str, names: &BTreeSet<String>) {
        let mut text = format!("{bus}\n");
        for name in names {
            text.push_str(name);
            text.push('\n');
        }
        let draft = self.0.with_extension("new");
        let written = std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &self.0));
        if let Err(error) = written {
            tracing::warn!(path = %self.0.display(), %error, "subscribers are not kept");
        }
    }
}

fn text(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// The names in a file of that bus. A unique name begins with a colon (D-Bus Specification, "Bus
/// names"); anything else is none.
fn names(text: &str, bus: &str) -> BTreeSet<String> {
    let mut lines = text.lines();
    if bus.is_empty() || lines.next() != Some(bus) {
        return BTreeSet::new();
    }
    let own = lines.filter(|it| it.starts_with(':'));
    own.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_one_bus() {
        let folder = std::env::temp_dir().join(format!("aurae-subscribers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let kept = Kept::at(folder.join("systemd1"));
        assert_eq!(kept.read("one"), BTreeSet::new());
        let all: BTreeSet<String> = [":1.2", ":1.30"].map(str::to_owned).into();
        kept.write("one", &all);
        assert_eq!(kept.read("one"), all);
        // The bus was started anew: its names are others' now.
        assert_eq!(kept.read("two"), BTreeSet::new());
        kept.write("two", &BTreeSet::new());
        assert_eq!(kept.read("one"), BTreeSet::new());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_name_of_a_connection_is_passed_over() {
        assert_eq!(
            names("one\n:1.2\norg.example\n\n", "one"),
            BTreeSet::from([":1.2".to_owned()])
        );
        assert_eq!(names("\n:1.2\n", ""), BTreeSet::new());
    }
}
