# Starts the keeper, keeper.mjs, on a host.
#
# gemini-companion, a package for Emacs, sends this script to a shell there, on its standard input, with
# the text of the keeper as one word in place of the name between two @ at its end.  It writes these
# lines; whatever else there is on standard output is of the files that a shell reads at its start.
#
#   gemini-companion: shell                there is a shell
#   gemini-companion: fault node TEXT      there is no Node.js; TEXT is for the user
#
# What follows is said by the keeper.

find_node() {
  node=$(command -v node)
  is_node "$node" && return
  newest=
  for node in "$HOME"/.nvm/versions/node/*/bin/node; do
    # shellcheck disable=SC3013 # the shells that are sh somewhere have -nt
    if is_node "$node" && { [ -z "$newest" ] || [ "$node" -nt "$newest" ]; }; then newest=$node; fi
  done
  for node in "$newest" "$HOME/.volta/bin/node" "$HOME/.local/bin/node" \
    /opt/homebrew/bin/node /usr/local/bin/node; do
    is_node "$node" && return
  done
  # Such as asdf, fnm and mise set it up, only the shell in which the user logs in finds it.
  case ${SHELL##*/} in *csh) flags=-c ;; *) flags=-ilc ;; esac
  node=$("${SHELL:-/bin/sh}" "$flags" 'node -p process.execPath' </dev/null 2>/dev/null)
  # What it reads at its start may say something before.
  node=${node##*
}
  is_node "$node"
}

# Whether $1 is a Node.js that can run the keeper and the relay.
is_node() {
  case $1 in
    /*) [ -x "$1" ] || return ;;
    *) return 1 ;;
  esac
  version=$("$1" --version </dev/null 2>/dev/null)
  version=${version#v}
  [ "${version%%.*}" -ge 18 ] 2>/dev/null
}

main() {
  printf '\ngemini-companion: shell\n'
  if ! find_node; then
    echo "gemini-companion: fault node no node of version 18 or newer, which the CLI needs, too: install Node.js, or add its directory to the PATH of your login shell"
    exit 1
  fi
  # In the environment, where other users cannot see it as they see arguments; and no file is left.
  export GEMINI_COMPANION_KEEPER=@KEEPER@
  exec "$node" --input-type=module -e \
    'await import("data:text/javascript," + encodeURIComponent(process.env.GEMINI_COMPANION_KEEPER))'
}

# Nothing is done before all has arrived.  In one line, since the keeper reads what follows.
main; exit
