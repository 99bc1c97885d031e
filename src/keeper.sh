# Announces Emacs to the CLIs on this machine, as long as the connection lasts.
#
# gemini-companion, a package for Emacs, sends this script to `sh' on its standard input, by ssh, so
# that nothing of it is in a list of processes.  Emacs fills in what has a name between two @ at the end
# of this file, each a word in single quotes, in which '\'' stands for a quote:
#
#   RELAY HASH        the text of the relay, and a hash of it
#   ID                the machine and the user of Emacs, of letters, digits, dots and underscores
#   EMACS             a random name, the same as long as this Emacs serves this host
#   WORKSPACE         the workspace roots separated by colons, a string of JSON
#   ROOTS             the same as an array of JSON
#
# and lines, each a call of `agent', below:
#
#   AGENTS            the agents that are served
#
# The script writes lines that begin with "gemini-companion: "; whatever else there is on its standard
# output is of the files that a shell reads at its start.
#
#   home PATH              the user's home
#   socket PATH            where ssh is to put a socket, which leads to Emacs
#   ready PID NAME SLOT    the CLIs can find Emacs; NAME is that of this machine
#   warning TEXT           for the user
#   fault TEXT             for the user; the script ends
#
# It reads these lines.  When its input ends, it removes what it has written, but not the relay.
#
#   slot SLOT              what Emacs had when it was connected before
#   forwarded              the socket is there
#   roots WORKSPACE ROOTS  other workspace roots, as above, with a tab before each
#
# What Emacs sends in JSON is copied, and never taken apart.

tab='	'
newline='
'

say() {
  printf 'gemini-companion: %s\n' "$*"
}

fault() {
  say "fault $*"
  clean_up
  exit 1
}

# ---- Files

# Writes the text $2 to the file $1.  It is no argument of a program, where others could see it:
# `printf' is one in some shells.
write() {
  rm -f "$1.$$"
  # Never through a link that somebody has put there.
  (set -C && cat >"$1.$$") 2>/dev/null <<END && mv -f "$1.$$" "$1" && return
$2
END
  rm -f "$1.$$"
  return 1
}

# Whether the directory $1 is ours; a symbolic link could be changed by others.
is_our_directory() {
  [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]
}

is_our_file() {
  [ -f "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]
}

remove_socket() {
  if [ -S "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]; then rm -f "$1"; fi
}

# The name $1 as a string of JSON.
json() {
  printf '"%s"' "$(printf '%s\n' "$1" | sed 's/[\\"]/\\&/g')"
}

# ---- What is needed

# Makes the directory for the relay, the configuration and the socket.
find_directory() {
  directory=$HOME/.cache
  case ${XDG_CACHE_HOME:-} in
    /*) directory=$XDG_CACHE_HOME ;;
  esac
  directory=$directory/gemini-companion
  case $directory in
    *[[:cntrl:]]*) fault "the name of the cache directory has control characters" ;;
  esac
  make_private "$directory" || fault "$directory cannot be made, or belongs to another user"
}

make_private() {
  mkdir -p "$1" 2>/dev/null
  is_our_directory "$1" && chmod 700 "$1"
}

# Chooses a new name, since ssh refuses that of a file.
find_socket() {
  random=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
  [ ${#random} -eq 16 ] || fault "/dev/urandom cannot be read"
  is_good_socket "$directory/$random" && return
  if [ -d "${XDG_RUNTIME_DIR:-}" ] && make_private "$XDG_RUNTIME_DIR/gemini-companion"; then
    is_good_socket "$XDG_RUNTIME_DIR/gemini-companion/$random" && return
  fi
  socket=
  fault "$directory has too long a name for a socket, or one with a colon, a percent sign, a dollar or a backslash"
}

# The kernel takes about 100 bytes, and some characters mean something to ssh.
is_good_socket() {
  socket=$1
  case $socket in
    *[:%\$\\]*) return 1 ;;
  esac
  [ "$(printf '%s' "$socket" | wc -c)" -le 100 ]
}

find_node() {
  node=$(command -v node)
  is_node "$node" && return
  newest=
  for node in "$HOME"/.nvm/versions/node/*/bin/node; do
    # shellcheck disable=SC3013 # the shells that are sh somewhere have -nt
    if [ -z "$newest" ] || [ "$node" -nt "$newest" ]; then newest=$node; fi
  done
  for node in "$newest" "$HOME/.volta/bin/node" "$HOME/.local/bin/node" \
    /opt/homebrew/bin/node /usr/local/bin/node; do
    is_node "$node" && return
  done
  fault "no node of version 18 or newer, which also the CLI needs: install Node.js, or add its directory to the PATH of shells that are not interactive"
}

# Whether $1 is a Node.js that can run the relay.
is_node() {
  case $1 in
    /*) [ -x "$1" ] || return ;;
    *) return 1 ;;
  esac
  version=$("$1" --version </dev/null 2>/dev/null)
  version=${version#v}
  [ "${version%%.*}" -ge 18 ] 2>/dev/null
}

# Those of other versions stay for a while, since they may run, or CLIs may start them again.
write_relay() {
  relay=$directory/relay-$hash.mjs
  is_our_file "$relay" || write "$relay" "$text" || fault "$relay cannot be written: is the disk full?"
  touch -c "$relay"
  remove_old_relays
}

# Removes those that no keeper has announced for 30 days.
remove_old_relays() {
  for file in "$directory"/relay-*.mjs; do
    if is_our_file "$file" && [ -n "$(find "$file" -mtime +30 2>/dev/null)" ]; then
      rm -f "$file"
    fi
  done
}

# ---- The slot

# A CLI keeps the configuration with which it was started.  So that has the same name when Emacs
# connects again, or is started again, but another one if there is another Emacs on its machine.  A
# home may belong to several machines.
choose_slot() {
  configurations=$directory/$machine-$id
  if ! is_free "$configurations-$slot"; then
    slot=1
    until is_free "$configurations-$slot"; do
      slot=$((slot + 1))
      [ "$slot" -le 99 ] || fault "$directory has configurations of 99 other Emacsen"
    done
  fi
  configurations=$configurations-$slot
}

# Two keepers must not choose at the same time, as both would take the same slot.
lock() {
  tries=0
  until ln -s $$ "$lock" 2>/dev/null || [ "$tries" -ge 50 ]; do
    owner=$(readlink "$lock")
    # It may have been killed.
    [ -z "$owner" ] || kill -0 "$owner" 2>/dev/null || remove_lock "$owner"
    tries=$((tries + 1))
    sleep 0.1 2>/dev/null || sleep 1
  done
}

# Removes the lock of $1, which is dead.  Only who has another lock, on this one, may do that: others
# have found the same, and would remove the lock of the next owner.
remove_lock() {
  if ln -s $$ "$lock.$1" 2>/dev/null; then
    [ "$(readlink "$lock")" != "$1" ] || rm -f "$lock"
    rm -f "$lock.$1"
  else
    remover=$(readlink "$lock.$1")
    [ -z "$remover" ] || kill -0 "$remover" 2>/dev/null || rm -f "$lock.$1"
  fi
}

unlock() {
  [ "$(readlink "$lock")" != $$ ] || rm -f "$lock"
}

is_free() {
  left=
  for file in "$1"-*.json; do
    if [ -e "$file" ] || [ -L "$file" ]; then is_left "$file" || return; fi
  done
}

# Whether the configuration $1 is of a keeper that is dead, or of the same Emacs: after a connection
# is cut, its keeper may live for hours.
is_left() {
  is_our_file "$1" || return
  keeper=$(member "$1" 2)
  case $keeper in
    '' | *[!0-9]*) return 1 ;;
  esac
  if [ "$keeper" != $$ ] && kill -0 "$keeper" 2>/dev/null; then
    [ "$(member "$1" 3)" = "$emacs" ]
  else
    remove_socket "$(member "$1" 1)"
    left=$keeper
  fi
}

# The socket (1), keeper (2) or Emacs (3) in the configuration $1, as `write_configuration' writes it.
member() {
  # shellcheck disable=SC1003 # the quote before $2 ends the word
  sed -n 's/^{"socket":"\(.*\)","keeper":\([0-9]*\),"emacs":"\([^"]*\)",.*/\'"$2"'/p' "$1"
}

# Writes the configuration $1, with the object of JSON $2 and what is known here.
write_configuration() {
  write "$1" "{\"socket\":$(json "$socket"),\"keeper\":$$,\"emacs\":\"$emacs\",\"roots\":$roots,${2#?}" \
    || fault "$1 cannot be written: is the disk full?"
}

# ---- Announcing

# Called for each agent, by
#   agent NAME CONFIGURATION FILE temporary DIRECTORY
#   agent NAME CONFIGURATION FILE home VARIABLE DEFAULT DIRECTORY
# CONFIGURATION is an object of JSON with the members host and token, the rest is as in
# `gemini-companion-agent-profiles'.  The home must exist.
agent() {
  configuration=$configurations-$1.json
  case $4 in
    temporary)
      write_configuration "$configuration" "$2"
      announce_below "$temporary" "$5" "$3"
      [ "$temporary" = /tmp ] || announce_below /tmp "$5" "$3"
      ;;
    home)
      eval "home=\${$5:-}"
      home=${home:-$6}
      case $home in
        '~'/*) home=$HOME${home#?} ;;
      esac
      case $home in
        /*) [ -d "$home" ] || return 0 ;;
        *) return 0 ;;
      esac
      write_configuration "$configuration" "$2"
      announce "${home%/}/$7" "$3"
      ;;
  esac
}

# Announces Emacs in the directory $2 of two components, in the directory $1 that all users have.
announce_below() {
  if make_ours "$1/${2%/*}"; then announce "$1/$2" "$3"; fi
}

# Writes the discovery file, which is named by the pattern $2, in the directory $1.
announce() {
  make_ours "$1" || return 0
  file=$1/$(name_for $$ "$2")
  write "$file" "{\"workspacePath\":$workspace,\"ppid\":$$,\"ideInfo\":{\"name\":\"emacs\",\"displayName\":\"Emacs\"},\"stdio\":{\"command\":$(json "$node"),\"args\":[$(json "$relay"),$(json "$configuration")]}}" \
    || fault "$file cannot be written: is the disk full?"
  has_line "$announced" "$file" || announced=$announced$file$newline
  [ -n "$left" ] || return 0
  file=$1/$(name_for "$left" "$2")
  if is_our_file "$file"; then rm -f "$file"; fi
}

# No port has such a number.
name_for() {
  printf '%s\n' "$2" | sed "s/PID/$1/; s/PORT/$(($1 + 100000))/"
}

# Others must not put anything there, as a discovery file for the CLI.
make_ours() {
  [ -d "$1" ] || mkdir "$1" 2>/dev/null
  is_our_directory "$1" && chmod go-w "$1" && return
  if ! has_line "$warned" "$1"; then
    warned=$warned$1$newline
    say "warning $1 belongs to another user, or cannot be made, so a CLI that looks there does not find Emacs: set TMPDIR to a directory of your own there"
  fi
  return 1
}

# Whether $2 is one of the lines $1.
has_line() {
  case $newline$1 in
    *"$newline$2$newline"*) ;;
    *) return 1 ;;
  esac
}

announce_all() {
  touch -c "$relay"
  agents
  [ -n "$announced" ] || fault "${warned%%"$newline"*} belongs to another user, or cannot be made, so no CLI finds Emacs: set TMPDIR to a directory of your own there"
}

# ---- The end

# A later keeper may have written the configuration since.
clean_up() {
  unlock
  while [ -n "$announced" ]; do
    rm -f "${announced%%"$newline"*}"
    announced=${announced#*"$newline"}
  done
  if [ -n "$configurations" ]; then
    for file in "$configurations"-*.json; do
      if is_our_file "$file" && [ "$(member "$file" 2)" = $$ ]; then rm -f "$file"; fi
    done
  fi
  if [ -n "$socket" ]; then remove_socket "$socket"; fi
}

# ---- Emacs

serve() {
  while IFS= read -r line; do
    case $line in
      forwarded)
        [ -z "$configurations" ] || continue
        write_relay
        lock
        choose_slot
        announce_all
        unlock
        say "ready $$ $(uname -n) $slot"
        ;;
      "slot "[1-9] | "slot "[1-9][0-9])
        [ -n "$configurations" ] || slot=${line#slot }
        ;;
      "roots$tab"*"$tab"*)
        roots=${line##*"$tab"}
        workspace=${line#*"$tab"}
        workspace=${workspace%%"$tab"*}
        [ -z "$configurations" ] || announce_all
        ;;
    esac
  done
}

agents() {
  :
@AGENTS@
}

main() {
  text=@RELAY@
  hash=@HASH@
  id=@ID@
  emacs=@EMACS@
  workspace=@WORKSPACE@
  roots=@ROOTS@
  announced='' warned='' configurations='' socket='' left='' slot=1 lock=''
  machine=$(uname -n | tr -c 'A-Za-z0-9._\n' _)
  temporary=/tmp
  case ${TMPDIR:-${TMP:-${TEMP:-}}} in
    /?*) temporary=${TMPDIR:-${TMP:-$TEMP}} ;;
  esac
  temporary=${temporary%/}
  umask 077
  trap 'clean_up; exit 0' HUP INT TERM
  # Without the other end, there is still something to remove.
  trap '' PIPE
  printf '\n'
  find_directory
  lock=$directory/$machine.lock
  find_socket
  find_node
  say "home $HOME"
  say "socket $socket"
  serve
  clean_up
}

# Nothing is done before all has arrived.  In one line, since `read' reads what follows.
main; exit
