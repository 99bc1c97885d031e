# shellcheck shell=sh
# What the scripts share.  They source it first, and then work in the repository's top directory.

started_in=$PWD
cd "$(dirname -- "$0")/.." || exit 1

EMACS=${EMACS:-emacs}

# absolute FILE: the absolute name of FILE, relative to where the script was started.
absolute() {
    case $1 in
        /* | [A-Za-z]:*) printf '%s\n' "$1" ;;
        *) printf '%s\n' "$started_in/$1" ;;
    esac
}

have() { command -v "$1" >/dev/null 2>&1; }

heading() { printf '\n=== %s ===\n' "$*"; }

# Print a line that stands out in the output of other programs.
loud() { printf '!!! %s\n' "$*" >&2; }

# quietly COMMAND...: show the output only if COMMAND fails, and then end the script.  Needs the folder $work.
# shellcheck disable=SC2154 # it is the script's
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }

# Report what is an error in CI, but not on a user's machine.
missing() {
    if [ "${CI:-}" = true ]; then
        loud "$* (an error, because CI=true)"
        return 1
    fi
    loud "$*"
}

# at_least WANTED FOUND: whether version FOUND is WANTED or later.
at_least() {
    awk -v wanted="$1" -v found="$2" 'BEGIN {
        split(wanted, w, "."); split(found, f, ".")
        for (i = 1; i <= 3; i++) if (f[i] + 0 != w[i] + 0) exit f[i] + 0 < w[i] + 0
    }'
}

rust_wanted() { sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml; }

rust_is_recent() {
    have cargo && have rustc || return 1
    wanted=$(rust_wanted)
    at_least "$wanted" "$(cargo --version | awk '{ print $2 }')" &&
        at_least "$wanted" "$(rustc --version | awk '{ print $2 }')"
}

# Only a login shell may have rustup's programs on PATH.
find_rust() {
    rust_is_recent && return
    rustup_bin=${CARGO_HOME:-$HOME/.cargo}/bin
    [ -x "$rustup_bin/cargo" ] || return 1
    PATH=$rustup_bin:$PATH
    rust_is_recent
}

# The version of LLVM whose tools can read this compiler's counts.
llvm_wanted() { find_rust && rustc --version --verbose | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p'; }

# Whether the system has these tools, or rustup as llvm-tools.
has_llvm() {
    have "llvm-cov-$(llvm_wanted)" ||
        ls "$(rustc --print sysroot)"/lib/rustlib/*/bin/llvm-cov >/dev/null 2>&1
}

# Emacs 28.1 or later that can load modules; the program is $1.
emacs_is_usable() {
    have "$1" && "$1" -Q --batch --eval \
        '(kill-emacs (if (and module-file-suffix (version<= "28.1" emacs-version)) 0 1))' >/dev/null 2>&1
}

node_is_recent() {
    have node && have npm && at_least 20 "$(node --version | tr -d v)"
}

# python_tool FOLDER PROGRAM ARGUMENT...: print the name of PROGRAM in .cache/FOLDER; if it is not there,
# install it with pip and the ARGUMENTs.
python_tool() {
    tool_home=$PWD/.cache/$1 tool=$PWD/.cache/$1/bin/$2
    shift 2
    if [ ! -x "$tool" ]; then
        rm -rf "$tool_home"
        python3 -m venv "$tool_home" >&2 &&
            "$tool_home/bin/pip" install --quiet --disable-pip-version-check "$@" >&2 || return
    fi
    echo "$tool"
}

# cargo_tool NAME VERSION: print the name of the program for Cargo's subcommand NAME, installing it if
# need be; from a Python package, because Cargo would compile for minutes.
cargo_tool() {
    python_tool "cargo-$1-$2" "cargo-$1" --no-deps --only-binary :all: \
        "astral-dev-toolchain-cargo-$1==$2"
}

# Print the name of cargo-zigbuild; each set of versions has its own folder.
zigbuild_program() {
    python_tool "zigbuild-$(sha256 <scripts/zigbuild.txt | cut -c 1-8)" cargo-zigbuild \
        --requirement scripts/zigbuild.txt ||
        { loud "cargo-zigbuild could not be installed; it needs Python with venv, python3-venv."; return 3; }
}

# os_release VARIABLE: print VARIABLE of the file that describes the distribution and release.
os_release() {
    # shellcheck disable=SC1091 # is not ours
    ( . /etc/os-release 2>/dev/null && eval "printf %s \"\${$1:-}\"" )
}

is_debian_like() {
    case " $(os_release ID) $(os_release ID_LIKE) " in
        *" debian "* | *" ubuntu "*) have apt-get ;;
        *) false ;;
    esac
}

# cross_cargo SYSTEM COMMAND ARGUMENT...: run Cargo's COMMAND for a target of another SYSTEM, with Debian's
# Rust, which has the sources of the library that is needed there.  It builds in target/cross.
cross_cargo() {
    system=$1 command=$2
    shift 2
    PATH=/usr/bin:$PATH RUSTC_BOOTSTRAP=1 cargo "$command" --locked -Zbuild-std=std,panic_unwind,test \
        --target "$system" --target-dir target/cross "$@"
}

# Published modules: their version, their platforms, and the names of their files.

module_version() { sed -n 's/^version *= *"\(.*\)"/\1/p' Cargo.toml; }

platforms='x86_64-linux-gnu aarch64-linux-gnu x86_64-macos aarch64-macos x86_64-windows'

module_suffix() {
    case " $platforms " in
        *" $1 "*) ;;
        *) loud "$1 is not one of $platforms"; return 1 ;;
    esac
    case $1 in
        *-linux-gnu) echo so ;;
        *-macos) echo dylib ;;
        *-windows) echo dll ;;
    esac
}

asset_name() {
    suffix=$(module_suffix "$1") || return
    echo "gemini-companion-module-$(module_version)-$1.$suffix"
}

sha256() { if have sha256sum; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }

# make_autoloads FOLDER: write the file of autoloads of the Lisp files in FOLDER.
make_autoloads() {
    "$EMACS" -Q --batch -l package \
        --eval "(package-generate-autoloads \"gemini-companion\" (expand-file-name \"$1\"))" >/dev/null 2>&1
}
