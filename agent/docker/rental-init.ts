/**
 * First process of a rented container, for any image with a POSIX shell and an SSH server. Installs the account's SSH keys,
 * runs the customer's first-start script once, and keeps the SSH server running. It reads its input from the environment and
 * does not pass it on. Exit code 64: the image cannot be used.
 */
export const rentalInit = String.raw`set -u
umask 022
say() { printf 'stoker: %s\n' "$*"; }
fail() { printf 'stoker: error: %s\n' "$*" >&2; exit 64; }
keys=$STOKER_SSH_KEYS
first=$STOKER_FIRST_START
unset STOKER_SSH_KEYS STOKER_FIRST_START
state=/var/lib/stoker
mkdir -p "$state" /run/sshd
sshd=$(command -v sshd || echo /usr/sbin/sshd)
[ -x "$sshd" ] || fail "this image has no SSH server; its operator must install openssh-server in it"

if [ ! -e "$state/opened" ]; then
  shell=/bin/sh
  [ ! -x /bin/bash ] || shell=/bin/bash
  if ! id ubuntu >/dev/null 2>&1; then
    if command -v useradd >/dev/null; then useradd --create-home --shell "$shell" ubuntu
    elif command -v adduser >/dev/null; then adduser -D -s "$shell" ubuntu
    else fail "this image has neither useradd nor adduser; its operator must install one, or make the user ubuntu in it"; fi
    id ubuntu >/dev/null 2>&1 || fail "the user ubuntu could not be made in this image"
  fi
  # A locked password would keep keys out as well; this one matches no input.
  usermod -p '*' ubuntu 2>/dev/null || true
  home=$(sed -n 's/^ubuntu:[^:]*:[^:]*:[^:]*:[^:]*:\([^:]*\):.*/\1/p' /etc/passwd)
  mkdir -p "$home/.ssh"
  [ -z "$keys" ] || printf '%s\n' "$keys" >>"$home/.ssh/authorized_keys"
  touch "$home/.ssh/authorized_keys"
  chmod 700 "$home/.ssh"
  chmod 600 "$home/.ssh/authorized_keys"
  chown -R ubuntu "$home/.ssh"
  if [ -d /etc/sudoers.d ]; then
    printf 'ubuntu ALL=(ALL) NOPASSWD:ALL\n' >/etc/sudoers.d/90-stoker
    chmod 440 /etc/sudoers.d/90-stoker
  fi
  # Keys in the image are known to every owner of the image.
  rm -f /etc/ssh/ssh_host_*key*
  ssh-keygen -A >/dev/null || fail "the SSH server's keys could not be made"
  : >"$state/opened"
fi

# The mark comes first: what was cut off in the middle is not done a second time.
if [ -n "$first" ] && [ ! -e "$state/first-start" ]; then
  : >"$state/first-start"
  printf '%s' "$first" | base64 -d >"$state/first-start.script"
  chmod 700 "$state/first-start.script"
  (
    cd /root 2>/dev/null || cd /
    HOME=/root "$state/first-start.script"
    code=$?
    if [ "$code" = 0 ]; then say "cloud_init_user_data was carried out"
    else say "error: cloud_init_user_data ended with exit code $code"; fi
  ) </dev/null &
fi

trap 'kill -TERM -1 2>/dev/null; exit 0' TERM INT
while :; do
  "$sshd" -D -e -o UsePAM=no -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no \
    -o PermitEmptyPasswords=no -o PermitRootLogin=prohibit-password -o LogLevel=ERROR &
  wait $!
  say "the SSH server ended; it is started again"
  sleep 5 &
  wait $!
done
`;
