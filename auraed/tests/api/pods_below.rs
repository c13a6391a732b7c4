// SPDX-License-Identifier: Apache-2.0
//! What is mounted below a folder of a real node, in containers that have the folder: unseen, as it
//! was when the container was made, or followed. And what even root of such a container, with every
//! capability that it can have, doesn't do with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use api::pod::v0 as wire;
use api::runtime::v0::mount::Propagation;
use api::status::from_status;
use wire::WaitFor;

use crate::caller::Person;
use crate::pods::{EXITED, assert_clean, exec, remove, run, spec, until};
use crate::pods_node::{bed, powerful, with_all};

/// A folder of the node with a tmpfs on it, and what is mounted below.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// `spread`: as mount(8) names it, `shared` or `private`.
    fn new(spread: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Self { folder };
        place.mount("");
        ran("mount", &[&format!("--make-{spread}"), &place.path("")]);
        place
    }

    fn path(&self, below: &str) -> String {
        let path = self.folder.path().join(below);
        let path = path.display().to_string();
        path.trim_end_matches('/').to_owned()
    }

    /// Mounts a tmpfs with a file `there` and a folder `in`, which everybody may write.
    fn mount(&self, below: &str) {
        let at = PathBuf::from(self.path(below));
        std::fs::create_dir_all(&at).unwrap();
        let path = at.display().to_string();
        ran("mount", &["-t", "tmpfs", "-o", "mode=0755", "tmpfs", &path]);
        std::fs::write(at.join("there"), below).unwrap();
        std::fs::create_dir(at.join("in")).unwrap();
        ran("chmod", &["0666", &at.join("there").display().to_string()]);
        ran("chmod", &["0777", &at.join("in").display().to_string()]);
    }

    fn unmount(&self, below: &str) {
        ran("umount", &[&self.path(below)]);
    }

    /// How many mounts of this process's namespace are there or below.
    fn mounts(&self) -> usize {
        let mounts = kernel::mount::info::read().unwrap();
        let of_it =
            |it: &&kernel::mount::info::MountInfo| it.target.starts_with(self.folder.path());
        mounts.iter().filter(of_it).count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut umount = Command::new("umount");
        let _ = umount.args(["-R", "-l", &self.path("")]).status();
    }
}

fn ran(program: &str, words: &[&str]) {
    let status = Command::new(program).args(words).status().unwrap();
    assert!(status.success(), "{program} {words:?}");
}

/// A container with the folder three times, at `/none`, `/private` and `/slave`.
fn looking_at(place: &Path) -> wire::PodSpec {
    let mount = |path: &str, propagation: Propagation| wire::VolumeMount {
        volume: "place".to_owned(),
        path: path.to_owned(),
        propagation: propagation.into(),
        ..Default::default()
    };
    let mut container = powerful("app");
    container.mounts = vec![
        mount("/none", Propagation::Unspecified),
        mount("/private", Propagation::Rprivate),
        mount("/slave", Propagation::Rslave),
    ];
    let host = wire::HostVolume {
        path: place.display().to_string(),
        ..Default::default()
    };
    let mut pod = spec(vec![container]);
    pod.volumes = vec![wire::Volume {
        name: "place".to_owned(),
        source: Some(wire::volume::Source::Host(host)),
    }];
    pod
}

/// `none`, `private`, `slave`: whether a file is there.
async fn sees(ann: &Person, file: &str, [none, private, slave]: [bool; 3]) {
    let test = |mount: &str, there: bool, code: u8| {
        let not = if there { "" } else { "!" };
        format!("[ {not} -e /{mount}/{file} ] || exit {code}; ")
    };
    let script = [
        test("none", none, 1),
        test("private", private, 2),
        test("slave", slave, 3),
    ];
    assert_eq!(
        exec(ann, "agent/app", &script.concat()).await,
        EXITED,
        "{file}"
    );
}

#[tokio::test]
async fn what_is_mounted_below_a_folder_of_the_node_is_followed_where_it_was_asked_for() {
    let Some((mut node, ann)) = bed().await else {
        return;
    };
    let place = Place::new("shared");
    place.mount("early");
    let pod = looking_at(place.folder.path());
    run(&ann, "agent", pod, WaitFor::Ready).await.unwrap();
    sees(&ann, "there", [true; 3]).await;
    sees(&ann, "early/there", [false, true, true]).await;
    place.mount("late");
    sees(&ann, "late/there", [false, false, true]).await;
    // The daemon had the mounts of the way; its death cuts nothing off.
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    place.mount("later");
    sees(&ann, "later/there", [false, false, true]).await;
    place.unmount("late");
    sees(&ann, "late/there", [false; 3]).await;
    place.unmount("early");
    sees(&ann, "early/there", [false, true, false]).await;
    remove(&ann, "agent", true).await.unwrap();
    assert_clean(&node);
    place.unmount("later");
    node.stop();
}

/// Read-only stays so for what was there, and what is seen can't be taken away to see what it
/// covers. Nothing that the container mounts is seen by the node.
#[tokio::test]
async fn root_of_a_container_changes_nothing_of_what_is_mounted_below() {
    let Some((node, ann)) = bed().await else {
        return;
    };
    let place = Place::new("shared");
    place.mount("early");
    let pod = looking_at(place.folder.path());
    run(&ann, "agent", pod, WaitFor::Ready).await.unwrap();
    place.mount("late");
    let before = place.mounts();
    let tries = "busybox mkdir -p /tmp/own && busybox mount -t tmpfs own /tmp/own || exit 90; \
                 for m in /private /slave; do \
                 echo x > $m/early/there && exit 1; \
                 busybox mount -o remount,bind,rw $m/early && exit 2; \
                 busybox mount -o remount,rw $m/early && exit 3; \
                 busybox umount $m/early && exit 4; busybox umount -l $m/early && exit 5; \
                 done; \
                 busybox cp /bin/busybox /slave/late/in/own || exit 91; \
                 busybox chmod 4755 /slave/late/in/own && exit 5; \
                 busybox mount -t tmpfs own /slave/early/in || exit 6; \
                 busybox mount --make-rshared /slave 2>/dev/null; \
                 busybox mount -t tmpfs own /slave/late/in || exit 7; \
                 busybox mkdir /slave/early/in/x || exit 8; true";
    assert_eq!(with_all(&ann, "agent/app", tries).await, EXITED);
    assert_eq!(place.mounts(), before, "the node sees a container's mount");
    // The control: what comes later is as the node mounts it, and this file is everybody's.
    let writes = "echo x > /slave/late/there";
    assert_eq!(with_all(&ann, "agent/app", writes).await, EXITED);
    let said = |file: &str| std::fs::read_to_string(place.path(file)).unwrap();
    assert_eq!(
        (said("early/there"), said("late/there")),
        ("early".into(), "x\n".into())
    );
    remove(&ann, "agent", true).await.unwrap();
    node.stop();
}

#[tokio::test]
async fn a_private_mount_of_the_node_can_not_be_followed_and_the_field_is_named() {
    let Some((node, ann)) = bed().await else {
        return;
    };
    let place = Place::new("private");
    let pod = looking_at(place.folder.path());
    run(&ann, "agent", pod, WaitFor::Created).await.unwrap();
    let told = |status: &wire::PodStatus| !status.containers[0].message.is_empty();
    let status = until(&ann, "agent", "told", told).await;
    let message = &status.containers[0].message;
    assert!(message.contains("private on the node"), "{message}");
    // Of what the pod itself has there is nothing to follow.
    let mut own = looking_at(place.folder.path());
    own.volumes[0].source = Some(wire::volume::Source::Empty(Default::default()));
    let ended = run(&ann, "own", own, WaitFor::Created).await;
    let refused = from_status(&ended.unwrap_err());
    let field = "pod.spec.containers[0].mounts[1].propagation";
    assert_eq!(refused.field.as_deref(), Some(field), "{refused:?}");
    node.stop();
}
