// A request with an `Idempotency-Key` runs once: its answer is kept for a day, sealed, since answers hold secrets, and
// given again to whoever sends the same request with the same key from the same account.
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { DataKeys } from "./data-keys.ts";
import { openSecret, sealSecret } from "./envelope.ts";
import { InvalidApiKey } from "./errors.ts";
import type { IdempotencyStore } from "./store.ts";
import { AnswerLost, AnswerNotKept, IdempotencyKeyInUse, IdempotencyKeyReused } from "./token-errors.ts";

export interface KeptAnswer {
  readonly status: number;
  /** Names and values, in turn. */
  readonly headers: readonly string[];
  readonly body: string | Buffer;
}

export interface Claim {
  /** Keeps what was answered, while the account has not kept too much: then as `spend`. */
  finish(answer: KeptAnswer): Promise<void>;
  /** It ran, and its answer cannot be given again: repeats are told so. */
  spend(): Promise<void>;
  /** The request may come again: nothing is kept. */
  abandon(): Promise<void>;
}

export interface KeyedRequest {
  readonly account: AccountId;
  readonly route: string;
  readonly key: string;
  readonly bodyHash: Buffer;
  /** Running it again would be paid again: where its holder dies, repeats are refused and not run. */
  readonly isPaid: boolean;
}

export interface Idempotency {
  /**
   * The answer given before, or the right to run it, held until the claim is ended in one of its ways. Throws
   * IdempotencyKeyReused, IdempotencyKeyInUse, AnswerNotKept, AnswerLost.
   */
  begin(request: KeyedRequest): Promise<{ readonly kept: KeptAnswer } | { readonly claim: Claim }>;
}

/** Without a sign of its holder for so long it counts as dead. */
const lockMs = 60_000;
const hourMs = 60 * 60 * 1000;
const keepMs = 24 * hourMs;
/** Of one account's answers, at one control plane: they lie in the database for a day. */
const mostHourlyBytes = 256 * 1024 * 1024;

export function createIdempotency(deps: {
  readonly store: IdempotencyStore;
  readonly dataKeys: DataKeys;
  readonly lockMs?: number;
  readonly mostHourlyBytes?: number;
}): Idempotency {
  const lock = deps.lockMs ?? lockMs;
  const hour = new Hour(deps.mostHourlyBytes ?? mostHourlyBytes);
  return {
    async begin({ account, route, key, bodyHash, isPaid }) {
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
          const letGo = holdOn(() => deps.store.renew(claim, lock), lock / 3);
          const write = async (answer: Kept) => {
            letGo();
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
                letGo();
                return deps.store.abandon(claim);
              },
            },
          };
        }
        case "answered": {
          const kept = JSON.parse(openSecret(await dekOf(), outcome.answer, account, purpose)) as Kept;
          if (!kept) throw new AnswerNotKept();
          const { status, headers, body, base64 } = kept;
          return { kept: { status, headers, body: body ?? Buffer.from(base64 ?? "", "base64") } };
        }
        case "running":
          throw new IdempotencyKeyInUse(Math.min(5, outcome.forMs / 1000));
        case "lost":
          throw new AnswerLost();
        case "other_request":
          throw new IdempotencyKeyReused();
      }
    },
  };
}

/** As it is sealed; null: it was answered, and the answer is not here. */
type Kept = {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body?: string;
  readonly base64?: string;
} | null;

/** Says again and again that its holder lives, until the returned function is called. */
function holdOn(renew: () => Promise<void>, everyMs: number): () => void {
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const next = (): void => {
    if (isOver) return;
    // While the database is away nothing can be said; the next time may be in time.
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

/** What accounts have kept within the running hour. */
class Hour {
  readonly #mostBytes: number;
  #endsMs = 0;
  readonly #bytes = new Map<AccountId, number>();

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  takes(account: AccountId, bytes: number): boolean {
    const now = performance.now();
    if (now >= this.#endsMs) {
      this.#bytes.clear();
      this.#endsMs = now + hourMs;
    }
    const sum = (this.#bytes.get(account) ?? 0) + bytes;
    if (sum > this.#mostBytes) return false;
    this.#bytes.set(account, sum);
    return true;
  }
}
