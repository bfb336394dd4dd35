// Envelope encryption: a key-encryption key outside PostgreSQL wraps one data key per account, which seals that account's
// secrets. The additional data binds each ciphertext to its row, so one moved to another row does not open.
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";
import type { AccountId, KeyId } from "../../proto/ids.ts";

const nonceBytes = 12;
const tagBytes = 16;

export interface AccountSecrets {
  /** 32 bytes. */
  readonly kek: Buffer;
  readonly kekVersion: number;
  /** 32 bytes; the key of the look-up hash. */
  readonly pepper: Buffer;
}

/** nonce, tag, ciphertext. */
function seal(key: Buffer, plain: Buffer, boundTo: string): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(boundTo));
  const body = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]);
}

/** Throws when the key, the bytes or the row are not the ones it was sealed with. */
function open(key: Buffer, sealed: Buffer, boundTo: string): Buffer {
  const decipher = createDecipheriv("aes-256-gcm", key, sealed.subarray(0, nonceBytes), { authTagLength: tagBytes })
    .setAAD(Buffer.from(boundTo))
    .setAuthTag(sealed.subarray(nonceBytes, nonceBytes + tagBytes));
  return Buffer.concat([decipher.update(sealed.subarray(nonceBytes + tagBytes)), decipher.final()]);
}

const dekBinding = (account: AccountId, kekVersion: number) => `dek|${account}|${kekVersion}`;
const keyBinding = (account: AccountId, key: KeyId) => `api_token|${account}|${key}|v1`;

export const makeDek = (): Buffer => randomBytes(32);
export const wrapDek = (secrets: AccountSecrets, dek: Buffer, account: AccountId): Buffer =>
  seal(secrets.kek, dek, dekBinding(account, secrets.kekVersion));
export const unwrapDek = (secrets: AccountSecrets, wrapped: Buffer, account: AccountId): Buffer =>
  open(secrets.kek, wrapped, dekBinding(account, secrets.kekVersion));

export const sealApiKey = (dek: Buffer, apiKey: string, account: AccountId, key: KeyId): Buffer =>
  seal(dek, Buffer.from(apiKey), keyBinding(account, key));
export const openApiKey = (dek: Buffer, sealed: Buffer, account: AccountId, key: KeyId): string =>
  open(dek, sealed, keyBinding(account, key)).toString();

/** Seals any other secret of an account; `purpose` names table, column and row. */
export const sealSecret = (dek: Buffer, secret: string, account: AccountId, purpose: string): Buffer =>
  seal(dek, Buffer.from(secret), `${purpose}|${account}|v1`);
export const openSecret = (dek: Buffer, sealed: Buffer, account: AccountId, purpose: string): string =>
  open(dek, sealed, `${purpose}|${account}|v1`).toString();

/** How a key is found: without the pepper nobody can tell whether a row is of a key he guesses. */
export const lookupOf = (secrets: AccountSecrets, apiKey: string): Buffer =>
  createHmac("sha256", secrets.pepper).update(apiKey).digest();
