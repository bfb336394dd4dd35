// A request with an `Idempotency-Key` runs once. Its response is kept for a day, sealed because responses contain secrets,
// and returned for the same request with the same key from the same account.
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { DataKeys } from "./data-keys.ts";
import { openSecret, sealSecret } from "./envelope.ts";
import { InvalidApiKey } from "./errors.ts";
import { HourlyBytes } from "./hourly-bytes.ts";
import type { IdempotencyStore } from "./store.ts";
import { answerLost, answerNotKept, idempotencyKeyInUse, idempotencyKeyReused } from "./token-errors.ts";

export interface KeptAnswer {
  readonly status: number;
  /** Header names and values, alternately. */
  readonly headers: readonly string[];
  readonly body: string | Buffer;
}

export interface Claim {
  /** Stores the response. When the account has stored too much: as `spend`. */
  finish(answer: KeptAnswer): Promise<void>;
  /** The request ran, but its response cannot be repeated: repeats receive an error. */
  spend(): Promise<void>;
  /** The request may be sent again: nothing is kept. */
  abandon(): Promise<void>;
}

export interface KeyedRequest {
  readonly account: AccountId;
  readonly route: string;
  readonly key: string;
  readonly bodyHash: Buffer;
  /** A second run would be paid again: when the holder dies, repeats are refused. */
  readonly isPaid: boolean;
}

/** A holder that does not renew within this time counts as dead. */
const lockMs = 60_000;
const hourMs = 60 * 60 * 1000;
const keepMs = 24 * hourMs;

export function createIdempotency(deps: {
  readonly store: IdempotencyStore;
  readonly dataKeys: DataKeys;
  readonly lockMs?: number;
  readonly maxHourlyBytes?: number;
}) {
  const lock = deps.lockMs ?? lockMs;
  const hour = new HourlyBytes(deps.maxHourlyBytes);
  return {
    /**
     * Returns the stored response, or a claim to run the request until the claim is ended. Throws idempotencyKeyReused,
     * idempotencyKeyInUse, answerNotKept, answerLost.
     */
    async begin({
      account,
      route,
      key,
      bodyHash,
      isPaid,
    }: KeyedRequest): Promise<{ readonly kept: KeptAnswer } | { readonly claim: Claim }> {
      const claim = { account, route, key, claim: randomId(16) };
      const purpose = `idempotency.answer|${route}|${key}`;
      const dekOf = async () => {
        const dek = await deps.dataKeys.of(account);
        if (!dek) throw new InvalidApiKey();
        return dek;
      };
      const mayTakeOver = !isPaid;
      const outcome = await deps.store.claim({ ...claim, bodyHash, lockMs: lock, keepMs, mayTakeOver });
      switch (outcome.kind) {
        case "claimed": {
          const stopRenewing = holdOn(() => deps.store.renew(claim, lock), lock / 3);
          const write = async (answer: Kept) => {
            stopRenewing();
            await deps.store.finish(claim, sealSecret(await dekOf(), JSON.stringify(answer), account, purpose));
          };
          return {
            claim: {
              finish: ({ status, headers, body }) =>
                write(
                  hour.takes(account, body.length)
                    ? {
                        status,
                        headers,
                        ...(typeof body === "string" ? { body } : { base64: body.toString("base64") }),
                      }
                    : null,
                ),
              spend: () => write(null),
              abandon: () => {
                stopRenewing();
                return deps.store.abandon(claim);
              },
            },
          };
        }
        case "answered": {
          const kept = JSON.parse(openSecret(await dekOf(), outcome.answer, account, purpose)) as Kept;
          if (!kept) throw answerNotKept();
          const { status, headers, body, base64 } = kept;
          return { kept: { status, headers, body: body ?? Buffer.from(base64 ?? "", "base64") } };
        }
        case "running":
          throw idempotencyKeyInUse(Math.min(5, outcome.forMs / 1000));
        case "lost":
          throw answerLost();
        case "other_request":
          throw idempotencyKeyReused();
      }
    },
  };
}

export type Idempotency = ReturnType<typeof createIdempotency>;

/** Sealed form; null: the request ran, and its response was not stored. */
type Kept = {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body?: string;
  readonly base64?: string;
} | null;

/** Renews the claim periodically until the returned function is called. */
export function holdOn(renew: () => Promise<void>, everyMs: number): () => void {
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const next = (): void => {
    if (isOver) return;
    // A renewal that fails while the database is unavailable may succeed next time.
    timer = setTimeout(
      () =>
        renew()
          .catch(() => {})
          .then(next),
      everyMs,
    ).unref();
  };
  next();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}
