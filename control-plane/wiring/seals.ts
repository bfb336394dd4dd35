// Secrets of hosts and deployments at rest: ticket keys under a key derived from the operator's KEK, hub tokens under the
// account's own data key. The additional data binds each to its row.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import type { AccountId, HostId } from "../../proto/ids.ts";
import { type AccountSecrets, openSecret, sealSecret, unwrapDek } from "../accounts/envelope.ts";
import type { AccountStore } from "../accounts/store.ts";
import type { TicketKeySeal } from "../fleet/store.ts";

const nonceBytes = 12;
const tagBytes = 16;

export function ticketKeySeal(secrets: AccountSecrets): TicketKeySeal {
  const key = Buffer.from(hkdfSync("sha256", secrets.kek, "", "stoker host ticket keys", 32));
  const binding = (host: HostId) => Buffer.from(`host.ticket_key|${host}|v1`);
  return {
    seal(plain, host) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(binding(host));
      const body = Buffer.concat([cipher.update(plain), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), body]);
    },
    open(sealed, host) {
      const nonce = sealed.subarray(0, nonceBytes);
      const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes })
        .setAAD(binding(host))
        .setAuthTag(sealed.subarray(nonceBytes, nonceBytes + tagBytes));
      return Buffer.concat([decipher.update(sealed.subarray(nonceBytes + tagBytes)), decipher.final()]);
    },
  };
}

/** Signs the links of invoice pages. */
export const invoiceLinkKey = (secrets: AccountSecrets): Buffer =>
  Buffer.from(hkdfSync("sha256", secrets.kek, "", "stoker invoice links", 32));

export interface HubTokens {
  seal(account: AccountId, token: string): Promise<Buffer>;
  open(account: AccountId, sealed: Buffer): Promise<string>;
}

export function hubTokens(store: Pick<AccountStore, "wrappedDek">, secrets: AccountSecrets): HubTokens {
  const purpose = "deployment.weights_token";
  const dekOf = async (account: AccountId): Promise<Buffer> => {
    const wrapped = await store.wrappedDek(account);
    if (!wrapped) throw new Error(`account ${account} has no data key`);
    return unwrapDek(secrets, wrapped, account);
  };
  return {
    seal: async (account, token) => sealSecret(await dekOf(account), token, account, purpose),
    open: async (account, sealed) => openSecret(await dekOf(account), sealed, account, purpose),
  };
}
