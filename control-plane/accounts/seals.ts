// Secrets of hosts and deployments at rest: ticket keys under keys derived from the operator's KEKs, hub tokens under the
// account's own data key. The additional data binds each to its row.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import type { AccountId, HostId } from "../../proto/ids.ts";
import { oncePer } from "../../proto/once-per.ts";
import type { DataKeys } from "./data-keys.ts";
import {
  type AccountSecrets,
  type Kek,
  newestKek,
  openBytes,
  openSecret,
  sealBytes,
  sealSecret,
  withAnyKek,
} from "./envelope.ts";

const versionBytes = 4;
const nonceBytes = 12;
const tagBytes = 16;

export function ticketKeySeal(secrets: AccountSecrets): KekSeal<HostId> {
  return kekSeal(secrets, "stoker host ticket keys", "host.ticket_key");
}

/** Seals the key that signs hosts' certificates; the id is the authority's name. */
export function authoritySeal(secrets: AccountSecrets): KekSeal<string> {
  return kekSeal(secrets, "stoker node authority", "node_authority.sealed_key");
}

/** Seals the client secrets of identity providers. */
export function providerSeal(secrets: AccountSecrets): KekSeal<string> {
  return kekSeal(secrets, "stoker identity providers", "identity_provider.client_secret");
}

/** Seals the keys that sign invoices; the id is the version. */
export function invoiceKeySeal(secrets: AccountSecrets): KekSeal<string> {
  return kekSeal(secrets, "stoker invoice keys", "invoice_key.sealed_key");
}

/** Returns the key of a KEK for the purpose `info`; derives each once. */
function derivedKeys(info: string): (kek: Kek) => Buffer {
  return oncePer((kek: Kek) => Buffer.from(hkdfSync("sha256", kek.bytes, "", info, 32)));
}

interface KekSeal<Id extends string> {
  seal(plain: Buffer, id: Id): Buffer;
  open(sealed: Buffer, id: Id): Buffer;
}

/**
 * Layout: version of the KEK (big-endian: a rotation finds old ones by comparing), nonce, tag, ciphertext. `info` separates
 * kinds of secrets; `column` and the row's id bind a secret to its place.
 */
function kekSeal<Id extends string>(secrets: AccountSecrets, info: string, column: string): KekSeal<Id> {
  const keyOf = derivedKeys(info);
  const binding = (id: Id, version: number) => Buffer.from(`${column}|${id}|${version}`);
  return {
    seal(plain, id) {
      const kek = newestKek(secrets);
      const version = Buffer.alloc(versionBytes);
      version.writeUInt32BE(kek.version);
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv("aes-256-gcm", keyOf(kek), nonce).setAAD(binding(id, kek.version));
      const body = Buffer.concat([cipher.update(plain), cipher.final()]);
      return Buffer.concat([version, nonce, cipher.getAuthTag(), body]);
    },
    open(sealed, id) {
      const version = sealed.readUInt32BE();
      const nonce = sealed.subarray(versionBytes, versionBytes + nonceBytes);
      const rest = sealed.subarray(versionBytes + nonceBytes);
      return withAnyKek(secrets, (kek) => {
        if (kek.version !== version) throw new Error(`${column} of ${id} is sealed by kek ${version}`);
        const decipher = createDecipheriv("aes-256-gcm", keyOf(kek), nonce, { authTagLength: tagBytes })
          .setAAD(binding(id, version))
          .setAuthTag(rest.subarray(0, tagBytes));
        return Buffer.concat([decipher.update(rest.subarray(tagBytes)), decipher.final()]);
      });
    },
  };
}

const rereadEveryMs = 1_000;

/**
 * Keys that seal tickets, one per key-encryption key. A record that is sealed with an older one is valid as long as that file is
 * in the secrets folder.
 */
export function ticketSeals(secrets: AccountSecrets, monotonicMs: () => number = () => performance.now()) {
  const keyOf = derivedKeys("stoker ticket seals");
  let rereadAtMs = Number.NEGATIVE_INFINITY;
  const known = (version: number) => {
    const kek = secrets.keks.find((one) => one.version === version);
    return kek && keyOf(kek);
  };
  /** A host may name any version: the folder is read at most once a second. */
  const rereadSeldom = () => {
    if (monotonicMs() - rereadAtMs < rereadEveryMs) return;
    rereadAtMs = monotonicMs();
    secrets.reread?.();
  };
  return {
    newest() {
      const kek = newestKek(secrets);
      return { version: kek.version, bytes: keyOf(kek) };
    },
    /** `newer`: created by a rotation that has not reached this control plane yet. `removed`: no longer among the secrets. */
    find(version: number): Buffer | "newer" | "removed" {
      const found = known(version);
      if (found) return found;
      rereadSeldom();
      return known(version) ?? (version > newestKek(secrets).version ? "newer" : "removed");
    },
  };
}

/** Signs the links of invoice pages, which outlive every key-encryption key: so it comes from the pepper. */
export const invoiceLinkKey = (secrets: AccountSecrets): Buffer =>
  Buffer.from(hkdfSync("sha256", secrets.pepper, "", "stoker invoice links", 32));

/** Signs the links to results of requests with a webhook. */
export const resultsLinkKey = (secrets: AccountSecrets): Buffer =>
  Buffer.from(hkdfSync("sha256", secrets.pepper, "", "stoker results links", 32));

/** Keeps accounts from making prompts that the router takes for another's. */
export const promptScopeKey = (secrets: AccountSecrets): Buffer =>
  Buffer.from(hkdfSync("sha256", secrets.pepper, "", "stoker prompt scopes", 32));

export interface HubTokens {
  seal(account: AccountId, token: string): Promise<Buffer>;
  open(account: AccountId, sealed: Buffer): Promise<string>;
}

async function dekOf(dataKeys: DataKeys, account: AccountId): Promise<Buffer> {
  const dek = await dataKeys.of(account);
  if (!dek) throw new Error(`account ${account} has no data key`);
  return dek;
}

export const hubTokens = (dataKeys: DataKeys): HubTokens => accountSeal(dataKeys, "deployment.weights_token");

/** Seals the secret that signs an account's webhooks. */
export const webhookSeal = (dataKeys: DataKeys): HubTokens => accountSeal(dataKeys, "webhook_secret.sealed");

function accountSeal(dataKeys: DataKeys, purpose: string): HubTokens {
  return {
    seal: async (account, token) => sealSecret(await dekOf(dataKeys, account), token, account, purpose),
    open: async (account, sealed) => openSecret(await dekOf(dataKeys, account), sealed, account, purpose),
  };
}

/** Recordings of people's voices. */
export function voiceSamples(dataKeys: DataKeys) {
  const purpose = "voice_sample.sealed";
  return {
    seal: async (account: AccountId, plain: Buffer) =>
      sealBytes(await dekOf(dataKeys, account), plain, account, purpose),
    open: async (account: AccountId, sealed: Buffer) =>
      openBytes(await dekOf(dataKeys, account), sealed, account, purpose),
  };
}

/** Stored responses; each is bound to its id. */
export function responseSeal(dataKeys: DataKeys) {
  const purposeOf = (id: string) => `stored_response.sealed|${id}`;
  return {
    seal: async (account: AccountId, id: string, plain: Buffer) =>
      sealBytes(await dekOf(dataKeys, account), plain, account, purposeOf(id)),
    open: async (account: AccountId, id: string, sealed: Buffer) =>
      openBytes(await dekOf(dataKeys, account), sealed, account, purposeOf(id)),
  };
}
