#!/usr/bin/env bash
# Builds the images that AutoPatch needs and names them on standard output, one a line; quick when nothing changed.
#   autopatch-sandbox:SUITE      Python, pytest and the libraries of the demo service; also tagged :latest
#   autopatch-sandbox-node:SUITE         Node with its test runner, npm, and a Python for the driver of the tests; also tagged :latest
#   autopatch-demo-payments:1    the demo service, good release
#   autopatch-demo-payments:2    the same with the bad release
#   autopatch-demo-payments:3    the same with the release that raises on some refunds
# `build.sh --from FOLDER TAG` builds autopatch-demo-payments:TAG, and only that, of a repository that ../demo/repository.py laid out.
# The bases are AUTOPATCH_BASE_IMAGE (such as python:3.11-slim) when that is set and can be pulled, else they are made of
# Debian packages with mmdebstrap, which needs root but no image registry. AUTOPATCH_SUITE: default, this machine's release.
# The engine is the one that DOCKER_HOST names, else the default one; `engine.sh start DIR` gets one.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
demo=$here/../demo
say() { echo "images: [$SECONDS s] $*" >&2; }
die() { say "$*"; exit 1; }

suite=${AUTOPATCH_SUITE:-$(. /etc/os-release && echo "${VERSION_CODENAME:-}")}
suite=${suite:-bookworm}
base=autopatch-sandbox:$suite
node=autopatch-sandbox-node:$suite
payments=autopatch-demo-payments
label=org.autopatch.inputs
work=$(mktemp -d "${TMPDIR:-/tmp}/autopatch-images.XXXXXX")
made=()
beside=
cleanup() {
  [ -z "$beside" ] || kill "$beside" 2>/dev/null && wait "$beside" 2>/dev/null || true
  for container in "${made[@]}"; do docker rm -f "$container" >/dev/null 2>&1 || true; done
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# A container that only lends its file system. The caller notes its id in `made`.
lend() { docker create --network none "$@"; }
has() { [ "$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$1" 2>/dev/null)" = "$2" ]; }
digest() { sha256sum | cut -c1-16; }

need_engine() {
  command -v docker >/dev/null || die "no docker command here. Run engine.sh start DIR, or install Docker"
  docker version >/dev/null 2>&1 || die "no Docker engine answers at ${DOCKER_HOST:-unix:///var/run/docker.sock}. Run engine.sh start DIR and set DOCKER_HOST to what it prints"
}

# --- the base -------------------------------------------------------------------------------------------------------

# The sources and download settings of this machine's apt, as far as they concern the suite.
apt_sources() {
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/{debian,ubuntu}.sources; do
    if [ -s "$file" ] && grep -Eq "^[^#]*\b$suite\b" "$file"; then echo "$file"; fi
  done
}
apt_options() { apt-config dump | grep -E '^Acquire::(Check-|https?::|.*[Pp]roxy)' | sed 's/;$//' || true; }

need_mmdebstrap() {
  command -v mmdebstrap >/dev/null && return
  [ "$(id -u)" = 0 ] && [ "${AUTOPATCH_INSTALL:-yes}" = yes ] && command -v apt-get >/dev/null ||
    die "mmdebstrap is missing: apt-get install mmdebstrap as root, or set AUTOPATCH_BASE_IMAGE=python:3.11-slim"
  say "installing mmdebstrap (once)"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap; } >"$work/install.log" 2>&1 ||
    die "could not install mmdebstrap: $(tail -n 3 "$work/install.log")"
}

from_packages() { # image packages-file inputs
  local packages options=() sources=() line
  [ "$(id -u)" = 0 ] || die "building from Debian packages needs root. Run as root, or set AUTOPATCH_BASE_IMAGE=python:3.11-slim"
  need_mmdebstrap
  packages=$(grep -v '^#' "$here/$2" | paste -sd,)
  while read -r line; do [ -z "$line" ] || options+=(--aptopt="$line"); done < <(apt_options)
  mapfile -t sources < <(apt_sources)
  say "$1: installing $packages into a minimal $suite (about half a minute)"
  mmdebstrap --quiet --variant=essential --include="$packages" "${options[@]}" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --customize-hook='rm -rf "$1"/var/cache/* "$1"/var/lib/apt/lists/* "$1"/var/log/*' \
    --customize-hook='ln -sf python3 "$1"/usr/bin/python' \
    "$suite" "$work/base.tar" "${sources[@]}" 2>"$work/mmdebstrap.log" ||
    die "mmdebstrap failed: $(tail -n 5 "$work/mmdebstrap.log")"
  say "$1: importing $(du -h "$work/base.tar" | cut -f1)"
  docker import --change "LABEL $label=$3" --change 'CMD ["python3"]' --change 'ENV PYTHONUNBUFFERED=1' "$work/base.tar" "$1" >/dev/null
  rm "$work/base.tar"
}

from_registry() { # image inputs install-command...
  local container image=$1 inputs=$2
  shift 2
  if ! docker image inspect "$AUTOPATCH_BASE_IMAGE" >/dev/null 2>&1; then
    say "$image: pulling $AUTOPATCH_BASE_IMAGE"
    docker pull --quiet "$AUTOPATCH_BASE_IMAGE" >"$work/pull.log" 2>&1 || {
      say "cannot pull it ($(tail -n 1 "$work/pull.log")): falling back to Debian packages"
      return 1
    }
  fi
  say "$image: installing into it"
  container=$(docker create --network host --env PIP_BREAK_SYSTEM_PACKAGES=1 --env PIP_ROOT_USER_ACTION=ignore "$AUTOPATCH_BASE_IMAGE" "$@")
  made+=("$container")
  tar -C "$here" -cf - requirements.txt | docker cp - "$container:/"
  docker start --attach "$container" >"$work/install.log" 2>&1 || die "installing failed in $AUTOPATCH_BASE_IMAGE: $(tail -n 3 "$work/install.log")"
  docker commit --change "LABEL $label=$inputs" --change 'CMD ["python3"]' --change 'ENV PYTHONUNBUFFERED=1' "$container" "$image" >/dev/null
}

build_base() {
  local inputs
  inputs=$( { cat "$here/packages.txt" "$here/requirements.txt"; echo "$suite ${AUTOPATCH_BASE_IMAGE:-} 2"; } | digest)
  if has "$base" "$inputs"; then say "$base is up to date"; return; fi
  if [ -n "${AUTOPATCH_BASE_IMAGE:-}" ] && from_registry "$base" "$inputs" python3 -m pip install --no-cache-dir --quiet -r /requirements.txt; then
    return
  fi
  from_packages "$base" packages.txt "$inputs"
}

# npm as its registry packs it, where this machine has an npm to ask; it is only needed for repositories with dependencies.
npm_into() { # container
  if ! (cd "$work" && npm pack --silent npm@10 >npm.name 2>npm.log); then
    say "$node: without npm ($(tail -n 1 "$work/npm.log" 2>/dev/null)), so dependencies of Node repositories cannot be installed"
    return 0
  fi
  local home=usr/local/lib/node_modules/npm
  mkdir -p "$work/npm/$home" "$work/npm/usr/local/bin"
  tar -C "$work/npm/$home" --strip-components 1 -xzf "$work/$(cat "$work/npm.name")"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$work/npm/usr/local/bin/npm"
  chmod -R u=rwX,go=rX "$work/npm" && chmod 755 "$work/npm/$home/bin/npm-cli.js"
  tar -C "$work/npm" --owner 0 --group 0 -cf - usr | docker cp - "$1:/"
}

build_node() {
  local inputs container
  inputs=$( { cat "$here/packages-node.txt"; echo "$suite ${AUTOPATCH_BASE_IMAGE:-} $(command -v npm) 1"; } | digest)
  if has "$node" "$inputs"; then say "$node is up to date"; return; fi
  if [ -n "${AUTOPATCH_BASE_IMAGE:-}" ] &&
    from_registry "$node" "" sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends nodejs'; then :; else
    from_packages "$node" packages-node.txt ""
  fi
  container=$(lend "$node")
  made+=("$container")
  npm_into "$container"
  docker commit --change "LABEL $label=$inputs" "$container" "$node" >/dev/null
}

# --- the demo service -----------------------------------------------------------------------------------------------

# /app holds the service, its load and its rehearsal; of the releases only the one that this image is.
lay_out() { # release-or-tag folder [repository]
  mkdir -p "$2/app/payments/releases" "$2/etc/payments"
  local source=${3:-$demo} release=$1
  if [ -f "$source/payments/RELEASE" ]; then release=$(cat "$source/payments/RELEASE"); fi
  cp -P "$source/load.py" "$source/rehearse.py" "$2/app/"
  cp -P "$source"/payments/*.py "$2/app/payments/"
  cp -RP "$source/payments/releases/__init__.py" "$source/payments/releases/r$release"* "$2/app/payments/releases/"
  find "$2/app" -name __pycache__ -prune -exec rm -rf {} +
  echo "$release" >"$2/app/payments/RELEASE"
  chmod -R u=rwX,go=rX "$2"
}

build_payments() { # release-or-tag [repository]
  local image=$payments:$1 folder=$work/$1 inputs container
  lay_out "$1" "$folder" "${2:-}"
  inputs=$( { docker image inspect --format '{{.Id}}' "$base"; cd "$folder" && find . -type f | sort | xargs sha256sum; } | digest)
  if has "$image" "$inputs"; then say "$image is up to date"; return; fi
  say "$image: copying the service onto $base"
  # compiled once, here: the image is read-only when it runs
  container=$(lend "$base" python3 -m compileall -q --invalidation-mode unchecked-hash /app)
  made+=("$container")
  tar -C "$folder" --owner 0 --group 0 -cf - app etc | docker cp - "$container:/"
  docker start --attach "$container" >"$work/compile.log" 2>&1 || die "$image does not compile: $(tail -n 5 "$work/compile.log")"
  docker commit --change "LABEL $label=$inputs" --change 'WORKDIR /app' --change 'USER 65534:65534' \
    --change 'CMD ["python3", "-m", "payments", "--with-database"]' "$container" "$image" >/dev/null
}

need_engine
if [ "${1:-}" != --from ]; then
  [ -n "${AUTOPATCH_BASE_IMAGE:-}" ] || need_mmdebstrap
  (
    work=$work/node made=() beside=
    trap cleanup EXIT
    mkdir "$work" && build_node
  ) &
  beside=$!
fi
build_base
if [ "${1:-}" = --from ]; then
  [ $# = 3 ] && [ -f "$2/payments/RELEASE" ] || die "build.sh --from FOLDER TAG: FOLDER is a repository that ../demo/repository.py laid out"
  build_payments "$3" "$2"
  echo "$payments:$3"
  exit 0
fi
docker tag "$base" autopatch-sandbox:latest
for release in 1 2 3; do build_payments "$release"; done
wait "$beside" || die "$node could not be built"
beside=
docker tag "$node" autopatch-sandbox-node:latest
say "done"
printf '%s\n' "$base" "$payments:1" "$payments:2" "$payments:3" "$node"
