// SPDX-License-Identifier: Apache-2.0
//! Layers: whatever is in one, unpacking it neither panics nor writes anything outside its folder.
//! Run by the fuzz target of this name and by `image`'s tests. Without root most files are refused
//! for their owner; what must hold is the same.

use std::fs::File;
use std::os::fd::OwnedFd;

use image::Digest;
use image::unpack::{Options, unpack};

/// Bytes of a block of a tar stream.
const BLOCK: usize = 512;

/// Holds for any bytes: as they are, and with the checksum of every block put right, because
/// nearly no input would be read further than its first header.
pub(crate) fn check(bytes: &[u8]) {
    unpacked(bytes);
    unpacked(&sealed(bytes));
}

fn unpacked(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("there is a folder for files of a moment");
    let (guard, root) = (folder.path().join("guard"), folder.path().join("root"));
    std::fs::write(&guard, "untouched").expect("the folder is ours");
    std::fs::create_dir(&root).expect("the folder is ours");
    let options = Options {
        max_bytes: 4 << 20,
        max_entries: 1000,
        ..Options::new(&Digest::of(bytes))
    };
    let root: OwnedFd = File::open(&root).expect("it was made just now").into();
    let _ = unpack(bytes, root, &options);
    assert_eq!(
        std::fs::read(&guard).expect("it is still there"),
        b"untouched"
    );
    let beside = folder.path().read_dir().expect("the folder is ours");
    assert_eq!(beside.count(), 2, "the guard and the root");
}

/// The same bytes, each block with the checksum of a header.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    let (blocks, _) = sealed.as_chunks_mut::<BLOCK>();
    for block in blocks
        .iter_mut()
        .filter(|block| block.iter().any(|byte| *byte != 0))
    {
        block[148..156].copy_from_slice(b"        ");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    sealed
}
