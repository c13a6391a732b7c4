// SPDX-License-Identifier: Apache-2.0
//! The type, label and UUID of the file system on a block device, read from its first bytes.
//!
//! For `root=UUID=…`, `root=LABEL=…`, and to try the right driver first. It doesn't check the file
//! system, reads no partition tables (the kernel does) and knows no encryption. For an unknown
//! type, the drivers are tried in the kernel's order.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Up to the end of the superblock that lies furthest inside, btrfs's.
const BYTES: u64 = 66_560;

/// The file system of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FileSystem {
    /// Drivers that may mount it, the best first.
    pub(super) drivers: &'static [&'static str],
    /// As `blkid` and udev write it; empty where there is none.
    pub(super) uuid: String,
    /// Empty where there is none.
    pub(super) label: String,
}

/// The file system of a device; `None` where it can't be read or isn't known.
pub(super) fn of(device: &Path) -> Option<FileSystem> {
    let mut bytes = Vec::new();
    let device = File::open(device).ok()?;
    device.take(BYTES).read_to_end(&mut bytes).ok()?;
    parse(&bytes)
}

/// Some bytes of a superblock: where they begin, and what they are.
type Magic = (usize, &'static [u8]);

/// Where sixteen bytes are that name it, and how they are written.
type Names = (usize, fn(&[u8]) -> String);

/// How a file system is recognised, and where its names stand.
struct Known {
    drivers: &'static [&'static str],
    magic: Magic,
    uuid: Option<Names>,
    /// Where the label is, and its length in bytes.
    label: Option<(usize, usize)>,
}

const KNOWN: [Known; 8] = [
    Known {
        // The driver of ext4 mounts all three.
        drivers: &["ext4", "ext3", "ext2"],
        magic: (1024 + 56, &[0x53, 0xef]),
        uuid: Some((1024 + 104, dashed)),
        label: Some((1024 + 120, 16)),
    },
    Known {
        drivers: &["xfs"],
        magic: (0, b"XFSB"),
        uuid: Some((32, dashed)),
        label: Some((108, 12)),
    },
    Known {
        drivers: &["btrfs"],
        magic: (65_536 + 64, b"_BHRfS_M"),
        uuid: Some((65_536 + 32, dashed)),
        label: Some((65_536 + 299, 256)),
    },
    Known {
        drivers: &["erofs"],
        magic: (1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
        uuid: Some((1024 + 48, dashed)),
        label: Some((1024 + 64, 16)),
    },
    Known {
        drivers: &["f2fs"],
        magic: (1024, &[0x10, 0x20, 0xf5, 0xf2]),
        uuid: Some((1024 + 108, dashed)),
        label: None,
    },
    Known {
        drivers: &["squashfs"],
        magic: (0, b"hsqs"),
        uuid: None,
        label: None,
    },
    Known {
        drivers: &["vfat"],
        magic: (82, b"FAT32   "),
        uuid: Some((67, serial)),
        label: Some((71, 11)),
    },
    Known {
        drivers: &["vfat"],
        magic: (54, b"FAT1"),
        uuid: Some((39, serial)),
        label: Some((43, 11)),
    },
];

fn parse(bytes: &[u8]) -> Option<FileSystem> {
    let known = KNOWN.iter().find(|known| {
        let (at, magic) = known.magic;
        bytes.get(at..).is_some_and(|rest| rest.starts_with(magic))
    })?;
    let uuid = known
        .uuid
        .and_then(|(at, write)| bytes.get(at..at + 16).map(write));
    let label = known
        .label
        .and_then(|(at, length)| bytes.get(at..at + length));
    Some(FileSystem {
        drivers: known.drivers,
        uuid: uuid.unwrap_or_default(),
        label: label.map(text).unwrap_or_default(),
    })
}

/// Up to the first NUL, without the blanks that fill it up.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let bytes = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// As RFC 9562 writes sixteen bytes.
fn dashed(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// The four bytes that FAT has instead, the last one first.
fn serial(bytes: &[u8]) -> String {
    match bytes {
        [a, b, c, d, ..] => format!("{d:02X}{c:02X}-{b:02X}{a:02X}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pieces: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(BYTES).unwrap()];
        for (at, piece) in pieces {
            bytes[*at..at + piece.len()].copy_from_slice(piece);
        }
        bytes
    }

    #[test]
    fn an_ext_file_system_is_ext4s_and_has_its_names() {
        let uuid: Vec<u8> = (0..16).collect();
        let bytes = with(&[(1080, &[0x53, 0xef]), (1128, &uuid), (1144, b"root disk")]);
        let found = parse(&bytes).unwrap();
        assert_eq!(found.drivers.first(), Some(&"ext4"));
        assert_eq!(found.uuid, "00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(found.label, "root disk");
    }

    #[test]
    fn fat_has_a_serial_number_and_a_padded_label() {
        let bytes = with(&[
            (67, &[0x78, 0x56, 0x34, 0x12]),
            (71, b"EFI        "),
            (82, b"FAT32   "),
        ]);
        let found = parse(&bytes).unwrap();
        assert_eq!(
            (found.uuid.as_str(), found.label.as_str()),
            ("1234-5678", "EFI")
        );
    }

    #[test]
    fn nothing_known_and_too_little_is_nothing() {
        assert_eq!(parse(&with(&[])), None);
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(b"XFSB").unwrap().uuid, "", "cut short");
    }

    /// What mke2fs writes, where there is one.
    #[test]
    fn a_real_one_is_recognised() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4 << 20).unwrap();
        let uuid = "6a1e8b9c-7a52-4b8e-9f0a-3d2c1b0a9f8e";
        let made = std::process::Command::new("/sbin/mke2fs")
            .args(["-q", "-F", "-t", "ext4", "-L", "here", "-U", uuid])
            .arg(file.path())
            .status();
        if !made.is_ok_and(|status| status.success()) {
            testkit::skip("no mke2fs");
            return;
        }
        let found = of(file.path()).unwrap();
        assert_eq!((found.uuid.as_str(), found.label.as_str()), (uuid, "here"));
    }
}
