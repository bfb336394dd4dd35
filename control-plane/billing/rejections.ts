// Keeps requests of known accounts that ended with an error before a host had a usage record of them: a limit, an unknown model, an
// invalid body. They are noted in memory and written in groups, so a request never waits for it.
import type { Logger } from "pino";
import type { AccountId, KeyId, RequestId } from "../../proto/ids.ts";
import { background, repeat } from "../../proto/repeat.ts";
import { isInternalError, isOutage, maxInternalErrors } from "./database-failure.ts";
import { writeApart } from "./write-apart.ts";

export interface Rejection {
  readonly id: RequestId;
  readonly account: AccountId;
  readonly key: KeyId | "";
  /** Unix ms of the request. */
  readonly atMs: number;
  /** As requested, at most 256 characters; empty: the request named none, or was not read, or its text has not the form of a name. */
  readonly model: string;
  /** Pattern of the path. */
  readonly route: string;
  readonly status: number;
  /** Code of the error. */
  readonly code: string;
  /** The client's own id. */
  readonly label: string | null;
  /** Number of later ones of the same account, minute and code that are not kept. Those beyond the limits of a day or of all accounts are not counted. */
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
  /** Idempotent: a rejection that is known gets the new `otherCount`. Those of deleted accounts are left out. */
  writeRejections(rejections: readonly Rejection[]): Promise<void>;
  /** Those without a usage record, newest first; without an account, of all. Undefined: no rejection has the id `after`. Throws ReportTooLong. */
  rejections(
    account: AccountId | undefined,
    filter: RejectionFilter,
    after: string | undefined,
    limit: number,
  ): Promise<readonly Rejection[] | undefined>;
  /** By its id; with an account, also by the client's own id. */
  rejection(id: string, account: AccountId | undefined): Promise<Rejection | undefined>;
}

/** Kept of an account, minute and code in each control plane. */
const maxPerCode = 5;
/** Kept of an account and minute, beside the first of each code. */
const maxPerAccount = 20;
/** Kept of an account, code and UTC day before only the first of each minute is: an hour of `maxPerCode`. */
const maxPerCodeBefore = 300;
/** Kept of an account and UTC day in each control plane: more than one code has all day. */
const maxPerDay = 2_000;
/** Kept of all accounts and a minute, and waiting for the database. */
const maxKept = 5_000;
const minuteMs = 60_000;
const minutesPerDay = 1_440;
const writeEveryMs = 5_000;

/** Names of models, their versions and adapters. Other texts, such as a prompt in the wrong field, are not kept. */
const nameForm = /^[\w@][\w./:@+-]{0,255}$/;

function keptName(model: string): string {
  const name = model.slice(0, 256);
  // A copy: a slice would keep the whole text of the request in memory.
  return nameForm.test(name) ? Buffer.from(name, "latin1").toString("latin1") : "";
}

type Noted = { -readonly [K in keyof Rejection]: Rejection[K] };

export class RejectionNotes {
  readonly #unixMs: () => number;
  #minute = 0;
  /** Rejections kept in this minute. */
  #kept = 0;
  #accounts = new Map<AccountId, { kept: number; readonly codes: Map<string, { kept: number; last: Noted }> }>();
  /** Number kept of this day, by account and by its codes. */
  #days = new Map<AccountId, { kept: number; readonly codes: Map<string, number> }>();
  /** To be written. */
  #changed = new Set<Noted>();

  constructor(unixMs: () => number = Date.now) {
    this.#unixMs = unixMs;
  }

  note(one: Omit<Rejection, "otherCount">): void {
    const minute = Math.floor(this.#unixMs() / minuteMs);
    if (minute !== this.#minute) {
      if (Math.floor(minute / minutesPerDay) !== Math.floor(this.#minute / minutesPerDay)) this.#days = new Map();
      this.#minute = minute;
      this.#kept = 0;
      this.#accounts = new Map();
    }
    let account = this.#accounts.get(one.account);
    const code = account?.codes.get(one.code);
    const day = this.#days.get(one.account) ?? { kept: 0, codes: new Map<string, number>() };
    const ofCode = day.codes.get(one.code) ?? 0;
    const maxOfCode = ofCode < maxPerCodeBefore ? maxPerCode : 1;
    if (account && code && (code.kept >= maxOfCode || account.kept >= maxPerAccount)) {
      code.last.otherCount += 1;
      if (this.#changed.size < maxKept) this.#changed.add(code.last);
      return;
    }
    if (this.#kept >= maxKept || this.#changed.size >= maxKept || day.kept >= maxPerDay) return;
    const noted: Noted = { ...one, model: keptName(one.model), otherCount: 0 };
    if (!account) {
      account = { kept: 0, codes: new Map() };
      this.#accounts.set(one.account, account);
    }
    account.kept += 1;
    account.codes.set(one.code, { kept: (code?.kept ?? 0) + 1, last: noted });
    this.#kept += 1;
    day.kept += 1;
    day.codes.set(one.code, ofCode + 1);
    this.#days.set(one.account, day);
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
  /** Consecutive groups that failed with an internal error of PostgreSQL. */
  let internalErrors = 0;

  async function write(): Promise<void> {
    const taken = notes.take();
    if (taken.length === 0) return;
    const error = await attempt(taken);
    internalErrors = isInternalError(error) ? internalErrors + 1 : 0;
    const isWhole =
      error === undefined || isOutage(error) || (internalErrors > 0 && internalErrors < maxInternalErrors);
    const { failed, untried, outage } = isWhole
      ? { failed: [], untried: error === undefined ? [] : taken, outage: error }
      : await writeApart(taken, error, attempt);
    // A server that fails for all is not tried row by row each time.
    if (!isWhole) internalErrors = 0;
    // Where others of the group were written, a row is the cause of its internal error.
    const isFailing =
      failed.length + untried.length === taken.length && failed.some(([, failure]) => isInternalError(failure));
    const kept = isFailing ? failed.filter(([, failure]) => isInternalError(failure)).map(([one]) => one) : [];
    notes.again([...untried, ...kept]);
    const unavailable = outage ?? (isFailing ? error : undefined);
    if (unavailable !== undefined && !isUnavailable)
      deps.log.warn({ err: unavailable }, "could not write rejected requests; will retry");
    isUnavailable = unavailable !== undefined;
    const leftOut = failed.length - kept.length;
    if (leftOut > 0)
      deps.log.warn({ err: failed[0]?.[1], count: leftOut }, "the database refused rejected requests; left out");
  }

  /** Writes the group or returns why not. */
  const attempt = (group: readonly Rejection[]): Promise<unknown> =>
    deps.store.writeRejections(group).then(
      () => undefined,
      (error: unknown) => error,
    );

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
