// SPDX-License-Identifier: Apache-2.0
//! Users and groups of the machine's own files (passwd(5), group(5)), for what is made for a
//! service before it runs: its folders, its groups, its environment.

/// A user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: String,
    pub(crate) shell: String,
}

/// The user of that name or number. A number without a line has no name, and the group of its
/// number.
pub(crate) fn user(passwd: &str, wanted: &str) -> Option<User> {
    let of = |line: &str| {
        let mut parts = line.split(':');
        let name = parts.next()?.to_owned();
        let (_, uid) = (parts.next()?, parts.next()?.parse().ok()?);
        let gid = parts.next()?.parse().ok()?;
        let (_, home) = (parts.next()?, parts.next()?.to_owned());
        let shell = parts.next().unwrap_or("").to_owned();
        Some(User {
            name,
            uid,
            gid,
            home,
            shell,
        })
    };
    let number: Option<u32> = wanted.parse().ok();
    let mut users = passwd.lines().filter_map(of);
    users.find(|it| it.name == wanted || Some(it.uid) == number)
}

/// The number of a group by name or number.
pub(crate) fn group(groups: &str, wanted: &str) -> Option<u32> {
    if let Ok(number) = wanted.parse() {
        return Some(number);
    }
    let mut all = groups.lines().filter_map(members);
    all.find(|(name, ..)| *name == wanted)
        .map(|(_, gid, _)| gid)
}

/// The groups in which a user is listed.
pub(crate) fn groups_of(groups: &str, user: &str) -> Vec<u32> {
    let all = groups.lines().filter_map(members);
    let listed = all.filter(|(.., list)| list.split(',').any(|it| it == user));
    listed.map(|(_, gid, _)| gid).collect()
}

fn members(line: &str) -> Option<(&str, u32, &str)> {
    let mut parts = line.split(':');
    let name = parts.next()?;
    let (_, gid) = (parts.next()?, parts.next()?.parse().ok()?);
    Some((name, gid, parts.next().unwrap_or("")))
}

/// A path of /proc/self/mountinfo, in which blanks are `\040` and so on.
pub(crate) fn unescape_octal(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'\\').then(|| after.get(..3)).flatten();
        let code = code.and_then(|it| std::str::from_utf8(it).ok());
        match code.and_then(|it| u8::from_str_radix(it, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or(&[]);
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_as_the_manuals_say() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nbad\nwww:x:33:34:w,,:/var/www:/bin/sh\n";
        let www = user(passwd, "www").unwrap();
        assert_eq!((www.uid, www.gid, &*www.home), (33, 34, "/var/www"));
        assert_eq!(user(passwd, "33"), Some(www));
        assert_eq!(user(passwd, "none"), None);
        let groups = "root:x:0:\nssl:x:110:postgres,www\nadm:x:4:www\n";
        assert_eq!(groups_of(groups, "www"), [110, 4]);
        assert_eq!(group(groups, "ssl"), Some(110));
        assert_eq!(group(groups, "7"), Some(7));
        assert_eq!(group(groups, "none"), None);
        assert_eq!(unescape_octal("/a\\040b\\"), "/a b\\");
    }
}
