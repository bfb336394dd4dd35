#!/bin/sh
# Inside the image build: installs Debian packages without what differs at each installation. Usage: install-debian PACKAGE ...
set -eu
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/ldconfig/aux-cache /var/log/apt /var/log/*.log
