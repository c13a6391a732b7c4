// SPDX-License-Identifier: Apache-2.0
//! A disk that is full while layers come: a named error, the space given back, and the next pull
//! succeeds when there is room.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use image::ImageError;
use image::registry::RegistryError;
use image::store::Store;

use super::hostile::{Content, Hostile};
use super::images::Image;
use super::{plain, pull};

/// A file system of its own, until this is dropped.
struct Disk {
    path: PathBuf,
}

impl Disk {
    fn new(folder: &Path, size: &str) -> Option<Self> {
        let path = folder.join("disk");
        std::fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size},mode=700"),
                "tmpfs",
            ])
            .arg(&path)
            .stderr(std::process::Stdio::null())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            testkit::skip("it takes root to mount a file system");
            return None;
        }
        Some(Self { path })
    }

    fn resize(&self, size: &str) {
        let options = format!("remount,size={size}");
        let resized = Command::new("mount")
            .args(["-o", &options])
            .arg(&self.path)
            .status();
        assert!(resized.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_named_and_gives_its_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::new(folder.path(), "4m") else {
        return;
    };
    let store = Store::open(&disk.path.join("images")).unwrap();
    let image = Image::new(71, &[3_000_000, 3_000_000]);
    let honest = Hostile::honest(Content::of(&image));
    let client = plain(&[&honest.name()]);
    let reference = format!("{}/app:v1", honest.name());
    let problem = pull(&client, &store, &reference).await.unwrap_err();
    let named = matches!(problem, RegistryError::Image(ImageError::DiskFull { .. }));
    assert!(named, "{problem}");
    // What met the full disk is given back; the other layer's part may stay, for the next pull.
    let deadline = Instant::now() + super::DEADLINE;
    while disk.path.join("images/ingest").read_dir().unwrap().count() > 1 {
        assert!(
            Instant::now() < deadline,
            "a part that can't be ended is still there"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    disk.resize("16m");
    pull(&client, &store, &reference).await.unwrap();
    image.assert_whole_in(&store);
}
