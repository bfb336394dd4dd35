#!/bin/sh
# Inside the image build: the locked packages again, with those that build console and documentation.
set -eu
. scripts/image/trust-extra-ca.sh
node /opt/npm/bin/npm-cli.js --registry "${NPM_REGISTRY%/}" --no-audit --no-fund --no-progress ci --ignore-scripts --include=dev
rm -rf /root/.npm
