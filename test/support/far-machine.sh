#!/bin/sh
# A second machine on this one, for tests: with a network, processes, users, a /home and a /tmp of its
# own, and an sshd.  Needs the rights of root.  It sees our file system, and what it writes is in memory.
#
#   far-machine.sh DIRECTORY KEY CLIENT NET SSHD-OPTION...
#
# DIRECTORY is an empty one, which is where it has its file system, KEY the public key with which the
# users dev and mallory log in.  CLIENT is put at /opt/client.  NET is the number of its network, from 0 to 16383.
# When it is up this prints {"event": "up", "pid": N, "address": A}, where N is the process whose
# root directory and network are those of the machine.  It is up until standard input ends.
set -eu

if [ "${1:-}" != inside ]; then
    directory=$1 net=$4
    base=10.99.$((net / 64)).$((net % 64 * 4))
    near=${base%.*}.$((${base##*.} + 1)) far=${base%.*}.$((${base##*.} + 2))
    mkfifo "$directory/go"
    # With the first process in there all others end, and what is mounted and connected is gone.
    unshare --mount --uts --ipc --net --pid --fork --kill-child "$0" inside "$directory" "$2" "$3" "$far" \
        "$near" "$directory/go" </dev/null >"$directory/log" 2>&1 &
    outer=$!
    trap 'kill -9 $outer 2>/dev/null; exit 0' EXIT HUP INT TERM
    pid=
    while [ -z "$pid" ]; do
        kill -0 $outer || { cat "$directory/log" >&2; exit 1; }
        pid=$(tr -d ' ' <"/proc/$outer/task/$outer/children" 2>/dev/null) || true
    done
    link=gcfar$net
    ip link add "$link" type veth peer name far0 netns "$pid"
    ip addr add "$near/30" dev "$link"
    ip link set "$link" up
    nsenter -t "$pid" -n sh -c "ip addr add $far/30 dev far0; ip link set far0 up; ip link set lo up"
    shift 4
    for option; do echo "$option"; done >"$directory/go"
    until nsenter -t "$pid" -n sh -c 'grep -q ":0016 00000000:0000 0A" /proc/net/tcp' 2>/dev/null; do
        kill -0 $outer 2>/dev/null || { cat "$directory/log" >&2; exit 1; }
        sleep 0.05
    done
    printf '{"event": "up", "pid": %s, "address": "%s"}\n' "$pid" "$far"
    while read -r _; do :; done
    exit 0
fi

# The first process of the machine: makes its file system, and becomes its sshd.
directory=$2 key=$3 client=$4 far=$5 near=$6 go=$7
fs=$directory/fs root=$directory/fs/root
mkdir "$fs"
mount -t tmpfs -o mode=755 far "$fs"
mkdir "$fs/upper" "$fs/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$fs/upper,workdir=$fs/work" "$root"
rm -f "$root/.dockerenv" "$root"/etc/ssh/ssh_host_*
hostname far
printf '127.0.0.1 localhost\n%s far\n%s near\n' "$far" "$near" >"$root/etc/hosts"
for user in dev:4242 mallory:4243; do
    name=${user%:*} id=${user#*:} home=$root/home/${user%:*}
    echo "$name:x:$id:$id::/home/$name:/bin/bash" >>"$root/etc/passwd"
    echo "$name:x:$id:" >>"$root/etc/group"
    echo "$name:*:19000:0:99999:7:::" >>"$root/etc/shadow"
    mkdir -p "$home"
    mkdir -m 700 "$home/.ssh"
    cp "$key" "$home/.ssh/authorized_keys"
    chown -R "$id:$id" "$home"
done
ssh-keygen -q -t ed25519 -N '' -f "$root/etc/ssh/ssh_host_ed25519_key"
mkdir -p "$root/opt/client"
mount --bind "$client" "$root/opt/client"
{
    cat "$go"
    printf '%s\n' 'HostKey /etc/ssh/ssh_host_ed25519_key' 'PasswordAuthentication no' 'UsePAM no' \
        'Subsystem sftp internal-sftp' 'SetEnv LANG=C.UTF-8' 'MaxStartups 100'
} >"$root/etc/ssh/sshd_config"
cat >"$root/far-init" <<'INIT'
set -eu
umask 022
mount -t proc proc /proc
mount -t tmpfs -o mode=755 dev /dev
mkdir /dev/pts /dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts /dev/pts
ln -s pts/ptmx /dev/ptmx
for each in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "/dev/${each%:*}" c 1 "${each#*:}"; done
mknod -m 666 /dev/tty c 5 0
ln -s /proc/self/fd /dev/fd
for each in stdin:0 stdout:1 stderr:2; do ln -s "/proc/self/fd/${each#*:}" "/dev/${each%:*}"; done
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=755 run /run
mkdir /run/sshd
exec /usr/sbin/sshd -D -E /run/sshd.log
INIT
exec chroot "$root" /bin/sh /far-init
