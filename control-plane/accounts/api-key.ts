// The shape of an API key: `stk_`, 43 base62 characters from 32 random bytes, 6 base62 characters of their CRC32.
import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";

const prefix = "stk_";
const bodyLength = 43;
const checkLength = 6;
const keyLength = prefix.length + bodyLength + checkLength;
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export function makeApiKey(random: Buffer = randomBytes(32)): string {
  const body = base62(BigInt(`0x${random.toString("hex")}`), bodyLength);
  return prefix + body + checkOf(body);
}

/** Cheap check that rejects a mistyped or foreign secret before it is hashed or looked up. */
export function looksLikeApiKey(secret: string): boolean {
  if (secret.length !== keyLength || !secret.startsWith(prefix)) return false;
  const body = secret.slice(prefix.length, prefix.length + bodyLength);
  return secret.endsWith(checkOf(body));
}

/** Visible part of a key: its last characters. */
export const fragmentOf = (key: string): string => key.slice(-5);

const checkOf = (body: string): string => base62(BigInt(crc32(body)), checkLength);

function base62(value: bigint, length: number): string {
  let text = "";
  for (let rest = value; text.length < length; rest /= 62n) text = alphabet[Number(rest % 62n)] + text;
  return text;
}
