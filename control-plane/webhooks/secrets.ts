// Secret that signs an account's webhooks: created at first use, shown to the account, rotated with a day's overlap.

import { randomBytes } from "node:crypto";
import { Webhook } from "standardwebhooks";
import type { AccountId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import type { Actor } from "../act.ts";
import { webhookAccountGone } from "./errors.ts";
import type { SecretRow, WebhookSecretStore } from "./store.ts";

/** How long the previous secret keeps signing after a rotation. */
const overlapMs = 24 * 60 * 60 * 1000;
const prefix = "whsec_";
const secretBytes = 32;

export interface WebhookSecret {
  readonly secret: string;
  readonly madeAtMs: number;
  /** End of the previous secret's overlap; null: no previous secret. */
  readonly previousUntilMs: number | null;
}

/** Seals one account's secrets with its data key. */
export interface SecretSeal {
  seal(account: AccountId, secret: string): Promise<Buffer>;
  open(account: AccountId, sealed: Buffer): Promise<string>;
}

export function createWebhookSecrets(deps: {
  readonly store: WebhookSecretStore;
  readonly seal: SecretSeal;
  readonly unixMs?: () => number;
}) {
  const { store, seal } = deps;
  const unixMs = deps.unixMs ?? steadyTime.nowMs;
  const make = async (account: AccountId): Promise<Buffer> =>
    seal.seal(account, prefix + randomBytes(secretBytes).toString("base64"));
  const found = async (row: Promise<SecretRow | undefined>): Promise<SecretRow> => {
    const there = await row;
    if (!there) throw webhookAccountGone();
    return there;
  };
  const rowOf = (account: AccountId) => found(store.secretOf(account, () => make(account)));
  const previousOf = ({ previousSealed, previousUntilMs }: SecretRow) =>
    previousSealed && previousUntilMs !== null && previousUntilMs > unixMs() ? previousSealed : undefined;
  const shown = async (account: AccountId, row: SecretRow): Promise<WebhookSecret> => ({
    secret: await seal.open(account, row.sealed),
    madeAtMs: row.madeAtMs,
    previousUntilMs: previousOf(row) ? row.previousUntilMs : null,
  });
  return {
    /** Throws webhookAccountGone, as the other methods do. */
    get: async (account: AccountId): Promise<WebhookSecret> => shown(account, await rowOf(account)),
    rotate: async (actor: Actor): Promise<WebhookSecret> =>
      shown(actor.account, await found(store.rotateSecret(actor, await make(actor.account), overlapMs))),
    /** Returns the `webhook-signature` header: one signature per valid secret, separated by spaces. */
    async sign(account: AccountId, webhookId: string, atMs: number, body: Buffer): Promise<string> {
      const row = await rowOf(account);
      const signatures: string[] = [];
      for (const sealed of [row.sealed, previousOf(row)]) {
        if (!sealed) continue;
        const secret = await seal.open(account, sealed);
        signatures.push(new Webhook(secret).sign(webhookId, new Date(atMs), body));
      }
      return signatures.join(" ");
    },
  };
}

export type WebhookSecrets = ReturnType<typeof createWebhookSecrets>;
