#!/usr/bin/env bash
# Installs Debian packages, as root or with sudo: debian-packages.sh NAME...; without a name only the
# lists of packages are read anew.
# CI and scripts/test-real.sh call it with what they miss.
set -euo pipefail

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

echo "== installing $*"
as_root apt-get update -qq
[ "$#" = 0 ] && exit
if [[ " $* " == *" postgresql "* ]]; then
  # Debian's package would start a server of its own on install; the tests start private ones.
  as_root mkdir -p /etc/postgresql-common/createcluster.d
  echo 'create_main_cluster = false' |
    as_root tee /etc/postgresql-common/createcluster.d/labfleet.conf >/dev/null
fi
as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
