// SPDX-License-Identifier: Apache-2.0
//! The packages that are judged: what unit each brings, and how its own client sees that it serves.

/// A package of Debian's.
pub(super) struct Package {
    pub(super) name: &'static str,
    /// Its service; a socket where that is what is started.
    pub(super) unit: &'static str,
    /// Another package that it recommends, and doesn't work without.
    pub(super) with: &'static str,
    /// What must be done once before it is up and can be used.
    pub(super) setup: &'static str,
    /// A client: a shell command that succeeds.
    pub(super) used: &'static str,
}

const fn of(name: &'static str, unit: &'static str, used: &'static str) -> Package {
    Package {
        name,
        unit,
        with: "",
        setup: "",
        used,
    }
}

impl Package {
    const fn with(mut self, other: &'static str) -> Self {
        self.with = other;
        self
    }

    const fn after(mut self, setup: &'static str) -> Self {
        self.setup = setup;
        self
    }
}

/// Whether a TCP server greets, or just answers.
macro_rules! greets {
    ($port:literal) => {
        concat!(
            "timeout 10 bash -c 'exec 3<>/dev/tcp/127.0.0.1/",
            $port,
            "; head -c 1 <&3 | grep -q .'"
        )
    };
}

/// Whether something listens.
macro_rules! listens {
    ($port:literal) => {
        concat!("timeout 10 bash -c '>/dev/tcp/127.0.0.1/", $port, "'")
    };
}

/// What says something to a server and looks for its answer.
macro_rules! says {
    ($port:literal, $words:literal, $answer:literal) => {
        concat!(
            "timeout 10 bash -c 'exec 3<>/dev/tcp/127.0.0.1/",
            $port,
            "; printf \"",
            $words,
            "\" >&3; head -n 1 <&3 | grep -q \"",
            $answer,
            "\"'"
        )
    };
}

/// Small ones first. Each is purged before the next comes, so that two may have one port.
pub(super) const PACKAGES: &[Package] = &[
    of("memcached", "memcached", says!("11211", "version\\r\\n", "VERSION")),
    of("redis-server", "redis-server", "redis-cli ping | grep -q PONG"),
    of("beanstalkd", "beanstalkd", says!("11300", "stats\\r\\n", "OK")),
    of("gearman-job-server", "gearman-job-server", says!("4730", "version\\n", "OK")),
    of("mosquitto", "mosquitto", listens!("1883")),
    of("tinyproxy", "tinyproxy", says!("8888", "GET / HTTP/1.0\\r\\n\\r\\n", "HTTP")),
    of("privoxy", "privoxy", says!("8118", "GET / HTTP/1.0\\r\\n\\r\\n", "HTTP")),
    of("haproxy", "haproxy", "curl -sf http://127.0.0.1:8081/")
        .after("printf 'listen web\\n bind 127.0.0.1:8081\\n mode http\\n http-request return status 200\\n' \
                >> /etc/haproxy/haproxy.cfg; systemctl reload haproxy"),
    of("nginx-light", "nginx", "curl -sf http://127.0.0.1/ | grep -q nginx"),
    of("lighttpd", "lighttpd", "curl -s -o /dev/null http://127.0.0.1/"),
    of("apache2", "apache2", "curl -sf http://127.0.0.1/ | grep -q Apache2"),
    of("fcgiwrap", "fcgiwrap.socket", "test -S /run/fcgiwrap.socket"),
    of("php8.2-fpm", "php8.2-fpm", "test -S /run/php/php8.2-fpm.sock"),
    of("squid", "squid", says!("3128", "GET / HTTP/1.0\\r\\n\\r\\n", "HTTP")),
    of("icecast2", "icecast2", "curl -s -o /dev/null http://127.0.0.1:8000/").after("systemctl start icecast2"),
    of("dnsmasq", "dnsmasq", "busybox nslookup localhost 127.0.0.1"),
    of("unbound", "unbound", "busybox nslookup localhost 127.0.0.1").with("dns-root-data"),
    of("bind9", "named", "busybox nslookup localhost 127.0.0.1"),
    of("nsd", "nsd", "nsd-control status | grep -q version"),
    of("knot", "knot", "knotc status"),
    of("openssh-server", "ssh", greets!("22")),
    of("dropbear", "dropbear", greets!("22")),
    of("vsftpd", "vsftpd", greets!("21")),
    of("proftpd-core", "proftpd", greets!("21")),
    of("tftpd-hpa", "tftpd-hpa", "ss -lun | grep -q ':69 '"),
    of("exim4-daemon-light", "exim4", greets!("25")),
    of("postfix", "postfix@-", greets!("25")),
    of("opensmtpd", "opensmtpd", greets!("25")),
    of("dovecot-imapd", "dovecot", greets!("143")),
    of("ngircd", "ngircd", listens!("6667")),
    of("prosody", "prosody", listens!("5222")),
    of("at", "atd", "rm -f /tmp/by-at; echo 'touch /tmp/by-at' | at now 2>/dev/null; \
        for try in 1 2 3 4 5 6 7 8 9 10; do test -e /tmp/by-at && exit 0; sleep 1; done; exit 1"),
    of("cron", "cron", "pgrep -x cron"),
    of("rsyslog", "rsyslog", "logger -t judge by-rsyslog; sleep 1; grep -q by-rsyslog /var/log/syslog"),
    of("chrony", "chrony", "chronyc -n tracking"),
    of("ntpsec", "ntpsec", "ntpq -c rv localhost"),
    of("openntpd", "openntpd", "ntpctl -s status"),
    of("acpid", "acpid.socket", "test -S /run/acpid.socket"),
    of("avahi-daemon", "avahi-daemon", "dbus-send --system --print-reply --dest=org.freedesktop.Avahi / \
        org.freedesktop.Avahi.Server.GetVersionString"),
    of("polkitd", "polkit", "dbus-send --system --print-reply --dest=org.freedesktop.PolicyKit1 \
        /org/freedesktop/PolicyKit1/Authority org.freedesktop.DBus.Peer.Ping")
        // The bus starts it for its first client.
        .after("systemctl start polkit"),
    of("cups-daemon", "cups", "curl -s -o /dev/null http://127.0.0.1:631/"),
    of("samba", "smbd", listens!("445")),
    of("rpcbind", "rpcbind", "rpcinfo -p 127.0.0.1"),
    of("snmpd", "snmpd", "ss -lun | grep -q ':161 '"),
    of("collectd-core", "collectd", "pgrep -x collectd"),
    of("munin-node", "munin-node", greets!("4949")),
    of("prometheus-node-exporter", "prometheus-node-exporter", "curl -sf http://127.0.0.1:9100/metrics | grep -q node_"),
    of("haveged", "haveged", "pgrep -x haveged"),
    of("uuid-runtime", "uuidd.socket", "uuidd -r -n 1 -s /run/uuidd/request"),
    of("stunnel4", "stunnel.target", "true"),
    of("tor", "tor@default", listens!("9050")),
    of("supervisor", "supervisor", "supervisorctl version"),
    of("monit", "monit", "pgrep -x monit"),
    of("fail2ban", "fail2ban", "fail2ban-client ping"),
    of("nftables", "nftables", "nft list ruleset | grep -q filter").after("systemctl start nftables"),
    of("nscd", "nscd", "nscd -g | grep -q passwd"),
    of("slapd", "slapd", listens!("389")),
    of("lldpd", "lldpd", "lldpcli show chassis"),
    of("vnstat", "vnstat", "pgrep -x vnstatd"),
    of("sysstat", "sysstat", "systemctl is-active sysstat"),
    of("xinetd", "xinetd", "pgrep -x xinetd"),
    of("radicale", "radicale", "curl -s -o /dev/null http://127.0.0.1:5232/").after("systemctl start radicale"),
    of("postgresql-15", "postgresql@15-main", "runuser -u postgres -- psql -qtAc 'select 6*7' | grep -qx 42"),
    of("mariadb-server", "mariadb", "mariadb -e 'select 6*7' | grep -q 42"),
];
