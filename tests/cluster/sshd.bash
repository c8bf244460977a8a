# shellcheck shell=bash
# A real sshd on hosts of the test cluster, at which alice logs in without a
# question; for what has loaded helpers and launch. Its keys and configuration,
# and what alice has in ~/.ssh, are in the cluster's own folder, $SSHD.

# sshd_can: succeeds when OpenSSH is installed.
sshd_can() { [[ -x /usr/sbin/sshd ]] && command -v ssh-keygen >/dev/null; }

# sshd_prepare HOST…: makes keys, and starts sshd on each host, at $SSHD_PORT or 22.
sshd_prepare() {
    local host ssh
    ssh="$(home)/.ssh"
    SSHD=$(cluster path)/sshd
    export SSHD
    mkdir -p "$SSHD" "$ssh"
    [[ ! -e $SSHD/other ]] || return 0
    for host in "$@" other; do ssh-keygen -q -t ed25519 -N '' -f "$SSHD/$host"; done
    ssh-keygen -q -t ed25519 -N '' -f "$ssh/id_ed25519"
    cp "$ssh/id_ed25519.pub" "$SSHD/authorized_keys"
    chmod 755 "$SSHD"
    chmod 644 "$SSHD/authorized_keys"
    for host in "$@"; do
        echo "$host $(cut -d' ' -f1,2 "$SSHD/$host.pub")"
    done >"$ssh/known_hosts"
    chmod 700 "$ssh"
    chown -R alice "$ssh" 2>/dev/null || as_root hvdlogin chown -R alice: "$ssh"
    for host in "$@"; do sshd_up "$host"; done
}

# sshd_up HOST [AUTHORIZED_KEYS]: starts sshd there, unless it runs.
sshd_up() {
    as_root "$1" pgrep -x -f "/usr/sbin/sshd -f $SSHD/$1.conf.*" >/dev/null && return 0
    cat >"$SSHD/$1.conf" <<END
ListenAddress 0.0.0.0
HostKey $SSHD/$1
AuthorizedKeysFile ${2-$SSHD/authorized_keys}
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
END
    as_root "$1" mkdir -p /run/sshd
    as_root "$1" /usr/sbin/sshd -f "$SSHD/$1.conf" -E "$SSHD/$1.log" -p "${SSHD_PORT:-22}" 3>&-
}

sshd_down() {
    as_root "$1" pkill -KILL -x sshd || true
}

# sshd_left_behind: prints what hosts run besides their daemons and an sshd that waits for logins.
sshd_left_behind() {
    cluster leftovers | grep -vE 'process +[0-9]+ root +sshd: /usr/sbin/sshd -f|listening 0.0.0.0:22 .*"sshd"'
}

# nobody_left [SECONDS]: succeeds when hosts run nothing else within the time.
nobody_left() {
    wait_for "${1:-8}" only_sshd_left || { sshd_left_behind && return 1; }
}
only_sshd_left() { [[ ! $(sshd_left_behind) ]]; }
