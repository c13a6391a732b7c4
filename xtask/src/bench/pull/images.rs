// SPDX-License-Identifier: Apache-2.0
//! Images for row `pull`: layers of files of many sizes whose bytes pack to about half, as those of
//! programs do. Made as an archive of docker's and packed by skopeo, which pushes it.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;
use testkit::exec;

/// How large an image is, and of how many layers.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    megabytes: usize,
    layers: usize,
}

impl Shape {
    pub(super) const fn new(megabytes: usize, layers: usize) -> Self {
        Self { megabytes, layers }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MB in {} layers", self.megabytes, self.layers)
    }
}

/// Sizes of files in bytes, over and over: the mean is about 20 KB.
const SIZES: [usize; 8] = [512, 1500, 3000, 4096, 9000, 20_000, 40_000, 82_000];

/// Pushes an image; its name.
pub(super) fn push(folder: &Path, host: &str, shape: Shape) -> Result<String> {
    let scratch = folder.join("image");
    fs::create_dir_all(&scratch)?;
    let (mut diff_ids, mut layers) = (Vec::new(), Vec::new());
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15 ^ ((shape.megabytes * 1000 + shape.layers) as u64));
    for number in 0..shape.layers {
        let name = format!("{number}.tar");
        layer(&scratch, number, shape, &mut noise)?;
        let sum = exec::read(Command::new("sha256sum").arg(scratch.join(&name)))?;
        let sum = sum.split_whitespace().next().context("sha256sum")?;
        diff_ids.push(format!("sha256:{sum}"));
        layers.push(name);
    }
    let config = json!({
        "os": "linux", "architecture": std::env::consts::ARCH.replace("x86_64", "amd64")
            .replace("aarch64", "arm64"),
        "config": {"Cmd": ["/main"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    fs::write(scratch.join("config.json"), config.to_string())?;
    let manifest = json!([{"Config": "config.json", "Layers": layers, "RepoTags": ["bench:v1"]}]);
    fs::write(scratch.join("manifest.json"), manifest.to_string())?;
    let archive = folder.join("image.tar");
    let mut tar = Command::new("tar");
    tar.arg("-cf")
        .arg(&archive)
        .arg("-C")
        .arg(&scratch)
        .arg(".");
    exec::read(&mut tar)?;
    fs::remove_dir_all(&scratch)?;
    let name = format!("{host}/bench/m{}-l{}:v1", shape.megabytes, shape.layers);
    let from = format!("docker-archive:{}", archive.display());
    let mut copy = Command::new("skopeo");
    copy.args([
        "copy",
        "--insecure-policy",
        "--dest-tls-verify=false",
        &from,
    ])
    .arg(format!("docker://{name}"));
    exec::read(&mut copy)?;
    fs::remove_file(&archive)?;
    Ok(name)
}

/// Writes one layer's tar.
fn layer(scratch: &Path, number: usize, shape: Shape, noise: &mut Noise) -> Result<()> {
    let tree = scratch.join("tree");
    let most = shape.megabytes * 1_000_000 / shape.layers;
    let (mut bytes, mut files) = (0, 0);
    while bytes < most {
        let size = SIZES.get(files % SIZES.len()).copied().unwrap_or(4096);
        let parent = tree.join(format!("usr/lib/part{number}/{}", files / 100));
        if files % 100 == 0 {
            fs::create_dir_all(&parent)?;
        }
        let mut file = BufWriter::new(File::create(parent.join(format!("file{files}")))?);
        noise.write(&mut file, size)?;
        file.flush()?;
        bytes += size;
        files += 1;
    }
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(scratch.join(format!("{number}.tar")));
    tar.args(["--sort=name", "--owner=0", "--group=0", "-C"])
        .arg(&tree)
        .arg(".");
    exec::read(&mut tar)?;
    fs::remove_dir_all(&tree)?;
    Ok(())
}

/// xorshift: the same bytes in each run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Half of each sixteen bytes can't be guessed.
    fn write(&mut self, file: &mut impl std::io::Write, size: usize) -> Result<()> {
        let mut left = size;
        while left > 0 {
            let mut piece = [b'a'; 16];
            for (to, from) in piece.iter_mut().zip(self.next().to_le_bytes()) {
                *to = from;
            }
            let some = piece.get(..left.min(16)).unwrap_or_default();
            file.write_all(some)?;
            left -= some.len();
        }
        Ok(())
    }
}
