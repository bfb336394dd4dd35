// Counts requests that ended, by minute, account and model, in memory; written every few seconds (series-upkeep.ts). The usage records
// cannot give these figures: a request that was refused has none, and theirs is the time at the host, without the wait for one.
import type { AccountId } from "../../proto/ids.ts";
import type { UsageFigures } from "../../proto/usage.ts";
import { observe } from "./histogram.ts";
import type { RequestRow, RequestSums } from "./store.ts";

export interface EndedRequest {
  /** Monotonic ms. */
  readonly startedMs: number;
  /** Monotonic ms; 0: there was no byte. */
  readonly firstByteAtMs: number;
  readonly isStream: boolean;
  /** Undefined: not resolved. */
  readonly model: string | undefined;
  readonly usage: UsageFigures | undefined;
}

/** `client_gone`: the client disconnected before the end. */
export type Outcome = number | "client_gone";

/** Accounts of a minute beyond these count only in the sums of all accounts. */
const maxAccounts = 2_000;
/** Models of an account in a minute beyond these count only in the sums of the account. */
const maxModels = 100;
/** Minutes that wait for the database. */
const maxMinutes = 10;
const minuteMs = 60_000;

type Sums = {
  -readonly [K in keyof RequestSums]: RequestSums[K] extends readonly number[] ? number[] : RequestSums[K];
};
type Minute = Map<string, Map<string, Sums>>;

export class RequestTally {
  readonly #minutes = new Map<number, Minute>();
  /** Minutes that were written whole are forgotten; these changed since the last write. */
  readonly #changed = new Set<number>();
  readonly #unixMs: () => number;

  constructor(unixMs: () => number = Date.now) {
    this.#unixMs = unixMs;
  }

  note(account: AccountId, request: EndedRequest, outcome: Outcome): void {
    const sums = this.#sumsOf(account, request.model ?? "");
    sums.requests += 1;
    if (outcome === "client_gone") sums.aborted += 1;
    else if (outcome >= 500) sums.serverErrors += 1;
    else if (outcome >= 400) sums.clientErrors += 1;
    sums.inputTokens += request.usage?.input ?? 0;
    sums.outputTokens += request.usage?.output ?? 0;
    const { startedMs, firstByteAtMs } = request;
    if (request.isStream && firstByteAtMs > 0) observe(sums.firstMs, firstByteAtMs - startedMs);
    // A refusal is fast, and would hide how long responses take.
    if (outcome === "client_gone" || outcome < 400) observe(sums.totalMs, performance.now() - startedMs);
  }

  /** Sums of the minutes that changed since the last call that was `written`: of each account, each model, both, and all. */
  take(): { readonly rows: readonly RequestRow[]; written(): void } {
    const current = this.#now();
    const minutes = [...this.#changed];
    this.#changed.clear();
    return {
      rows: minutes.flatMap((atMs) => rowsOf(atMs, this.#minutes.get(atMs) as Minute)),
      written: () => {
        for (const atMs of minutes) if (atMs < current && !this.#changed.has(atMs)) this.#minutes.delete(atMs);
      },
    };
  }

  /** For a call of `take` whose rows could not be written. */
  again(): void {
    for (const atMs of this.#minutes.keys()) this.#changed.add(atMs);
  }

  #now(): number {
    return Math.floor(this.#unixMs() / minuteMs) * minuteMs;
  }

  #sumsOf(account: string, model: string): Sums {
    const atMs = this.#now();
    let minute = this.#minutes.get(atMs);
    if (!minute) {
      minute = new Map();
      this.#minutes.set(atMs, minute);
      const [oldest] = this.#minutes.keys();
      if (oldest !== undefined && this.#minutes.size > maxMinutes) {
        this.#minutes.delete(oldest);
        this.#changed.delete(oldest);
      }
    }
    this.#changed.add(atMs);
    const models = child(minute, account, maxAccounts, () => new Map<string, Sums>());
    return child(models, model, maxModels, noRequests);
  }
}

/** The value of `key`, or that of "" once there are `max` others. */
function child<T>(of: Map<string, T>, key: string, max: number, make: () => T): T {
  const known = of.get(key);
  if (known) return known;
  if (key !== "" && of.size >= max) return child(of, "", max, make);
  const made = make();
  of.set(key, made);
  return made;
}

const noRequests = (): Sums => ({
  requests: 0,
  clientErrors: 0,
  serverErrors: 0,
  aborted: 0,
  inputTokens: 0,
  outputTokens: 0,
  firstMs: [],
  totalMs: [],
});

function rowsOf(atMs: number, minute: Minute): RequestRow[] {
  const rows = new Map<string, RequestRow & { readonly sums: Sums }>();
  for (const [account, models] of minute)
    for (const [model, sums] of models)
      for (const [ofAccount, ofModel] of new Map([
        [`${account}\0${model}`, [account, model] as const],
        [`${account}\0`, [account, ""] as const],
        [`\0${model}`, ["", model] as const],
        ["\0", ["", ""] as const],
      ]).values()) {
        const key = `${ofAccount}\0${ofModel}`;
        let row = rows.get(key);
        if (!row) {
          row = { atMs, account: ofAccount, model: ofModel, sums: noRequests() };
          rows.set(key, row);
        }
        add(row.sums, sums);
      }
  return [...rows.values()];
}

function add(to: Sums, from: Sums): void {
  for (const [name, value] of Object.entries(from) as [keyof Sums, number | number[]][])
    if (typeof value === "number") (to[name] as number) += value;
    else for (const [i, count] of value.entries()) (to[name] as number[])[i] = ((to[name] as number[])[i] ?? 0) + count;
}
