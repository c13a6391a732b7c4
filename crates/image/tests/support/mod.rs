// SPDX-License-Identifier: Apache-2.0
//! What the tests of images share: tar streams made by hand, byte by byte, so that they can lie;
//! trees read back from disk with all that a layer may say of a file.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use image::Digest;
use image::unpack::{Options, Summary, UnpackError, unpack};

/// A tar stream in the making.
#[derive(Clone, Default)]
pub(crate) struct Tar(pub(crate) Vec<u8>);

/// The fields of a header that tests set.
#[derive(Clone)]
pub(crate) struct Head<'a> {
    pub(crate) kind: u8,
    pub(crate) name: &'a [u8],
    pub(crate) link: &'a [u8],
    pub(crate) mode: u64,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) size: u64,
    pub(crate) mtime: u64,
    pub(crate) device: (u64, u64),
}

impl<'a> Head<'a> {
    pub(crate) fn new(kind: u8, name: &'a str) -> Self {
        Self {
            kind,
            name: name.as_bytes(),
            link: b"",
            mode: 0o644,
            uid: 0,
            gid: 0,
            size: 0,
            mtime: 1_000_000_000,
            device: (0, 0),
        }
    }

    /// As a ustar block with a right checksum.
    pub(crate) fn block(&self) -> [u8; 512] {
        let mut block = [0; 512];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.name[..self.name.len().min(100)]);
        put(100, format!("{:07o}\0", self.mode).as_bytes());
        put(108, format!("{:07o}\0", self.uid).as_bytes());
        put(116, format!("{:07o}\0", self.gid).as_bytes());
        put(124, format!("{:011o}\0", self.size).as_bytes());
        put(136, format!("{:011o}\0", self.mtime).as_bytes());
        put(148, b"        ");
        put(156, &[self.kind]);
        put(157, &self.link[..self.link.len().min(100)]);
        put(257, b"ustar\x0000");
        put(329, format!("{:07o}\0", self.device.0).as_bytes());
        put(337, format!("{:07o}\0", self.device.1).as_bytes());
        seal(&mut block);
        block
    }
}

/// Puts the checksum right.
pub(crate) fn seal(block: &mut [u8; 512]) {
    block[148..156].copy_from_slice(b"        ");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

impl Tar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn head(mut self, head: &Head<'_>) -> Self {
        self.0.extend(head.block());
        self
    }

    /// Data with its padding.
    pub(crate) fn data(mut self, data: &[u8]) -> Self {
        self.0.extend(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn file(self, name: &str, data: &[u8]) -> Self {
        let size = data.len() as u64;
        self.head(&Head {
            size,
            ..Head::new(b'0', name)
        })
        .data(data)
    }

    pub(crate) fn folder(self, name: &str) -> Self {
        self.head(&Head {
            mode: 0o755,
            ..Head::new(b'5', name)
        })
    }

    pub(crate) fn symlink(self, name: &str, target: &str) -> Self {
        self.head(&Head {
            link: target.as_bytes(),
            ..Head::new(b'2', name)
        })
    }

    pub(crate) fn hard_link(self, name: &str, target: &str) -> Self {
        self.head(&Head {
            link: target.as_bytes(),
            ..Head::new(b'1', name)
        })
    }

    pub(crate) fn node(self, kind: u8, name: &str, device: (u64, u64)) -> Self {
        self.head(&Head {
            device,
            ..Head::new(kind, name)
        })
    }

    /// A pax header for the next entry.
    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let data: Vec<u8> = records
            .iter()
            .flat_map(|(key, value)| record(key, value))
            .collect();
        let size = data.len() as u64;
        self.head(&Head {
            size,
            ..Head::new(b'x', "pax")
        })
        .data(&data)
    }

    /// A long name as GNU writes it.
    pub(crate) fn gnu_long(self, kind: u8, name: &[u8]) -> Self {
        let data = [name, b"\0"].concat();
        let size = data.len() as u64;
        self.head(&Head {
            size,
            ..Head::new(kind, "././@LongLink")
        })
        .data(&data)
    }

    /// With the two blocks of zeros behind it.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let body = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
    let mut length = body.len() + 1;
    while length != body.len() + length.to_string().len() {
        length = body.len() + length.to_string().len();
    }
    [length.to_string().into_bytes(), body].concat()
}

/// Unpacks a stream into `folder/root`, with the right diff id.
pub(crate) fn unpacked(tar: &[u8], folder: &Path) -> Result<Summary, UnpackError> {
    unpacked_by(tar, tar, folder, |_| {})
}

/// The same for a packed stream, with other options.
pub(crate) fn unpacked_by(
    packed: &[u8],
    tar: &[u8],
    folder: &Path,
    change: impl Fn(&mut Options),
) -> Result<Summary, UnpackError> {
    let root = folder.join("root");
    std::fs::create_dir(&root).unwrap();
    let mut options = Options::new(&Digest::of(tar));
    change(&mut options);
    let root: OwnedFd = File::open(&root).unwrap().into();
    unpack(packed, root, &options)
}

/// What is known of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Node {
    pub(crate) kind: String,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) mtime: (i64, i64),
    /// Content, or a link's target.
    pub(crate) data: Vec<u8>,
    pub(crate) device: u64,
    pub(crate) links: u64,
    pub(crate) xattrs: BTreeMap<String, Vec<u8>>,
}

/// Everything below a folder, by its path from there; the folder itself is `""`.
pub(crate) fn tree(root: &Path) -> BTreeMap<String, Node> {
    let mut all = BTreeMap::new();
    collect(root, root, &mut all);
    all
}

fn collect(root: &Path, at: &Path, all: &mut BTreeMap<String, Node>) {
    let metadata = at.symlink_metadata().unwrap();
    let kind = metadata.file_type();
    let (name, data) = match () {
        () if kind.is_dir() => ("folder", Vec::new()),
        () if kind.is_file() => ("file", std::fs::read(at).unwrap()),
        () if kind.is_symlink() => (
            "link",
            at.read_link().unwrap().as_os_str().as_bytes().to_vec(),
        ),
        () if kind.is_fifo() => ("fifo", Vec::new()),
        () if kind.is_char_device() => ("character", Vec::new()),
        () if kind.is_block_device() => ("block", Vec::new()),
        () => ("other", Vec::new()),
    };
    let node = Node {
        kind: name.to_owned(),
        mode: metadata.mode() & 0o7777,
        owner: (metadata.uid(), metadata.gid()),
        mtime: (metadata.mtime(), metadata.mtime_nsec()),
        data,
        device: if matches!(name, "character" | "block") {
            metadata.rdev()
        } else {
            0
        },
        links: if kind.is_dir() { 0 } else { metadata.nlink() },
        xattrs: xattrs(at),
    };
    let path = at
        .strip_prefix(root)
        .unwrap()
        .to_string_lossy()
        .into_owned();
    all.insert(path, node);
    if kind.is_dir() {
        for entry in at.read_dir().unwrap() {
            collect(root, &entry.unwrap().path(), all);
        }
    }
}

/// A link's or file's own extended attributes.
pub(crate) fn xattrs(at: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 64 << 10];
    let length = rustix::fs::llistxattr(at, &mut names[..]).unwrap();
    let names = names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 64 << 10];
        let length = rustix::fs::lgetxattr(at, name, &mut value[..]).unwrap();
        (
            String::from_utf8(name.to_vec()).unwrap(),
            value[..length].to_vec(),
        )
    };
    names.map(value).collect()
}

/// Whether a path is what overlayfs takes for a whiteout.
pub(crate) fn is_whiteout(path: &Path) -> bool {
    let metadata = path.symlink_metadata();
    metadata.is_ok_and(|metadata| metadata.file_type().is_char_device() && metadata.rdev() == 0)
}

/// Whether a folder is opaque to overlayfs.
pub(crate) fn is_opaque(path: &Path) -> bool {
    xattrs(path)
        .get("trusted.overlay.opaque")
        .is_some_and(|value| value == b"y")
}

/// Only root may give files away and make nodes.
pub(crate) fn is_root() -> bool {
    testkit::needs_root("it gives files to other users, which root alone may")
}

/// Packs by gzip.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Packs by zstd.
pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}
