// Envelope encryption: a key-encryption key outside PostgreSQL wraps one data key per account, which seals that account's
// secrets. The additional data binds each ciphertext to its row, so one moved to another row does not open.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import type { AccountId, KeyId } from "../../proto/ids.ts";

const nonceBytes = 12;
const tagBytes = 16;

export interface Kek {
  /** 1 for the first; a rotation increments it. */
  readonly version: number;
  /** 32 bytes. */
  readonly bytes: Buffer;
}

export interface AccountSecrets {
  /** Newest first, never empty. A running control plane adds those it finds in its folder. */
  readonly keks: readonly Kek[];
  /** 32 bytes; the key of the lookup hash. */
  readonly pepper: Buffer;
  /** Reads newer key-encryption keys; returns true when there were any. */
  readonly reread?: () => boolean;
}

/** nonce, tag, ciphertext. */
function seal(key: Buffer, plain: Buffer, boundTo: string): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(boundTo));
  const body = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]);
}

/** Throws when the key, the bytes or the row differ from those it was sealed with. */
function open(key: Buffer, sealed: Buffer, boundTo: string): Buffer {
  const decipher = createDecipheriv("aes-256-gcm", key, sealed.subarray(0, nonceBytes), { authTagLength: tagBytes })
    .setAAD(Buffer.from(boundTo))
    .setAuthTag(sealed.subarray(nonceBytes, nonceBytes + tagBytes));
  return Buffer.concat([decipher.update(sealed.subarray(nonceBytes + tagBytes)), decipher.final()]);
}

const dekBinding = (account: AccountId, kekVersion: number) => `dek|${account}|${kekVersion}`;
const keyBinding = (account: AccountId, key: KeyId) => `api_token|${account}|${key}|v1`;

export const makeDek = (): Buffer => randomBytes(32);
export const wrapDek = (kek: Kek, dek: Buffer, account: AccountId): Buffer =>
  seal(kek.bytes, dek, dekBinding(account, kek.version));
export const unwrapDek = (secrets: AccountSecrets, wrapped: Buffer, account: AccountId): Buffer =>
  withAnyKek(secrets, (kek) => open(kek.bytes, wrapped, dekBinding(account, kek.version)));

export function newestKek(secrets: AccountSecrets): Kek {
  const [newest] = secrets.keks;
  if (!newest) throw new Error("no key-encryption key found");
  return newest;
}

/**
 * Returns the result of the newest key that `attempt` accepts. If none fits, also tries keys added by a rotation, which may
 * have re-wrapped a data key before this process read them. Throws the last attempt's error.
 */
export function withAnyKek<T>(secrets: AccountSecrets, attempt: (kek: Kek) => T): T {
  let failure: unknown;
  do {
    for (const kek of secrets.keks) {
      try {
        return attempt(kek);
      } catch (error) {
        failure = error;
      }
    }
  } while (secrets.reread?.());
  throw failure;
}

/** Distinguishes two keys of one version without revealing them. */
export const kekFingerprint = (kek: Kek): Buffer =>
  Buffer.from(hkdfSync("sha256", kek.bytes, "", "stoker kek fingerprint", 16));

export const sealApiKey = (dek: Buffer, apiKey: string, account: AccountId, key: KeyId): Buffer =>
  seal(dek, Buffer.from(apiKey), keyBinding(account, key));
export const openApiKey = (dek: Buffer, sealed: Buffer, account: AccountId, key: KeyId): string =>
  open(dek, sealed, keyBinding(account, key)).toString();

/** Seals any other secret of an account; `purpose` names table, column and row. */
export const sealSecret = (dek: Buffer, secret: string, account: AccountId, purpose: string): Buffer =>
  seal(dek, Buffer.from(secret), `${purpose}|${account}|v1`);
export const openSecret = (dek: Buffer, sealed: Buffer, account: AccountId, purpose: string): string =>
  open(dek, sealed, `${purpose}|${account}|v1`).toString();

/** The same for bytes. */
export const sealBytes = (dek: Buffer, plain: Buffer, account: AccountId, purpose: string): Buffer =>
  seal(dek, plain, `${purpose}|${account}|v1`);
export const openBytes = (dek: Buffer, sealed: Buffer, account: AccountId, purpose: string): Buffer =>
  open(dek, sealed, `${purpose}|${account}|v1`);

/** Lookup hash of a key: without the pepper, a guessed key cannot be matched to a row. */
export const lookupOf = (secrets: AccountSecrets, apiKey: string): Buffer =>
  createHmac("sha256", secrets.pepper).update(apiKey).digest();
