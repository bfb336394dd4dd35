// One-time codes for a lost second factor: 80 random bits each, stored as a keyed hash.
import { createHmac, hkdfSync, randomBytes } from "node:crypto";
import type { AccountId } from "../../proto/ids.ts";

const codeCount = 10;
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";
const codeLength = 16;

export function createRecoveryCodes(pepper: Buffer) {
  const key = Buffer.from(hkdfSync("sha256", pepper, "", "stoker recovery codes", 32));
  const hash = (account: AccountId, code: string) => createHmac("sha256", key).update(`${account}|${code}`).digest();
  return {
    /** Ten codes with their hashes. */
    make(account: AccountId): { readonly codes: readonly string[]; readonly hashes: readonly Buffer[] } {
      const plain = Array.from({ length: codeCount }, makeCode);
      return {
        codes: plain.map((code) => (code.match(/.{4}/g) as string[]).join("-")),
        hashes: plain.map((code) => hash(account, code)),
      };
    },
    /** Returns the hash of a code as typed; undefined when it does not have the form of one. */
    hashOf(account: AccountId, typed: string): Buffer | undefined {
      // The alphabet has no o, i and l: read them as the digits they resemble.
      const code = typed.toLowerCase().replace(/[\s-]/g, "").replace(/o/g, "0").replace(/[il]/g, "1");
      return code.length === codeLength ? hash(account, code) : undefined;
    },
  };
}

export type RecoveryCodes = ReturnType<typeof createRecoveryCodes>;

function makeCode(): string {
  let bits = BigInt(`0x${randomBytes(10).toString("hex")}`);
  let code = "";
  for (; code.length < codeLength; bits >>= 5n) code += alphabet[Number(bits & 31n)];
  return code;
}
