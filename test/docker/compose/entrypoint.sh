#!/bin/sh
# Starts the program that the environment or the command names, as its own user, like the published images do.
set -eu
as() {
  user=$1
  shift
  exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
}
if [ -n "${POSTGRES_USER:-}" ]; then
  data=/var/lib/postgresql/data
  install -d -o postgres -g postgres /var/run/postgresql
  if [ ! -f "$data/PG_VERSION" ]; then
    printf '%s\n' "$POSTGRES_PASSWORD" >/tmp/password
    chown postgres "$data" /tmp/password
    setpriv --reuid postgres --regid postgres --clear-groups initdb --pgdata "$data" --username "$POSTGRES_USER" \
      --pwfile /tmp/password --auth scram-sha-256 --encoding UTF8 --locale C.UTF-8
    rm /tmp/password
    printf 'create database "%s";\n' "$POSTGRES_DB" | setpriv --reuid postgres --regid postgres --clear-groups \
      postgres --single -D "$data" postgres
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
  fi
  as postgres postgres -D "$data" -c listen_addresses='*'
fi
case $1 in
redis-server) as redis "$@" --bind 0.0.0.0 --protected-mode no --dir /data ;;
haproxy) as haproxy "$@" ;;
--config.file=*) as prometheus prometheus "$@" ;;
*) exec "$@" ;;
esac
