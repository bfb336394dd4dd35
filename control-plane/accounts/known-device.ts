// A cookie that identifies a browser with an earlier sign-in. Its attempts are counted separately, so that guessing from many
// addresses does not lock the owner out. It grants no access by itself.
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import type { AccountId } from "../../proto/ids.ts";

export function createKnownDevices(pepper: Buffer) {
  const key = Buffer.from(hkdfSync("sha256", pepper, "", "stoker known devices", 32));
  const tagOf = (account: AccountId, device: string) =>
    createHmac("sha256", key).update(`${account}|${device}`).digest();
  return {
    /** Returns the value of a new cookie. */
    make(account: AccountId): string {
      const device = randomBytes(16).toString("base64url");
      return `${device}.${tagOf(account, device).toString("base64url")}`;
    },
    /** Returns the cookie's device if this account signed in with it. */
    find(account: AccountId, cookie: string | undefined): string | undefined {
      const [, device, tag] = /^([\w-]{22})\.([\w-]{43})$/.exec(cookie ?? "") ?? [];
      if (device === undefined || tag === undefined) return undefined;
      return timingSafeEqual(tagOf(account, device), Buffer.from(tag, "base64url")) ? device : undefined;
    },
  };
}

export type KnownDevices = ReturnType<typeof createKnownDevices>;
