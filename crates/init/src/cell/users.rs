// SPDX-License-Identifier: Apache-2.0
//! Users and groups by name or number, looked up in the cell's own `/etc/passwd` and `/etc/group`.
//!
//! Runs in the child that is about to become the executable, so the cell-init's memory doesn't
//! grow. The files count as hostile: a bounded read of a regular file; a line that is no entry is
//! skipped. There is no NSS: users of a directory service must be given by number.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

use kernel::Context;
use kernel::fsutil::OpenFlags;
use rustix::fs::FileType;

use super::follow;
use crate::failure::InStep;
use crate::protocol::{Failure, Launch, Principal, Step};

/// The most that is read of either file, in bytes.
const LIMIT: u64 = 4 * 1024 * 1024;
/// The most groups that are taken of `/etc/group` for one user.
const MOST_GROUPS: usize = 1024;

/// The user that the executable runs as.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
    /// The user's entry in `/etc/passwd`, if there is one.
    pub(super) entry: Option<Entry>,
}

/// The fields of a user in `/etc/passwd` beside the ids.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) home: Vec<u8>,
    pub(super) shell: Vec<u8>,
}

/// Resolves the user and groups of a launch.
///
/// Without a user it is the cell's root. Without a group it is the user's own; a number that has no
/// entry has the group of the same number, or in an image group 0, as container engines have it.
pub(super) fn resolve(launch: &Launch, of_image: bool) -> Result<Identity, Failure> {
    let passwd = read("/etc/passwd")?;
    let group = match needs_groups(launch) {
        true => read("/etc/group")?,
        false => Vec::new(),
    };
    resolve_in(launch, of_image, &passwd, &group)
}

fn needs_groups(launch: &Launch) -> bool {
    let named = |principal: &Principal| matches!(principal, Principal::Name(_));
    launch.member || launch.group.iter().chain(&launch.groups).any(named)
}

fn resolve_in(
    launch: &Launch,
    of_image: bool,
    passwd: &[u8],
    group: &[u8],
) -> Result<Identity, Failure> {
    let root = Principal::Id(0);
    let user = launch.user.as_ref().unwrap_or(&root);
    let found = entries(passwd, 7).find(|fields| is(fields, user));
    let (uid, own_gid) = match (user, &found) {
        (_, Some(fields)) => (
            number(fields, 2).unwrap_or_default(),
            number(fields, 3).unwrap_or_default(),
        ),
        (Principal::Id(id), None) => (*id, if of_image { 0 } else { *id }),
        (Principal::Name(name), None) => return Err(unknown("user", name, "/etc/passwd")),
    };
    let gid_of = |principal: &Principal| match principal {
        Principal::Id(id) => Ok(*id),
        Principal::Name(name) => entries(group, 3)
            .find(|fields| is(fields, principal))
            .and_then(|fields| number(&fields, 2))
            .ok_or_else(|| unknown("group", name, "/etc/group")),
    };
    let gid = launch.group.as_ref().map_or(Ok(own_gid), gid_of)?;
    let mut groups: Vec<u32> = launch.groups.iter().map(gid_of).collect::<Result<_, _>>()?;
    if let Some(name) = found
        .as_ref()
        .and_then(|fields| fields.first())
        .filter(|_| launch.member)
    {
        groups.extend(
            memberships(group, name)
                .filter(|id| *id != gid)
                .take(MOST_GROUPS),
        );
        groups.sort_unstable();
        groups.dedup();
    }
    let field = |fields: &Fields<'_>, at: usize| fields.get(at).map_or(vec![], |f| f.to_vec());
    let entry = found.map(|fields| Entry {
        name: field(&fields, 0),
        home: field(&fields, 5),
        shell: field(&fields, 6),
    });
    Ok(Identity {
        uid,
        gid,
        groups,
        entry,
    })
}

/// The groups that list this user.
fn memberships<'a>(group: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
    entries(group, 4).filter_map(move |fields| {
        let mut members = fields.get(3)?.split(|byte| *byte == b',');
        members
            .any(|member| member == name)
            .then(|| number(&fields, 2))?
    })
}

fn unknown(kind: &str, name: &str, file: &str) -> Failure {
    let errno = rustix::io::Errno::NOENT.raw_os_error();
    Failure::new(
        Step::User,
        errno,
        format!("no {kind} `{name}` in the cell's {file}"),
    )
}

/// A line of either file, cut at its colons. The ids in it are numbers.
type Fields<'a> = Vec<&'a [u8]>;

fn entries(file: &[u8], fields: usize) -> impl Iterator<Item = Fields<'_>> {
    file.split(|byte| *byte == b'\n').filter_map(move |line| {
        let cut: Fields<'_> = line.split(|byte| *byte == b':').collect();
        let ids = number(&cut, 2).is_some() && (fields < 7 || number(&cut, 3).is_some());
        (cut.len() >= fields && ids).then_some(cut)
    })
}

fn number(fields: &Fields<'_>, at: usize) -> Option<u32> {
    std::str::from_utf8(fields.get(at)?).ok()?.parse().ok()
}

fn is(fields: &Fields<'_>, principal: &Principal) -> bool {
    match principal {
        Principal::Id(id) => number(fields, 2) == Some(*id),
        Principal::Name(name) => fields.first() == Some(&name.as_bytes()),
    }
}

/// The file's content; nothing where it isn't there.
fn read(path: &str) -> Result<Vec<u8>, Failure> {
    // Not blocking: what lies there may be a FIFO. In an image a link may be there, too.
    let file = match follow::open(Path::new(path), OpenFlags::RDONLY | OpenFlags::NONBLOCK) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(Failure::new(Step::User, error.errno(), path)),
    };
    let stat = rustix::fs::fstat(file.as_fd())
        .call("fstat")
        .step(Step::User)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        let errno = rustix::io::Errno::INVAL.raw_os_error();
        return Err(Failure::new(
            Step::User,
            errno,
            format!("{path} is not a regular file"),
        ));
    }
    let mut content = Vec::new();
    let read = File::from(file).take(LIMIT).read_to_end(&mut content);
    read.call("read").step(Step::User)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Uid;

    const PASSWD: &[u8] =
        b"root:x:0:0:root:/root:/bin/sh\nbroken\n:::\nwww:x:33:34::/var/www:/bin/no\n";
    const GROUP: &[u8] = b"root:x:0:\nwww:x:34:\ntty:x:5:www\n";

    fn launch(user: Option<Principal>, group: Option<Principal>, groups: &[&str]) -> Launch {
        Launch {
            user,
            group,
            groups: groups
                .iter()
                .map(|g| Principal::Name((*g).to_owned()))
                .collect(),
            ..Launch::plain(Uid([0; 16]))
        }
    }

    fn name(name: &str) -> Option<Principal> {
        Some(Principal::Name(name.to_owned()))
    }

    #[test]
    fn a_name_brings_its_ids_home_and_shell() {
        let who = resolve_in(&launch(name("www"), None, &["tty"]), false, PASSWD, GROUP).unwrap();
        assert_eq!((who.uid, who.gid, who.groups), (33, 34, vec![5]));
        assert_eq!(who.entry.unwrap().home, b"/var/www");
    }

    #[test]
    fn no_user_given_is_root_and_a_number_needs_no_entry() {
        let root = resolve_in(&launch(None, None, &[]), false, PASSWD, GROUP).unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        let who = resolve_in(
            &launch(Some(Principal::Id(77)), None, &[]),
            false,
            PASSWD,
            GROUP,
        )
        .unwrap();
        assert_eq!((who.uid, who.gid, who.entry), (77, 77, None));
    }

    #[test]
    fn who_is_not_there_is_named() {
        let error =
            resolve_in(&launch(name("mallory"), None, &[]), false, PASSWD, GROUP).unwrap_err();
        assert_eq!(error.detail, "no user `mallory` in the cell's /etc/passwd");
        let error = resolve_in(&launch(None, name("nix"), &[]), false, PASSWD, GROUP).unwrap_err();
        assert_eq!(error.detail, "no group `nix` in the cell's /etc/group");
    }

    #[test]
    fn in_an_image_who_is_listed_in_a_group_is_in_it_and_a_number_is_in_group_0() {
        let mut asked = launch(name("www"), None, &[]);
        asked.member = true;
        let who = resolve_in(&asked, true, PASSWD, GROUP).unwrap();
        assert_eq!((who.gid, who.groups), (34, vec![5]));
        let asked = launch(Some(Principal::Id(77)), None, &[]);
        let who = resolve_in(&asked, true, PASSWD, GROUP).unwrap();
        assert_eq!((who.uid, who.gid), (77, 0));
    }
}
