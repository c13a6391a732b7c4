// SPDX-License-Identifier: Apache-2.0
//! An image without a registry, for stories that need one.

/// Makes the archive `/root/busybox.tar` on a node: busybox, which serves a folder unless it is
/// told to do something else. The image has no name.
pub(crate) const BUSYBOX: &str = r#"
mkdir -p /root/image/root/bin /root/image/root/tmp && cd /root/image || exit 1
cp /usr/bin/busybox root/bin/ || exit 1
for name in sh cat echo httpd ip ls mkdir ps tar wget; do ln -s busybox root/bin/$name; done
tar -C root -cf layer.tar . || exit 1
case $(uname -m) in aarch64) machine=arm64;; *) machine=amd64;; esac
cat > config.json <<END
{"architecture": "$machine", "os": "linux",
 "config": {"Env": ["PATH=/bin"], "Cmd": ["httpd", "-f", "-p", "80"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum layer.tar | cut -d' ' -f1)"]}}
END
cat > manifest.json <<END
[{"Config": "config.json", "Layers": ["layer.tar"], "RepoTags": null}]
END
tar -cf /root/busybox.tar manifest.json config.json layer.tar || exit 1
cd / && rm -r /root/image
"#;
