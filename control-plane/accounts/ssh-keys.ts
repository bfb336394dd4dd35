// Public keys that a customer's containers are opened with.
import { createHash } from "node:crypto";
import type { AccountId } from "../../proto/ids.ts";
import { randomId } from "../../proto/ids.ts";
import { BadSshKey, SshKeyNameTaken, SshKeyNotFound } from "./errors.ts";
import type { PeopleStore, SshKey } from "./store.ts";

export interface SshKeys {
  list(account: AccountId): Promise<readonly SshKey[]>;
  /** Throws BadSshKey, SshKeyNameTaken. */
  add(account: AccountId, name: string, key: string): Promise<SshKey>;
  /** Throws SshKeyNotFound. */
  remove(account: AccountId, id: string): Promise<void>;
}

type Store = Pick<PeopleStore, "sshKeys" | "addSshKey" | "removeSshKey">;

export function createSshKeys(store: Store, unixMs: () => number): SshKeys {
  return {
    list: store.sshKeys,
    async add(account, name, key) {
      const fingerprint = fingerprintOf(key);
      const made: SshKey = { id: randomId(16), name, key: key.trim(), fingerprint, createdAtMs: unixMs() };
      if (await store.addSshKey(account, made)) return made;
      throw new SshKeyNameTaken();
    },
    async remove(account, id) {
      if (!(await store.removeSshKey(account, id))) throw new SshKeyNotFound();
    },
  };
}

const types = new Set([
  "ssh-ed25519",
  "ssh-rsa",
  "ecdsa-sha2-nistp256",
  "ecdsa-sha2-nistp384",
  "ecdsa-sha2-nistp521",
  "sk-ssh-ed25519@openssh.com",
  "sk-ecdsa-sha2-nistp256@openssh.com",
]);

/**
 * As `ssh-keygen -l` prints it. Throws BadSshKey: the key ends in an authorized_keys file, so one line of a known type, whose
 * blob names that type too, without options before it.
 */
export function fingerprintOf(key: string): string {
  const line = key.trim();
  if (/-----BEGIN [A-Z ]*PRIVATE KEY/.test(line))
    throw new BadSshKey("This is a private key. Keep it to yourself, and give the .pub file beside it.");
  if (/[\r\n\0]/.test(line)) throw new BadSshKey("An SSH public key is one line. Give one key at a time.");
  const [type = "", body = ""] = line.split(/[ \t]+/);
  if (!types.has(type))
    throw new BadSshKey(
      `The key must begin with its type (${[...types].slice(0, 3).join(", ")}, ...), as in the .pub file that ` +
        "ssh-keygen writes.",
    );
  const blob = Buffer.from(body, "base64");
  const isWhole = /^[A-Za-z0-9+/]+={0,2}$/.test(body) && blob.toString("base64") === body;
  if (!isWhole || !hasParts(blob, type))
    throw new BadSshKey("The key was cut or changed: its second word is not the key of its type. Copy the whole line.");
  return `SHA256:${createHash("sha256").update(blob).digest("base64").replace(/=+$/, "")}`;
}

/** Length-prefixed strings to the last byte, at least two, the first of them the type. */
function hasParts(blob: Buffer, type: string): boolean {
  let at = 0;
  let parts = 0;
  while (at + 4 <= blob.length) {
    const end = at + 4 + blob.readUInt32BE(at);
    if (end > blob.length) return false;
    if (parts === 0 && blob.toString("latin1", at + 4, end) !== type) return false;
    parts += 1;
    at = end;
  }
  return parts >= 2 && at === blob.length;
}
