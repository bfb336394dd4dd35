// An authenticator over live keys in memory, with the real envelope: what PostgreSQL would hold, without it.

import { createHmac, randomBytes } from "node:crypto";
import { pino } from "pino";
import { Registry } from "prom-client";
import { makeApiKey } from "../../../../control-plane/accounts/api-key.ts";
import { createAuthenticator } from "../../../../control-plane/accounts/authenticate.ts";
import { lookupOf, makeDek, sealApiKey, wrapDek } from "../../../../control-plane/accounts/envelope.ts";
import { type KeyRules, noRules } from "../../../../control-plane/accounts/key-rules.ts";
import type { SigningKeyRow } from "../../../../control-plane/accounts/store.ts";
import type { AccountId, KeyId } from "../../../../proto/ids.ts";

export const user = "u:1000000000000" as AccountId;
export const nowS = 1_800_000_000;

export interface RingKey {
  readonly id: KeyId;
  readonly name: string;
  readonly secret: string;
}

export function openRing() {
  const kek = { version: 1, bytes: randomBytes(32) };
  const secrets = { keks: [kek], pepper: randomBytes(32) };
  const dek = makeDek();
  const rows = new Map<KeyId, SigningKeyRow & { readonly name: string }>();
  const heard = new Map<string, ((subject: string) => void)[]>();
  const clock = { unixMs: nowS * 1000, monotonicMs: 0 };
  /** Calls of the store, by name. */
  const asked = { findKey: 0, findOwnKey: 0, findSigningKey: 0 };
  const used: KeyId[] = [];
  let serial = 0;
  const store = {
    async findKey(lookup: Buffer) {
      asked.findKey += 1;
      return [...rows.values()].find((row) => row.lookup.equals(lookup));
    },
    async findOwnKey(account: AccountId, key: KeyId) {
      asked.findOwnKey += 1;
      const row = rows.get(key);
      return row?.account.account === account ? row : undefined;
    },
    async findSigningKey(account: AccountId, name: string) {
      asked.findSigningKey += 1;
      return [...rows.values()].find((row) => row.account.account === account && row.name === name);
    },
    async keysUsed(keys: ReadonlyMap<KeyId, Date>) {
      used.push(...keys.keys());
    },
  };
  const authenticator = createAuthenticator({
    store,
    secrets,
    log: pino({ level: "silent" }),
    registry: new Registry(),
    changes: { on: (topic, handler) => void heard.set(topic, [...(heard.get(topic) ?? []), handler]) },
    nowMs: () => clock.monotonicMs,
    unixMs: () => clock.unixMs,
  });
  const announce = (topic: "key" | "account", subject: string) => {
    for (const handler of heard.get(topic) ?? []) handler(subject);
  };

  return {
    authenticator,
    clock,
    asked,
    used,
    store,
    announce,
    add(name: string, change: Partial<SigningKeyRow> = {}): RingKey {
      serial += 1;
      const id = `key-${serial}` as KeyId;
      const secret = makeApiKey();
      rows.set(id, {
        name,
        key: id,
        member: null,
        account: {
          account: user,
          email: "ada@example.com",
          displayName: "ada",
          isAdmin: true,
          suspendReason: null,
          mayPrioritize: false,
          createdAtMs: 0,
        },
        lookup: lookupOf(secrets, secret),
        ...noRules,
        hasAccountLimit: false,
        hasKeyLimit: false,
        projectId: null,
        ciphertext: sealApiKey(dek, secret, user, id),
        wrappedDek: wrapDek(kek, dek, user),
        ...change,
      });
      announce("key", id);
      return { id, name, secret };
    },
    change({ id }: RingKey, rules: Partial<KeyRules>): void {
      rows.set(id, { ...(rows.get(id) as SigningKeyRow & { readonly name: string }), ...rules });
      announce("key", id);
    },
    revoke(key: RingKey): void {
      rows.delete(key.id);
      announce("key", key.id);
    },
    /** Undefined when refused; always with the same words. */
    async open(secret: string, ip = "192.0.2.1") {
      return (async () => authenticator.authenticate(secret, ip))().catch((error: Error) => {
        if ((error as { code?: string }).code !== "invalid_api_key") throw error;
        refusals.add(error.message);
        return undefined;
      });
    },
  };
}

export const refusals = new Set<string>();

export const kidOf = (name: string, account: string = user) => `${account}:${Buffer.from(name).toString("base64")}`;
const part = (value: unknown): string =>
  Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

/** A token by hand: header and payload as objects or as the very text. */
export function forge(
  key: Pick<RingKey, "name" | "secret">,
  change: { header?: unknown; payload?: unknown; hash?: string; signature?: string } = {},
): string {
  const header = change.header ?? { alg: "HS256", typ: "JWT", kid: kidOf(key.name) };
  const payload = change.payload ?? { sub: user, exp: nowS + 3600 };
  const signed = `${part(header)}.${part(payload)}`;
  const signature =
    change.signature ??
    createHmac(change.hash ?? "sha256", key.secret)
      .update(signed)
      .digest("base64url");
  return `jwt:${signed}.${signature}`;
}
