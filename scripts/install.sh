# Sourced by scripts/up, scripts/test and cli/stoker with $root set: installs the packages when they are missing or
# older than package-lock.json, and finds Node 24. Needs a POSIX shell, npm and any Node from 18 on.
# shellcheck shell=sh

fail() {
  printf '%s: %s\n' "${program:-stoker}" "$*" >&2
  exit 1
}

lock_sum() {
  cksum <"$root/package-lock.json" | tr -d '\n'
  uname -sm | tr ' ' '-'
}

# True when node_modules was installed from the present package-lock.json on this kind of machine.
is_installed() {
  [ -x "$root/node_modules/.bin/tsc" ] || return 1
  if [ -f "$root/node_modules/.stoker-installed" ]; then
    [ "$(cat "$root/node_modules/.stoker-installed")" = "$(lock_sum)" ]
    return
  fi
  # Installed by hand with npm: its own record is newer than the lock file.
  [ -n "$(find "$root/node_modules/.package-lock.json" -newer "$root/package-lock.json" 2>/dev/null)" ]
}

# Sets $node24: from the package `node`, or an installed Node 24 or newer.
find_node() {
  node24="$root/node_modules/node/bin/node"
  if "$node24" --version >/dev/null 2>&1; then return 0; fi
  if command -v node >/dev/null 2>&1; then
    node24=$(command -v node)
    if "$node24" -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 24 ? 0 : 1)' 2>/dev/null; then return 0; fi
  fi
  node24=
  return 1
}

explain_install_failure() {
  log=$1
  tail -n 15 "$log" >&2
  if grep -Eq 'ENOSPC|no space left' "$log"; then
    fail "no disk space: installing needs about 1.5 GB in $root and in npm's cache; free some and run it again."
  elif grep -Eq 'ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|network|socket hang up' "$log"; then
    fail "no network: npm could not reach its package registry (its last lines are above); check the connection or npm's proxy settings and run it again."
  elif grep -Eq 'EACCES|EPERM|EROFS' "$log"; then
    fail "npm may not write here (its last lines are above): give your user the folder $root and npm's cache, then run it again."
  fi
  fail "npm ci failed (its last lines are above); correct what they name and run it again."
}

# A dot every few seconds, so that a long download does not look like a hang. Ends with the shell that started it.
tick() {
  [ -t 1 ] || return 0
  while sleep 3 && kill -0 $$ 2>/dev/null; do printf .; done
}

# onnxruntime-node's own script would fetch CUDA's files from another host; images for GPUs fetch them by themselves.
run_npm() {
  (cd "$root" && ONNXRUNTIME_NODE_INSTALL=${ONNXRUNTIME_NODE_INSTALL:-skip} npm "$@" --include=dev --include=optional --no-audit --no-fund --no-progress)
}

install_packages() {
  if is_installed; then
    find_node && return 0
  fi
  # npm empties the folder before installing, also through a link.
  [ ! -L "$root/node_modules" ] ||
    fail "$root/node_modules is a link to $(readlink "$root/node_modules"), whose packages are not those of this package-lock.json, and installing would empty that folder. Remove the link (rm '$root/node_modules') and run it again, or install there."
  command -v npm >/dev/null 2>&1 ||
    fail "npm is not installed: install Node.js 18 or newer, which brings it, then run it again."
  free_kb=$(df -Pk "$root" | awk 'NR == 2 { print $4 }')
  [ "${free_kb:-9999999}" -ge 1500000 ] ||
    fail "no disk space: installing needs about 1.5 GB in $root, and $((free_kb / 1024)) MB are free."

  printf 'Installing packages (about 700 MB, once) ...'
  started=$(date +%s)
  log=$(mktemp "${TMPDIR:-/tmp}/stoker-install.XXXXXX") || fail "the temporary folder ${TMPDIR:-/tmp} is not writable."
  tick &
  ticker=$!
  trap 'kill "$ticker" 2>/dev/null; rm -f "$log"; printf "\n"; exit 130' INT TERM
  installed=yes
  run_npm ci >"$log" 2>&1 || installed=no
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  trap - INT TERM
  if [ "$installed" = no ]; then
    printf '\n'
    explain_install_failure "$log"
  fi
  rm -f "$log"
  find_node || {
    printf '\n'
    fail "npm did not run the install scripts that bring Node 24 (ignore-scripts is set?); run 'npm ci --ignore-scripts=false' in $root, or install Node.js 24, and run it again."
  }
  lock_sum >"$root/node_modules/.stoker-installed"
  printf ' done (%s s)\n' "$(($(date +%s) - started))"
}

# Installs the CUDA build of llama.cpp if an NVIDIA driver is present. Failure is only a warning: models then run on the CPU.
install_cuda() {
  [ "$(uname -sm)" = "Linux x86_64" ] || return 0
  command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1 || return 0
  engine="$root/node_modules/node-llama-cpp/package.json"
  [ -f "$engine" ] || return 0
  version=$("$node24" -p 'JSON.parse(require("fs").readFileSync(process.argv[1], "utf8")).version' "$engine")
  for build in linux-x64-cuda linux-x64-cuda-ext; do
    target="$root/node_modules/@node-llama-cpp/$build"
    if [ ! -L "$target" ] && grep -q "\"version\": \"$version\"" "$target/package.json" 2>/dev/null; then continue; fi
    printf 'Fetching llama.cpp for NVIDIA GPUs (%s %s) ...' "$build" "$version"
    scratch=$(mktemp -d "$root/node_modules/.cuda.XXXXXX")
    if (cd "$scratch" && npm pack --silent "@node-llama-cpp/$build@$version" >/dev/null 2>&1 && tar -xzf ./*.tgz); then
      rm -rf "$target"
      mv "$scratch/package" "$target"
      printf ' done\n'
    else
      printf '\n%s: warning: the CUDA build could not be fetched; models run on the CPU until the next start.\n' "$program" >&2
    fi
    rm -rf "$scratch"
  done
}
