#!/bin/sh
# Makes an image as `docker save` would write it, into the file `$1`: the node's busybox, and a page that it serves.
set -eu
folder=$(mktemp -d)
mkdir -p "$folder/root/bin" "$folder/root/www" && cd "$folder"
cp /usr/bin/busybox root/bin/
echo '<!doctype html><title>An image</title><p>Hello from an image.' > root/www/index.html
tar -C root -cf layer.tar .
cat > config.json <<END
{"architecture": "$(dpkg --print-architecture)", "os": "linux",
 "config": {"Cmd": ["/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/www"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum layer.tar | cut -d' ' -f1)"]}}
END
cat > manifest.json <<END
[{"Config": "config.json", "Layers": ["layer.tar"], "RepoTags": null}]
END
tar -cf "$1" manifest.json config.json layer.tar
cd / && rm -r "$folder"
