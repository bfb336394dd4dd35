// SSH public keys for a customer's containers.
import { createHash } from "node:crypto";
import type { AccountId, MemberId } from "../../proto/ids.ts";
import { randomId } from "../../proto/ids.ts";
import { badSshKey, sshKeyNameTaken, sshKeyNotFound } from "./errors.ts";
import type { ProfileStore, SshKey } from "./store.ts";

type Store = Pick<ProfileStore, "sshKeys" | "addSshKey" | "removeSshKey">;

export function createSshKeys(store: Store, unixMs: () => number) {
  return {
    list: store.sshKeys,
    /** Throws badSshKey, sshKeyNameTaken. */
    async add(account: AccountId, name: string, key: string, member: MemberId | null = null): Promise<SshKey> {
      const fingerprint = fingerprintOf(key);
      const made: SshKey = { id: randomId(16), name, key: key.trim(), fingerprint, createdAtMs: unixMs() };
      if (await store.addSshKey(account, made, member)) return made;
      throw sshKeyNameTaken();
    },
    /** Throws sshKeyNotFound. */
    async remove(account: AccountId, id: string): Promise<void> {
      if (!(await store.removeSshKey(account, id))) throw sshKeyNotFound();
    },
  };
}

export type SshKeys = ReturnType<typeof createSshKeys>;

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
 * Returns the fingerprint that `ssh-keygen -l` prints. Throws badSshKey: the key is written to an authorized_keys file, so
 * it must be one line of a known type, whose blob names that type too, without options.
 */
export function fingerprintOf(key: string): string {
  const line = key.trim();
  if (/-----BEGIN [A-Z ]*PRIVATE KEY/.test(line))
    throw badSshKey("This is a private key. Send the public key from the .pub file instead.");
  if (/[\r\n\0]/.test(line)) throw badSshKey("An SSH public key must be a single line. Send one key at a time.");
  const [type = "", body = ""] = line.split(/[ \t]+/);
  if (!types.has(type))
    throw badSshKey(
      `The key must begin with its type (${[...types].slice(0, 3).join(", ")}, ...), as in the .pub file that ` +
        "ssh-keygen writes.",
    );
  const blob = Buffer.from(body, "base64");
  const isWhole = /^[A-Za-z0-9+/]+={0,2}$/.test(body) && blob.toString("base64") === body;
  if (!isWhole || !hasParts(blob, type))
    throw badSshKey("The key is incomplete or damaged. Copy the whole line of the .pub file.");
  return `SHA256:${createHash("sha256").update(blob).digest("base64").replace(/=+$/, "")}`;
}

/** Length-prefixed strings up to the last byte, at least two, the first of them the type. */
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
