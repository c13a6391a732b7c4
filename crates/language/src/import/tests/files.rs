// SPDX-License-Identifier: Apache-2.0
//! Compose files of several kinds.

use serde_json::{Value, json};

/// A shop: a web server behind a database, a job before it, an admin's tool.
pub(super) fn shop() -> Value {
    json!({
        "version": "3.9",
        "name": "shop",
        "x-common": { "restart": "always" },
        "services": {
            "web": web(),
            "db": {
                "image": "postgres:16",
                "restart": "unless-stopped",
                "environment": {
                    "POSTGRES_PASSWORD_FILE": "/run/secrets/db_password",
                    "POSTGRES_USER": "${DB_USER:-shop}",
                },
                "volumes": ["data:/var/lib/postgresql/data"],
                "secrets": ["db_password"],
                "healthcheck": {
                    "test": ["CMD-SHELL", "pg_isready -U shop"],
                    "interval": "10s", "timeout": "5s", "retries": 5, "start_period": "20s",
                },
                "stop_grace_period": "1m30s",
                "networks": ["back"],
            },
            "migrate": {
                "image": "registry.example/shop/web:${TAG:-1.25}",
                "command": "rake db:migrate '--with spaces'",
                "environment": ["PASSWORD=${DB_PASSWORD:?say it}", "RAW=price $$(raw) $$5"],
                "depends_on": { "db": { "condition": "service_healthy", "restart": true } },
            },
            "admin": {
                "image": "adminer", "profiles": ["debug"], "ports": ["127.0.0.1:9090:8080/tcp"],
            },
        },
        "networks": { "front": {}, "back": { "internal": true } },
        "volumes": { "data": null },
        "secrets": { "db_password": { "file": "./secrets/db.txt" } },
    })
}

fn web() -> Value {
    json!({
        "image": "registry.example/shop/web:${TAG}",
        "restart": "always",
        "pull_policy": "always",
        "ports": ["8080:80"],
        "env_file": "web.env",
        "environment": { "RAILS_ENV": "production", "WORKERS": 2, "DEBUG": null },
        "volumes": [
            "./html:/usr/share/html",
            { "type": "bind", "source": "/etc/ssl", "target": "/etc/ssl", "read_only": true },
        ],
        "tmpfs": ["/tmp"],
        "depends_on": {
            "db": { "condition": "service_healthy" },
            "migrate": { "condition": "service_completed_successfully" },
        },
        "user": "1000:1000",
        "working_dir": "/app",
        "cap_add": ["NET_BIND_SERVICE"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "read_only": true,
        "devices": ["/dev/fuse", "/dev/kvm:/dev/own:rw", "vendor.com/gpu=0",
            { "source": "/dev/net/tun", "permissions": "rw" }],
        "stop_signal": "SIGQUIT",
        "deploy": {
            "replicas": 3,
            "resources": {
                "limits": { "cpus": "0.50", "memory": "512M" },
                "reservations": { "memory": "128M" },
            },
        },
        "logging": { "driver": "json-file" },
        "surprise": { "a": 1 },
        "networks": { "front": { "aliases": ["www"] }, "back": null },
    })
}

/// All of them, by what they are like.
pub(super) fn all() -> Vec<(&'static str, Value)> {
    let one = json!({ "services": { "whoami": { "image": "traefik/whoami", "ports": ["80"] } } });
    let wordpress = json!({ "services": {
        "db": {
            "image": "mariadb:10.6.4-focal",
            "command": "--default-authentication-plugin=mysql_native_password",
            "volumes": ["db_data:/var/lib/mysql"],
            "restart": "always",
            "environment": ["MYSQL_ROOT_PASSWORD=somewordpress", "MYSQL_DATABASE=wordpress"],
            "expose": [3306, 33060],
        },
        "wordpress": {
            "image": "wordpress:latest",
            "volumes": ["wp_data:/var/www/html"],
            "ports": ["80:80", { "target": 443, "published": "8443", "protocol": "tcp" }],
            "restart": "always",
            "environment": { "WORDPRESS_DB_HOST": "db", "WORDPRESS_DB_USER": "wordpress" },
        },
    }, "volumes": { "db_data": {}, "wp_data": { "external": true } } });
    let developer = json!({ "services": {
        "web": {
            "build": { "context": ".", "dockerfile": "Dockerfile" },
            "command": ["npm", "run", "dev"],
            "volumes": [".:/code", "/code/node_modules", "~/.npmrc:/root/.npmrc:ro"],
            "stdin_open": true, "tty": true,
            "env_file": [".env", { "path": "./more.env", "required": false }],
            "environment": ["REDIS=redis://redis:6379/0", "HOME"],
            "depends_on": ["redis"],
            "develop": { "watch": [{ "action": "sync", "path": ".", "target": "/code" }] },
        },
        "redis": {
            "image": "redis:${REDIS_VERSION-7}-alpine",
            "healthcheck": { "test": "redis-cli ping", "interval": "500ms" },
            "sysctls": { "net.core.somaxconn": 1024 }, "ulimits": { "nofile": 65536 },
        },
    } });
    let monitoring = json!({ "name": "Monitoring_Stack", "services": {
        "prometheus": {
            "image": "prom/prometheus:v2.53.0",
            "entrypoint": "prometheus --config.file=/etc/prometheus.yml",
            "configs": [{ "source": "prom", "target": "/etc/prometheus.yml", "mode": "0440" }],
            "tmpfs": "/run:size=64m",
            "mem_limit": "1.5g", "cpus": 1.5, "restart": "on-failure:5",
            "extra_hosts": ["host.docker.internal:host-gateway", "nas:192.168.1.9"],
            "links": ["node_exporter:exporter"],
        },
        "node_exporter": {
            "image": "prom/node-exporter", "pid": "host", "network_mode": "host",
            "hostname": "exporter", "scale": 2, "devices": ["/dev/kmsg"],
            "volumes": [{ "type": "volume", "source": "state", "target": "/s",
                "volume": { "subpath": "a" } }, { "type": "tmpfs", "target": "/t" }],
            "deploy": { "resources": { "limits": { "pids": 100 } }, "mode": "global" },
            "healthcheck": { "disable": true },
        },
    }, "configs": { "prom": { "content": "scrape: ${INTERVAL:-15s}\nliteral: $$x\n" } },
       "volumes": { "state": { "driver": "local" } } });
    vec![
        ("one", one),
        ("wordpress", wordpress),
        ("developer", developer),
        ("monitoring", monitoring),
        ("shop", shop()),
    ]
}
