#!/usr/bin/env bash
# Checks the packaging.
#
#     packaging/check.sh [PROGRAM]
#
# With a built PROGRAM: makes the release archive, the wheel and the npm packages, installs them in a temporary folder
# and runs the program from there. In both cases: tests of the scripts, and the linters for the systemd units, the
# Dockerfile, the workflows and the dependencies. A check whose tool is missing is skipped. Needs no network.
# Exits with 1 if a check fails, and with 2 if PROGRAM cannot be used.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
packaging=$root/packaging
failed=0

# No bytecode beside the sources, and no network.
export PYTHONDONTWRITEBYTECODE=1 PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONFIG_FILE=/dev/null
export UV_OFFLINE=1 CARGO_NET_OFFLINE=true
export npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export UV_CACHE_DIR=$folder/uv-cache npm_config_cache=$folder/npm-cache

# Runs a check in a subshell that ends at the first error; prints its output if it fails.
check() {
    local name=$1
    shift
    (set -e; "$@") > "$folder/output" 2>&1
    local status=$?
    if [ "$status" = 0 ]; then
        echo "ok: $name"
    else
        echo "failed: $name (exit status $status)"
        sed 's/^/    /' "$folder/output"
        failed=1
    fi
}

# Whether all of the tools exist; prints the first that does not.
have() {
    local tool
    for tool in "$@"; do
        if ! command -v "$tool" > /dev/null; then
            echo "skipped: $tool not found"
            return 1
        fi
    done
}

fail() {
    echo "$1" >&2
    return 1
}

# Runs a command and compares its exit status.
expect_status() {
    local expected=$1 status=0
    shift
    "$@" || status=$?
    [ "$status" = "$expected" ] || fail "exit status $status instead of $expected: $*"
}

# Runs a command that is an installed `pegboard`, with the arguments that every installation must pass through.
check_program() {
    local version
    version=$("$@" --version)
    [ "$version" = "pegboard $workspace_version" ] ||
        fail "the program says \`$version\`, the workspace has version $workspace_version"
    expect_status 1 "$@" status --url http://127.0.0.1:1
    expect_status 2 "$@" no-such-command
    # Input that arrives late must be read, too.
    local reply
    reply=$( (sleep 1; echo '{"jsonrpc":"2.0","id":7,"method":"ping"}') | "$@" serve --stdio --state none --log-level off)
    [[ $reply == *'"id":7,"result"'* ]] || fail "no answer on standard output: $reply"
}

check_same_bytes() {
    local name
    "$@" --out "$folder/again"
    for name in "$folder"/again/*; do
        cmp "$name" "$folder/dist/$(basename "$name")"
    done
    rm -r "$folder/again"
}

check_archive() {
    python3 "$packaging/archive.py" "$program" "$platform" --out "$folder/dist"
    check_same_bytes python3 "$packaging/archive.py" "$program" "$platform"
    tar -xzf "$folder/dist/pegboard-$workspace_version-$platform.tar.gz" -C "$folder"
    local contents=$folder/pegboard-$workspace_version-$platform name
    for name in completions/_pegboard completions/_pegboard.ps1 completions/pegboard.bash completions/pegboard.fish \
        man/pegboard.1 LICENSE-APACHE LICENSE-MIT; do
        [ -s "$contents/$name" ] || fail "the archive has no \`$name\`"
    done
    bash -n "$contents/completions/pegboard.bash"
    check_program "$contents/pegboard"
}

check_wheel() {
    python3 "$packaging/wheel.py" "$program" --out "$folder/dist"
    check_same_bytes python3 "$packaging/wheel.py" "$program"
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --no-index "$folder"/dist/*.whl
    check_program "$folder/venv/bin/pegboard"
    "$folder/venv/bin/pip" uninstall --quiet --yes pegboard
    [ ! -e "$folder/venv/bin/pegboard" ] || fail "the program is still there after uninstalling"
}

check_uvx() {
    check_program uvx --quiet --python "$(command -v python3)" --from "$(echo "$folder"/dist/*.whl)" pegboard
}

check_npm() {
    node "$packaging/npm/make.mjs" --out "$folder/dist" "$platform=$program"
    check_same_bytes node "$packaging/npm/make.mjs" "$platform=$program"
    mkdir "$folder/npm"
    cd "$folder/npm"
    npm install --silent --offline "$folder/dist/pegboard-$workspace_version.tgz" \
        "$folder/dist/pegboard-$platform-$workspace_version.tgz"
    check_program npx --no -- pegboard
    check_signals
    # Without the package of the platform, the launcher names it.
    rm -r node_modules/@pegboard
    local message
    message=$(expect_status 1 node node_modules/pegboard/bin/pegboard.js 2>&1)
    [[ $message == *"@pegboard/$platform"* ]] || fail "unexpected message: $message"
}

# SIGTERM to the launcher reaches the gateway, which stops with exit status 0.
check_signals() {
    node node_modules/pegboard/bin/pegboard.js serve --listen 127.0.0.1:0 --state none > started 2>&1 &
    local launcher=$! attempt
    for attempt in $(seq 600); do
        grep -q 'listening on' started && break
        if [ "$attempt" = 600 ]; then
            kill -TERM "$launcher"
            fail "the gateway did not start: $(cat started)"
        fi
        sleep 0.1
    done
    kill -TERM "$launcher"
    expect_status 0 wait "$launcher"
    grep -q 'stopping' started || fail "the gateway did not get the signal: $(cat started)"
}

check_units() {
    mkdir -p "$folder/units/user"
    local unit
    for unit in pegboard.service user/pegboard.service; do
        # The program is not installed where the unit expects it.
        sed "s|/usr/local/bin/pegboard|/bin/true|" "$packaging/systemd/$unit" > "$folder/units/$unit"
    done
    systemd-analyze verify --man=no "$folder/units/pegboard.service"
    XDG_RUNTIME_DIR=$folder systemd-analyze --user verify --man=no "$folder/units/user/pegboard.service"
    # 0 is the least exposure, 100 the most; a service without restrictions has 96.
    systemd-analyze security --no-pager --offline=true --threshold=20 "$folder/units/pegboard.service"
}

# The workspace has one version: in the internal dependencies and in both lock files.
check_versions() {
    local stale
    stale=$(
        grep -E '^pegboard-[a-z]+ = \{ version' "$root/Cargo.toml"
        awk -F'"' '/^name = / { name = $2 } /^version = / && name ~ /^pegboard/ && name != "pegboard-fuzz"' \
            "$root/Cargo.lock" "$root/fuzz/Cargo.lock"
    )
    [ -n "$stale" ] || fail "found no versions"
    stale=$(grep -vF "\"$workspace_version\"" <<< "$stale") || true
    [ -z "$stale" ] || fail "other versions than $workspace_version: $stale"
}

workspace_version=$(sed -n '/^\[workspace.package\]/,/^$/ s/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml")

check "one version" check_versions
if have python3; then check "tests of the wheel script" python3 "$packaging/test_wheel.py"; fi
if have shellcheck; then check "shellcheck" shellcheck --exclude=SC2329 "$packaging/check.sh"; fi
if have systemd-analyze; then check "systemd units" check_units; fi
if have hadolint; then check "Dockerfile" hadolint "$packaging/container/Dockerfile"; fi
if have actionlint; then check "workflows" actionlint "$root"/.github/workflows/*.yml; fi
if have cargo cargo-deny; then
    check "dependencies" cargo deny --offline --manifest-path "$root/Cargo.toml" check licenses bans sources
fi

if [ $# -gt 0 ]; then
    if [ ! -x "$1" ]; then
        echo "error: \`$1\` is not a program" >&2
        exit 2
    fi
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64) platform=linux-x64 ;;
        Linux-aarch64) platform=linux-arm64 ;;
        Darwin-x86_64) platform=darwin-x64 ;;
        Darwin-arm64) platform=darwin-arm64 ;;
        *)
            echo "error: no packages for $(uname -s) on $(uname -m)" >&2
            exit 2
            ;;
    esac
    program=$folder/pegboard
    cp "$1" "$program"
    # Debug information only makes the packages large and this script slow.
    if command -v strip > /dev/null; then strip "$program"; fi

    if have python3; then check "archive" check_archive; fi
    # Debian has the module that makes virtual environments in a package of its own.
    if ! python3 -c 'import ensurepip' 2> /dev/null; then
        echo "skipped: python3 with ensurepip not found"
    else
        check "wheel" check_wheel
        if have uvx; then check "uvx" check_uvx; fi
    fi
    if have node npm; then check "npm packages" check_npm; fi
fi

exit "$failed"
