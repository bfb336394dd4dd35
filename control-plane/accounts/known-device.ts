// A cookie that names a browser its owner signed in with before. Attempts from it are counted on their own, so that a stranger
// who guesses at the account from many addresses does not keep the owner out. It opens nothing by itself.
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import type { AccountId } from "../../proto/ids.ts";

export interface KnownDevices {
  /** The value of a new cookie. */
  make(account: AccountId): string;
  /** The device that a cookie names, if this account signed in with it; undefined otherwise. */
  find(account: AccountId, cookie: string | undefined): string | undefined;
}

export function createKnownDevices(pepper: Buffer): KnownDevices {
  const key = Buffer.from(hkdfSync("sha256", pepper, "", "stoker known devices", 32));
  const tagOf = (account: AccountId, device: string) =>
    createHmac("sha256", key).update(`${account}|${device}`).digest();
  return {
    make(account) {
      const device = randomBytes(16).toString("base64url");
      return `${device}.${tagOf(account, device).toString("base64url")}`;
    },
    find(account, cookie) {
      const [, device, tag] = /^([\w-]{22})\.([\w-]{43})$/.exec(cookie ?? "") ?? [];
      if (device === undefined || tag === undefined) return undefined;
      return timingSafeEqual(tagOf(account, device), Buffer.from(tag, "base64url")) ? device : undefined;
    },
  };
}
