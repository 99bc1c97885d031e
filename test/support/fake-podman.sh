#!/bin/sh
# Stands in for podman where Gemini CLI starts its own sandbox by it: a file system of its own, in which is
# what this machine has, and what is mounted.  It has the network of this machine, on which the tests have
# their model.  Needs the rights of root.
#
#   podman images ...      there is such an image
#   podman run OPTION... IMAGE COMMAND...
set -eu

case $1 in
    images) echo 0123456789ab; exit ;;
    run) shift ;;
    inside) shift ;;
    *) echo "Error: fake-podman.sh knows no $1" >&2; exit 125 ;;
esac

if [ -z "${FAKE_PODMAN_ROOT:-}" ]; then
    FAKE_PODMAN_ROOT=$(mktemp -d)
    export FAKE_PODMAN_ROOT
    trap 'rmdir "$FAKE_PODMAN_ROOT"' EXIT
    unshare --mount --pid --fork --kill-child "$0" inside "$@"
    exit
fi

root=$FAKE_PODMAN_ROOT/root
mount -t tmpfs sandbox "$FAKE_PODMAN_ROOT"
mkdir "$FAKE_PODMAN_ROOT/upper" "$FAKE_PODMAN_ROOT/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$FAKE_PODMAN_ROOT/upper,workdir=$FAKE_PODMAN_ROOT/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
set -- "$@" --end-of-options
directory=/
variables=
while [ "$1" != --end-of-options ]; do
    case $1 in
        -i | -t | --rm | --init) shift ;;
        --workdir) directory=$2; shift 2 ;;
        --volume)
            from=${2%%:*} to=${2#*:}
            mode=${to##*:} to=${to%%:*}
            mkdir -p "$root$to"
            mount --bind "$from" "$root$to"
            [ "$mode" != ro ] || mount -o remount,bind,ro "$root$to"
            shift 2 ;;
        --env) export "${2?}"; variables="$variables ${2%%=*}"; shift 2 ;;
        --*) shift 2 ;;
        *) break ;;
    esac
done
shift                                   # the image
command=
while [ "$1" != --end-of-options ]; do
    command="$command '$(printf %s "$1" | sed "s/'/'\\\\''/g")'"
    shift
done
for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z_0-9]*\)=.*/\1/p'); do
    case " $variables PATH " in
        *" $name "*) ;;
        *) unset "$name" ;;
    esac
done
exec chroot "$root" sh -c "cd '$directory' && exec $command"
