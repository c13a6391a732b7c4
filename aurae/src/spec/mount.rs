// SPDX-License-Identifier: Apache-2.0
//! `--read SRC[:DST][,rprivate|rslave]`, `--write
//! SRC[:DST],owner=UID[,group=GID][,allow-root][,rprivate|rslave]`, `--tmpfs
//! PATH[,size=N][,mode=N][,uid=N][,gid=N][,noexec]`.

use api::runtime::v0::{Mount, Volume, mount};

use crate::quantity::parse_bytes;

const READ: &str = "write SRC[:DST][,rprivate|rslave]";
const WRITE: &str = "write SRC[:DST],owner=UID[,group=GID][,allow-root][,rprivate|rslave]: the \
                     on-disk user that the cell's root acts as must be named";
const TMPFS: &str = "write PATH[,size=BYTES][,mode=OCTAL][,uid=N][,gid=N][,noexec], as in \
                     /cache,size=16M";

/// Parses a read-only mount.
pub(crate) fn parse_read(text: &str) -> Result<Mount, String> {
    let mut parts = text.split(',');
    let (source, target) = places(parts.next().unwrap_or_default())?;
    let mut mount = Mount {
        source,
        target,
        access: mount::Access::Read.into(),
        ..Default::default()
    };
    for part in parts {
        let propagation = propagation(part);
        mount.propagation = propagation.ok_or_else(|| not_taken(part, READ))?;
    }
    Ok(mount)
}

/// Parses a writable mount.
pub(crate) fn parse_write(text: &str) -> Result<Mount, String> {
    let mut parts = text.split(',');
    let (source, target) = places(parts.next().unwrap_or_default())?;
    let mut mount = Mount {
        source,
        target,
        access: mount::Access::Write.into(),
        ..Default::default()
    };
    for part in parts {
        match part.split_once('=') {
            Some(("owner", id)) => mount.owner_uid = Some(number(id)?),
            Some(("group", id)) => mount.owner_gid = Some(number(id)?),
            None if part == "allow-root" => mount.allow_root_owner = true,
            _ => {
                let propagation = propagation(part);
                mount.propagation = propagation.ok_or_else(|| not_taken(part, WRITE))?;
            }
        }
    }
    if mount.owner_uid.is_none() {
        return Err(format!("owner is missing; {WRITE}"));
    }
    Ok(mount)
}

/// Docker's words for it.
fn propagation(word: &str) -> Option<i32> {
    let propagation = match word {
        "rprivate" => mount::Propagation::Rprivate,
        "rslave" => mount::Propagation::Rslave,
        _ => return None,
    };
    Some(propagation.into())
}

fn not_taken(part: &str, usage: &str) -> String {
    format!("{part:?} is no option; {usage}")
}

fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no user or group number"))
}

fn places(text: &str) -> Result<(String, String), String> {
    let (source, target) = text.split_once(':').unwrap_or((text, ""));
    let absolute = |path: &str| path.starts_with('/');
    if !absolute(source) || !(target.is_empty() || absolute(target)) {
        return Err("write absolute paths, as in /srv/data or /srv/data:/data".to_owned());
    }
    Ok((source.to_owned(), target.to_owned()))
}

/// Parses a private in-memory folder. docker's `PATH:size=…` is taken, too.
pub(crate) fn parse_tmpfs(text: &str) -> Result<Volume, String> {
    let mut parts = text.split([',', ':']);
    let path = parts.next().unwrap_or_default();
    if !path.starts_with('/') {
        return Err(TMPFS.to_owned());
    }
    let mut volume = Volume {
        path: path.to_owned(),
        ..Default::default()
    };
    for part in parts {
        match part.split_once('=') {
            Some(("size", size)) => volume.size_bytes = Some(parse_bytes(size)?),
            Some(("mode", mode)) => volume.mode = Some(parse_mode(mode)?),
            Some(("uid", id)) => volume.uid = Some(number(id)?),
            Some(("gid", id)) => volume.gid = Some(number(id)?),
            None if part == "noexec" => volume.no_exec = true,
            // What every one of them is.
            None if ["rw", "nosuid", "nodev", "exec"].contains(&part) => {}
            _ => return Err(TMPFS.to_owned()),
        }
    }
    Ok(volume)
}

/// Parses permission bits in octal: `1777`, `0o22`.
pub(crate) fn parse_mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    u32::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| "write permission bits in octal, as in 0022 or 1777".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_name_their_places_and_their_owner() {
        let read = parse_read("/usr/share/web:/srv").unwrap();
        assert_eq!(
            (read.source.as_str(), read.target.as_str()),
            ("/usr/share/web", "/srv")
        );
        let write = parse_write("/srv/data,owner=1000,group=100").unwrap();
        assert_eq!((write.owner_uid, write.owner_gid), (Some(1000), Some(100)));
        assert!(!write.allow_root_owner);
        assert!(
            parse_write("/a,owner=0,allow-root")
                .unwrap()
                .allow_root_owner
        );
    }

    #[test]
    fn what_is_mounted_below_is_asked_for_in_dockers_words() {
        let below = |mount: Mount| mount::Propagation::try_from(mount.propagation).unwrap();
        let read = parse_read("/media:/m,rslave").unwrap();
        assert_eq!(below(read), mount::Propagation::Rslave);
        let write = parse_write("/media,rprivate,owner=5").unwrap();
        assert_eq!(below(write), mount::Propagation::Rprivate);
        let none = parse_read("/media").unwrap();
        assert_eq!(below(none), mount::Propagation::Unspecified);
        for word in ["shared", "rshared", "slave", "ro"] {
            let told = parse_read(&format!("/media,{word}")).unwrap_err();
            assert!(told.contains("rprivate|rslave"), "{told}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        assert!(parse_read("data").unwrap_err().contains("absolute"));
        assert!(parse_write("/a").unwrap_err().contains("owner is missing"));
        assert!(parse_write("/a,owner=me").unwrap_err().contains("\"me\""));
        assert!(parse_write("/a,owner=1,rw").unwrap_err().contains("\"rw\""));
        assert!(parse_tmpfs("cache").is_err() && parse_tmpfs("/c,size=x").is_err());
        assert!(parse_mode("8").is_err() && parse_mode("17777").is_err());
    }

    #[test]
    fn folders_in_memory_as_docker_writes_them_too() {
        let volume = parse_tmpfs("/cache:size=1M,mode=0700").unwrap();
        assert_eq!(
            (volume.size_bytes, volume.mode),
            (Some(1 << 20), Some(0o700))
        );
        let volume = parse_tmpfs("/run:rw,noexec,nosuid,uid=5,gid=6").unwrap();
        assert_eq!((volume.uid, volume.gid), (Some(5), Some(6)));
        assert!(volume.no_exec);
        assert!(
            parse_tmpfs("/run:ro").is_err(),
            "a read-only one is of no use"
        );
    }
}
