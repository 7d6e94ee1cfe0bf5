#!/usr/bin/env bash
# A Docker engine for AutoPatch: the one that answers already, else a private one whose files are all under DIR.
#   engine.sh start DIR    prints the DOCKER_HOST to use (nothing else on standard output); safe to repeat
#   engine.sh stop DIR     stops the private engine of DIR, if there is one; images stay in DIR for the next time
#   engine.sh status [DIR] says which engine answers; exit code 1 when none does
# The private engine has neither bridge nor packet filter rules: containers get `--network none` or `--network host`.
set -euo pipefail

say() { echo "engine: $*" >&2; }
die() { say "$*"; exit 1; }
answers() { # DOCKER_HOST
  local socket=${1#unix://}
  if [ "$socket" != "$1" ]; then [ -S "$socket" ] || return 1; fi
  DOCKER_HOST=$1 timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
}

# The engine that is there without us, if any.
present() {
  command -v docker >/dev/null || return 1
  local host=${DOCKER_HOST:-}
  [ -n "$host" ] || host=$(docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null) || host=
  host=${host:-unix:///var/run/docker.sock}
  answers "$host" && echo "$host"
}

# Sockets need short paths: a long DIR gets its run-time files in a short folder that DIR names.
run_folder() { # DIR
  if [ ${#1} -le 50 ]; then echo "$1/run"; else echo "/tmp/autopatch-engine-$(printf %s "$1" | cksum | cut -d' ' -f1)"; fi
}

# The process id of our engine in DIR; fails when it does not run. A recycled process id is not taken for it.
ours() { # DIR
  local pid
  pid=$(cat "$(run_folder "$1")/dockerd.pid" 2>/dev/null) || return 1
  { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -qF -- "--data-root $1/data " && echo "$pid"
}

install_engine() {
  [ "${AUTOPATCH_INSTALL:-yes}" = yes ] && command -v apt-get >/dev/null ||
    die "no Docker engine here. Install one (Debian: apt-get install docker.io), or set DOCKER_HOST to one that runs"
  say "installing docker.io (once)"
  export DEBIAN_FRONTEND=noninteractive
  # the package would start an engine of its own: not on our account
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy
    trap "rm -f $policy" EXIT
  fi
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends docker.io; } >"$1" 2>&1 ||
    die "could not install docker.io; the last lines of $1: $(tail -n 3 "$1")"
}

start() { # DIR
  local host run pid log=$1/dockerd.log flags=()
  if host=$(present); then
    say "using the engine at $host"
    echo "$host"
    return
  fi
  [ -z "${DOCKER_HOST:-}" ] || die "DOCKER_HOST is $DOCKER_HOST, where no engine answers. Start that engine, or unset DOCKER_HOST"
  run=$(run_folder "$1")
  host=unix://$run/docker.sock
  if pid=$(ours "$1") && answers "$host"; then
    say "the private engine runs already (process $pid)"
    echo "$host"
    return
  fi
  [ "$(id -u)" = 0 ] || die "no Docker engine answers, and a private one can only be started by root. Start Docker, or run this as root"
  mkdir -p "$1" "$run"
  exec 9>"$1/lock" && flock 9 # two starts at once: the second one finds the engine of the first
  if answers "$host"; then
    echo "$host"
    return
  fi
  command -v dockerd >/dev/null && command -v docker >/dev/null || install_engine "$1/install.log"
  flags=(--host "$host" --data-root "$1/data" --exec-root "$run/exec" --pidfile "$run/dockerd.pid"
    --bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false
    --log-driver json-file --log-opt max-size=10m --log-opt max-file=1)
  local runsc=${AUTOPATCH_RUNSC:-$(command -v runsc || true)} fetched
  fetched=$(cd "$(dirname "$0")/../.." && pwd)/.cache/bin/runsc
  [ -n "$runsc" ] || [ ! -x "$fetched" ] || runsc=$fetched
  [ -z "$runsc" ] || flags+=(--add-runtime "runsc=$runsc")
  setsid nohup dockerd "${flags[@]}" </dev/null >"$log" 2>&1 9>&- &
  pid=$!
  for _ in $(seq 120); do
    if answers "$host"; then
      say "started a private engine under $1 (process $(ours "$1"))"
      echo "$host"
      return
    fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.25
  done
  kill "$pid" 2>/dev/null || true
  die "the private engine did not start; the last lines of $log: $(grep -E 'level=(error|fatal)|failed' "$log" | tail -n 3)"
}

stop() { # DIR
  local pid run
  pid=$(ours "$1") || {
    say "no private engine runs under $1"
    return 0
  }
  run=$(run_folder "$1")
  kill "$pid"
  for _ in $(seq 80); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.25
  done
  if kill -0 "$pid" 2>/dev/null; then die "process $pid does not stop; see $1/dockerd.log"; fi
  { grep -F -e " $1/data/" -e " $1/data " -e " $run/" /proc/self/mounts || true; } | cut -d' ' -f2 | sort -r | while read -r mount; do umount -l "$mount" || true; done
  rm -rf --one-file-system "$run"
  say "stopped the private engine of $1"
}

status() { # [DIR]
  local host pid
  if host=$(present); then
    echo "running: $host"
  elif [ -n "${1:-}" ] && pid=$(ours "$1") && answers "unix://$(run_folder "$1")/docker.sock"; then
    echo "running: unix://$(run_folder "$1")/docker.sock (private, process $pid)"
  else
    echo "no engine answers"
    return 1
  fi
}

usage() { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 1 ] || usage
directory() { [ -n "${1:-}" ] || usage; realpath -m "$1"; }
case $1 in
  start) start "$(directory "${2:-}")" ;;
  stop) stop "$(directory "${2:-}")" ;;
  status) status "${2:+$(realpath -m "$2")}" ;;
  *) usage ;;
esac
