// Keeps requests of known accounts that ended with an error before a host had a usage record of them: a limit, an unknown model, an
// invalid body. They are noted in memory and written in groups, so a request never waits for it.
import type { Logger } from "pino";
import type { AccountId, KeyId, RequestId } from "../../proto/ids.ts";
import { background, repeat } from "../../proto/repeat.ts";

export interface Rejection {
  readonly id: RequestId;
  readonly account: AccountId;
  readonly key: KeyId | "";
  /** Unix ms of the request. */
  readonly atMs: number;
  /** As requested; empty: the request named none, or was not read. */
  readonly model: string;
  /** Pattern of the path. */
  readonly route: string;
  readonly status: number;
  /** Code of the error. */
  readonly code: string;
  /** The client's own id. */
  readonly label: string | null;
  /** Number of later ones of the same account, minute and code that are not kept. */
  readonly otherCount: number;
}

export interface RejectionFilter {
  /** Unix ms of the request, inclusive. */
  readonly fromMs: number;
  /** Exclusive. */
  readonly toMs: number;
  readonly model?: string | undefined;
  readonly key?: string | undefined;
  readonly code?: string | undefined;
}

export interface RejectionStore {
  /** Idempotent: a rejection that is known gets the new `otherCount`. */
  writeRejections(rejections: readonly Rejection[]): Promise<void>;
  /** Those without a usage record, newest first. Undefined: no rejection has the id `after`. Throws ReportTooLong. */
  rejections(
    account: AccountId,
    filter: RejectionFilter,
    after: string | undefined,
    limit: number,
  ): Promise<readonly Rejection[] | undefined>;
  /** By its id or the client's own. */
  rejection(id: string, account: AccountId): Promise<Rejection | undefined>;
}

/** Kept of an account, minute and code in each control plane. */
const maxPerCode = 5;
/** Kept of an account and minute, beside the first of each code. */
const maxPerAccount = 20;
/** Kept of all accounts and a minute, and waiting for the database. */
const maxKept = 5_000;
const minuteMs = 60_000;
const writeEveryMs = 5_000;

type Noted = { -readonly [K in keyof Rejection]: Rejection[K] };

export class RejectionNotes {
  readonly #unixMs: () => number;
  #minute = 0;
  /** Of this minute. */
  #kept = 0;
  #accounts = new Map<AccountId, { kept: number; readonly codes: Map<string, { kept: number; last: Noted }> }>();
  /** To be written. */
  #changed = new Set<Noted>();

  constructor(unixMs: () => number = Date.now) {
    this.#unixMs = unixMs;
  }

  note(one: Omit<Rejection, "otherCount">): void {
    const minute = Math.floor(this.#unixMs() / minuteMs);
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#kept = 0;
      this.#accounts = new Map();
    }
    let account = this.#accounts.get(one.account);
    const code = account?.codes.get(one.code);
    if (account && code && (code.kept >= maxPerCode || account.kept >= maxPerAccount)) {
      code.last.otherCount += 1;
      if (this.#changed.size < maxKept) this.#changed.add(code.last);
      return;
    }
    if (this.#kept >= maxKept || this.#changed.size >= maxKept) return;
    const noted: Noted = { ...one, otherCount: 0 };
    if (!account) {
      account = { kept: 0, codes: new Map() };
      this.#accounts.set(one.account, account);
    }
    account.kept += 1;
    account.codes.set(one.code, { kept: (code?.kept ?? 0) + 1, last: noted });
    this.#kept += 1;
    this.#changed.add(noted);
  }

  /** Rejections that are new or changed since the last call. */
  take(): readonly Rejection[] {
    const changed = [...this.#changed];
    this.#changed = new Set();
    return changed;
  }

  /** For rejections of `take` that could not be written. */
  again(rejections: readonly Rejection[]): void {
    for (const one of rejections) if (this.#changed.size < maxKept) this.#changed.add(one);
  }
}

export interface Rejections {
  note(one: Omit<Rejection, "otherCount">): void;
  start(): void;
  /** Writes what was noted since the last time. */
  stop(): Promise<void>;
}

export function createRejections(deps: {
  readonly store: Pick<RejectionStore, "writeRejections">;
  readonly log: Logger;
  readonly writeEveryMs?: number;
}): Rejections {
  const notes = new RejectionNotes();
  let isUnavailable = false;

  async function write(): Promise<void> {
    const taken = notes.take();
    if (taken.length === 0) return;
    try {
      await deps.store.writeRejections(taken);
      isUnavailable = false;
    } catch (error) {
      notes.again(taken);
      if (!isUnavailable) deps.log.warn({ err: error }, "could not write rejected requests; will retry");
      isUnavailable = true;
    }
  }

  const loop = background((signal) => repeat(deps.writeEveryMs ?? writeEveryMs, signal, write));
  return {
    note: (one) => notes.note(one),
    start: loop.start,
    async stop() {
      await loop.stop();
      await write();
    },
  };
}
