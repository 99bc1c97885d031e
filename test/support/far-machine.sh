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
#
# If FAR_PODMAN is set, it is a container of this name, which dev uses, and in which the volume FAR_VOLUME is
# mounted, if that is set.  DIRECTORY/podman is podman as it is where that runs.  Podman gives it no network; ours
# is for what the tests do there themselves, by sshd.
set -eu

if [ "${1:-}" != inside ]; then
    directory=$1 key=$2 client=$3 net=$4
    shift 4
    base=10.99.$((net / 64)).$((net % 64 * 4))
    near=${base%.*}.$((${base##*.} + 1)) far=${base%.*}.$((${base##*.} + 2))
    for option; do echo "$option"; done >"$directory/options"
    # With the first process in there all others end, and what is mounted and connected is gone.  Podman has to
    # know the processes as we do.
    pid=--pid
    [ -z "${FAR_PODMAN:-}" ] || pid=
    # shellcheck disable=SC2086 # no word, if it is empty
    unshare --mount --uts --ipc --net $pid --fork --kill-child \
        "$0" inside "$directory" "$key" "$client" "$far" "$near" </dev/null >"$directory/log" 2>&1 &
    outer=$!
    trap '[ ! -e "$directory/podman" ] || "$directory/podman" rm -f -t 0 "$FAR_PODMAN" >/dev/null 2>&1
        kill -9 $outer 2>/dev/null; exit 0' EXIT HUP INT TERM
    first=$directory/pid
    [ -n "${FAR_PODMAN:-}" ] || first=/proc/$outer/task/$outer/children
    pid=
    while [ -z "$pid" ]; do
        kill -0 $outer 2>/dev/null || { cat "$directory/log" >&2; exit 1; }
        pid=$(tr -d ' ' 2>/dev/null <"$first") || true
    done
    link=gcfar$net
    ip link add "$link" type veth peer name far0 netns "$pid"
    ip addr add "$near/30" dev "$link"
    ip link set "$link" up
    nsenter -t "$pid" -n sh -c "ip addr add $far/30 dev far0; ip link set far0 up; ip link set lo up"
    until nsenter -t "$pid" -n sh -c 'grep -q ":0016 00000000:0000 0A" /proc/net/tcp' 2>/dev/null; do
        kill -0 $outer 2>/dev/null || { cat "$directory/log" >&2; exit 1; }
        sleep 0.05
    done
    printf '{"event": "up", "pid": %s, "address": "%s"}\n' "$pid" "$far"
    while read -r _; do :; done
    exit 0
fi

# The first process of the machine: makes its file system, and becomes its sshd.
directory=$2 key=$3 client=$4 far=$5 near=$6
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
    cat "$directory/options"
    printf '%s\n' 'HostKey /etc/ssh/ssh_host_ed25519_key' 'PasswordAuthentication no' 'UsePAM no' \
        'Subsystem sftp internal-sftp' 'SetEnv LANG=C.UTF-8' 'MaxStartups 100'
} >"$root/etc/ssh/sshd_config"
if [ "${FAR_PODMAN:-}" ]; then
    podman=$(command -v podman)
    # What it notes of containers is ours, and is gone with this process.
    for each in /var/lib/containers /run /dev/shm; do
        mkdir -p "$each"
        mount -t tmpfs podman "$each"
    done
    printf '%s\n' '[engine]' 'runtime = "runc"' 'cgroup_manager = "cgroupfs"' '[containers]' \
        'default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]' >"$directory/containers.conf"
    printf '#!/bin/sh\nexec nsenter -t %s -m env CONTAINERS_CONF=%s %s "$@"\n' \
        $$ "$directory/containers.conf" "$podman" >"$directory/podman"
    chmod 755 "$directory/podman"
    "$directory/podman" run -d --name "$FAR_PODMAN" --network none --user 4242:4242 --workdir /home/dev \
        --env HOME=/home/dev --env "PATH=$PATH" --env LANG=C.UTF-8 --tmpfs /tmp:mode=1777,notmpcopyup \
        --tmpfs /run:notmpcopyup ${FAR_VOLUME:+--volume="$FAR_VOLUME"} --rootfs "$root" sleep infinity
    "$directory/podman" inspect --format '{{.State.Pid}}' "$FAR_PODMAN" >"$directory/pid"
    nsenter -t "$(cat "$directory/pid")" -m -u -i -n -p -r -w \
        sh -c 'mkdir /run/sshd; exec /usr/sbin/sshd -D -E /run/sshd.log' || true
    # The container may be started again.
    exec sleep infinity
fi
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
