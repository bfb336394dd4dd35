#!/bin/sh
# Inside the image build: installs Debian packages without what differs at each installation. Usage: install-debian PACKAGE ...
# Logs and caches of the base keep their content: the engine marks deleted files of a base with the time of the build.
set -eu
# What programs rewrite in their own way each time.
changing="/var/log /var/cache/fontconfig /var/cache/ldconfig"
own=$(mktemp -d)
chmod 755 "$own"
mkdir -p "$own/base" "$own/log" "$own/lists/partial" "$own/cache/archives/partial"
for folder in $changing; do
  [ ! -d "$folder" ] || cp -a --parents "$folder" "$own/base"
done

apt() { apt-get -o Dir::State::lists="$own/lists" -o Dir::Cache="$own/cache" -o Dir::Log="$own/log" "$@"; }
apt update
DEBIAN_FRONTEND=noninteractive apt install -y --no-install-recommends "$@"

find $changing -type f 2>/dev/null | while read -r file; do
  [ -f "$own/base$file" ] || rm "$file"
done
(cd "$own/base" && find var -type f) | while read -r file; do
  cmp -s "$own/base/$file" "/$file" || cp -p "$own/base/$file" "/$file"
done
rm -rf "$own"
