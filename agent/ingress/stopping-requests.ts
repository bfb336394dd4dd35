// Finds the requests that stop the model servers of one deployment: those in flight each time one dies or freezes, and never
// answered. They are refused for a while instead of being sent to the next server. Each account's requests are counted by
// themselves: equal requests of another account are neither suspects nor refused.
import { type RequestShape, shapeOf } from "../../proto/request-shape.ts";
import { ShapeMemory } from "../../proto/shape-memory.ts";

/** A request is recognised at this many deaths when it is the only candidate, and at this many when it is not. */
const [deathsAlone, deathsAmongOthers] = [2, 3];
/** A shape is refused for this long after the last death it was present at. */
const refusedMs = 10 * 60_000;
/** Deaths are remembered as long as they count against the restart limit. */
const rememberedMs = 30 * 60_000;
const maxShapes = 1_000;

export interface SentRequest {
  readonly account: string;
  readonly body: Buffer;
}

interface Suspect {
  deaths: number;
  lastMs: number;
  isRefused: boolean;
}

interface Present extends RequestShape {
  readonly account: string;
}

export class StoppingRequests {
  readonly #clock: () => number;
  readonly #suspects: ShapeMemory<Suspect>;
  /** At least one suspect is refused until then. */
  #refusedUntilMs = 0;

  constructor(clock: () => number) {
    this.#clock = clock;
    this.#suspects = new ShapeMemory({ clock, rememberedMs, maxShapes });
  }

  /** A server ended with these requests in flight. Returns the most deaths at which a recognised one was present; 0: none. */
  serverEnded(requests: readonly SentRequest[]): number {
    const nowMs = this.#clock();
    const present = distinctShapes(requests);
    this.#addDeath(present, nowMs);
    const repeated = present.filter((one) => this.#deaths(one) >= deathsAlone);
    const needed = repeated.length === 1 ? deathsAlone : deathsAmongOthers;
    let maxDeaths = 0;
    for (const one of repeated) {
      if (this.#deaths(one) < needed) continue;
      maxDeaths = Math.max(maxDeaths, this.#deaths(one));
      // The narrowest shape that repeats: a format is refused only once it came with different prompts.
      const isWhole = (this.#suspects.get(one.account, one.whole)?.deaths ?? 0) >= needed;
      const suspect = this.#suspects.get(one.account, isWhole ? one.whole : (one.format ?? one.whole));
      if (suspect) suspect.isRefused = true;
      this.#refusedUntilMs = nowMs + refusedMs;
    }
    return maxDeaths;
  }

  /** The request was answered: it is not what stopped the servers. */
  answered({ account, body }: SentRequest): void {
    if (!this.#suspects.mayKnow(account, body)) return;
    for (const digest of digestsOf(shapeOf(body))) this.#suspects.delete(account, digest);
  }

  /** Seconds for which a request like this one of its account is still refused; undefined: it may run. */
  refusedSeconds({ account, body }: SentRequest): number | undefined {
    if (this.#clock() >= this.#refusedUntilMs || !this.#suspects.mayKnow(account, body)) return undefined;
    for (const digest of digestsOf(shapeOf(body))) {
      const suspect = this.#suspects.get(account, digest);
      const leftMs = suspect?.isRefused ? suspect.lastMs + refusedMs - this.#clock() : 0;
      if (leftMs > 0) return Math.ceil(leftMs / 1000);
    }
    return undefined;
  }

  #deaths({ account, ...shape }: Present): number {
    return Math.max(...digestsOf(shape).map((digest) => this.#suspects.get(account, digest)?.deaths ?? 0));
  }

  /** Counts one death for each digest, also where several requests share a format. */
  #addDeath(present: readonly Present[], nowMs: number): void {
    const digests = new Map<string, Set<string>>();
    for (const { account, ...shape } of present) {
      const ofAccount = digests.get(account) ?? new Set();
      for (const digest of digestsOf(shape)) ofAccount.add(digest);
      digests.set(account, ofAccount);
    }
    for (const [account, ofAccount] of digests)
      for (const digest of ofAccount) {
        const { deaths, isRefused } = this.#suspects.get(account, digest) ?? { deaths: 0, isRefused: false };
        this.#suspects.set(account, digest, { deaths: deaths + 1, lastMs: nowMs, isRefused });
      }
  }
}

const digestsOf = ({ whole, format }: RequestShape): readonly string[] => (format ? [whole, format] : [whole]);

function distinctShapes(requests: readonly SentRequest[]): readonly Present[] {
  const shapes = requests.map(({ account, body }) => ({ account, ...shapeOf(body) }));
  return [...new Map(shapes.map((shape) => [`${shape.account} ${shape.whole}`, shape])).values()];
}
