// Secrets of hosts and deployments at rest: ticket keys under keys derived from the operator's KEKs, hub tokens under the
// account's own data key. The additional data binds each to its row.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import type { AccountId } from "../../proto/ids.ts";
import type { DataKeys } from "../accounts/data-keys.ts";
import {
  type AccountSecrets,
  type Kek,
  newestKek,
  openBytes,
  openSecret,
  sealBytes,
  sealSecret,
  withAnyKek,
} from "../accounts/envelope.ts";
import type { SampleSeal } from "../assets/voices.ts";
import type { TicketKeySeal } from "../fleet/store.ts";

const versionBytes = 4;
const nonceBytes = 12;
const tagBytes = 16;

export function ticketKeySeal(secrets: AccountSecrets): TicketKeySeal {
  return kekSeal(secrets, "stoker host ticket keys", "host.ticket_key");
}

/** Of the key that signs hosts' certificates; the id is the authority's name. */
export function authoritySeal(secrets: AccountSecrets): KekSeal<string> {
  return kekSeal(secrets, "stoker node authority", "node_authority.sealed_key");
}

interface KekSeal<Id extends string> {
  seal(plain: Buffer, id: Id): Buffer;
  open(sealed: Buffer, id: Id): Buffer;
}

/**
 * Version of the KEK (big-endian: a rotation finds old ones by comparing), nonce, tag, ciphertext. `info` keeps kinds of
 * secrets apart, `column` and the row's id bind each to its place.
 */
function kekSeal<Id extends string>(secrets: AccountSecrets, info: string, column: string): KekSeal<Id> {
  const derived = new WeakMap<Kek, Buffer>();
  const keyOf = (kek: Kek): Buffer => {
    const key = derived.get(kek) ?? Buffer.from(hkdfSync("sha256", kek.bytes, "", info, 32));
    derived.set(kek, key);
    return key;
  };
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

/** Signs the links of invoice pages, which outlive every key-encryption key: so it comes from the pepper. */
export const invoiceLinkKey = (secrets: AccountSecrets): Buffer =>
  Buffer.from(hkdfSync("sha256", secrets.pepper, "", "stoker invoice links", 32));

/** Signs the links to results of requests with a webhook. */
export const resultsLinkKey = (secrets: AccountSecrets): Buffer =>
  Buffer.from(hkdfSync("sha256", secrets.pepper, "", "stoker results links", 32));

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

/** Of the secret that signs an account's webhooks. */
export const webhookSeal = (dataKeys: DataKeys): HubTokens => accountSeal(dataKeys, "webhook_secret.sealed");

function accountSeal(dataKeys: DataKeys, purpose: string): HubTokens {
  return {
    seal: async (account, token) => sealSecret(await dekOf(dataKeys, account), token, account, purpose),
    open: async (account, sealed) => openSecret(await dekOf(dataKeys, account), sealed, account, purpose),
  };
}

/** Recordings of people's voices. */
export function voiceSamples(dataKeys: DataKeys): SampleSeal {
  const purpose = "voice_sample.sealed";
  return {
    seal: async (account, plain) => sealBytes(await dekOf(dataKeys, account), plain, account, purpose),
    open: async (account, sealed) => openBytes(await dekOf(dataKeys, account), sealed, account, purpose),
  };
}
