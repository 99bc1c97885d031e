#!/bin/sh
# A stand-in for notify-send, run by a link to it.  In the directory of the link it adds a line to the
# file `log' for each call, with its arguments, and for each notification that is closed.  The file
# `click' is a click on it.  With the file `old' it knows no actions, and with `broken' it fails.  It
# prints a warning, as libraries do.  As in the real one, a backslash in the text begins an escape.
cd "$(dirname -- "$0")" || exit 2
[ ! -e broken ] || exit 1
case "$*" in
    *--action*) [ ! -e old ] || { echo "Unknown option --action" >&2; exit 1; } ;;
    *) printf '%b\n' "$*" >>log; exit 0 ;;
esac
trap 'echo closed >>log; exit 0' INT
printf '%b\n' "$*" >>log
echo 'libnotify-WARNING **: something' >&2
while [ ! -e click ]; do sleep 0.02; done
rm click
echo default
