// A request with an `Idempotency-Key` runs once: its answer is kept for a day, sealed, since answers hold secrets, and
// given again to whoever sends the same request with the same key from the same account.
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { DataKeys } from "./data-keys.ts";
import { openSecret, sealSecret } from "./envelope.ts";
import { InvalidApiKey } from "./errors.ts";
import type { IdempotencyStore } from "./store.ts";
import { IdempotencyKeyInUse, IdempotencyKeyReused } from "./token-errors.ts";

export interface KeptAnswer {
  readonly status: number;
  /** Names and values, in turn. */
  readonly headers: readonly string[];
  readonly body: string;
}

export interface Claim {
  /** Keeps what was answered. */
  finish(answer: KeptAnswer): Promise<void>;
  /** The request may come again: nothing is kept. */
  abandon(): Promise<void>;
}

export interface Idempotency {
  /** The answer given before, or the right to run it. Throws IdempotencyKeyReused, IdempotencyKeyInUse. */
  begin(request: {
    readonly account: AccountId;
    readonly route: string;
    readonly key: string;
    readonly bodyHash: Buffer;
  }): Promise<{ readonly kept: KeptAnswer } | { readonly claim: Claim }>;
}

/** Longer than any of these requests takes: after it its holder counts as dead. */
const lockMs = 60_000;
const keepMs = 24 * 60 * 60 * 1000;

export function createIdempotency(deps: {
  readonly store: IdempotencyStore;
  readonly dataKeys: DataKeys;
  readonly lockMs?: number;
}): Idempotency {
  return {
    async begin({ account, route, key, bodyHash }) {
      const claim = { account, route, key, claim: randomId(16) };
      const purpose = `idempotency.answer|${route}|${key}`;
      const dekOf = async () => {
        const dek = await deps.dataKeys.of(account);
        if (!dek) throw new InvalidApiKey();
        return dek;
      };
      const outcome = await deps.store.claim({ ...claim, bodyHash, lockMs: deps.lockMs ?? lockMs, keepMs });
      switch (outcome.kind) {
        case "claimed":
          return {
            claim: {
              finish: async (answer) =>
                deps.store.finish(claim, sealSecret(await dekOf(), JSON.stringify(answer), account, purpose)),
              abandon: () => deps.store.abandon(claim),
            },
          };
        case "answered":
          return { kept: JSON.parse(openSecret(await dekOf(), outcome.answer, account, purpose)) as KeptAnswer };
        case "running":
          throw new IdempotencyKeyInUse(Math.min(5, outcome.forMs / 1000));
        case "other_request":
          throw new IdempotencyKeyReused();
      }
    },
  };
}
