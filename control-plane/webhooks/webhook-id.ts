import { randomBytes } from "node:crypto";

const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** Returns `msg_` and a ULID: 48 bits of time, 80 random bits, in Crockford's base 32. Sorts by time. */
export function makeWebhookId(unixMs: number): string {
  let bits = (BigInt(unixMs) << 80n) | BigInt(`0x${randomBytes(10).toString("hex")}`);
  let text = "";
  for (let i = 0; i < 26; i++) {
    text = (letters[Number(bits & 31n)] as string) + text;
    bits >>= 5n;
  }
  return `msg_${text}`;
}
