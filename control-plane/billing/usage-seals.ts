// Seals settled usage in a chain per account and month, signs a statement when a month is closed, and writes the file that a customer
// verifies. Settlements do not wait for it. docs/adr/0023-usage-is-sealed-by-account-and-month.md
import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import {
  correctionFields,
  digestBytes,
  digestOf,
  type InvoicePublicKey,
  invoiceFileType,
  invoiceFileVersion,
  itemLine,
  linesHash,
  type RateLine,
  RatesHash,
  recordFields,
  type SegmentFacts,
  segmentHash,
  segmentItems,
  signedTexts,
} from "../../proto/invoice-file.ts";
import { adapterPercent } from "../../proto/price-rules.ts";
import { notFound, rateLimited, unavailable } from "../service-error.ts";
import { type Clock, systemClock } from "./clock.ts";
import { isOutage, OutageStreak } from "./database-failure.ts";
import type { InvoiceKeys } from "./invoice-keys.ts";
import { type Month, monthName, monthOf } from "./period.ts";

interface SealedSegment extends Omit<SegmentFacts, "account" | "month" | "digestsHash"> {
  /** SHA-256 of each record, then of each correction. */
  readonly digests: Buffer;
  readonly hash: string;
  readonly keyVersion: number;
  readonly signature: string;
}

/** The next segment of a chain, before it is signed. */
export interface NewSegment extends Omit<SegmentFacts, "account" | "month"> {
  readonly previous: string;
}

/** `more`: there is enough for another segment; `done`: everything up to a minute ago is sealed; `busy`: another process seals it. */
type SealOutcome = "more" | "done" | "busy";

interface ClosedMonth {
  /** Null: nothing was to pay. */
  readonly invoice: string | null;
  readonly total: bigint;
  readonly lines: readonly ClosedLine[];
}

interface ClosedLine {
  readonly key: string;
  readonly model: string;
  readonly pricingType: string;
  readonly priceVersion: bigint | null;
  readonly discountId: string | null;
  readonly milliUnits: bigint;
  readonly cost: bigint;
}

interface Statement {
  readonly text: string;
  readonly keyVersion: number;
  readonly signature: string;
}

interface Chain {
  readonly segments: number;
  readonly records: number;
  readonly corrections: number;
  readonly charged: bigint;
  /** Hash of the last segment. */
  readonly head: string;
  /** Time up to which usage is sealed, in microseconds since 1970; 0: there is no segment. */
  readonly throughUs: number;
}

type NamedRow = Readonly<Record<string, string | number | undefined>>;

/** Rows that the records of a month name, with texts and amounts as the file has them. */
interface NamedPrices {
  readonly prices: readonly NamedRow[];
  /** Models that are billed by the price of another one, which they adapt. */
  readonly adapters: readonly NamedRow[];
  readonly discounts: readonly NamedRow[];
}

/** Lines of the file that name rates, and their hash. */
interface Rates {
  readonly lines: readonly string[];
  readonly hash: string;
}

/** End of a file. `differs`: the month is closed, and its sealed records do not add up to its invoice. */
type End =
  | { readonly kind: "stated"; readonly statement: Statement }
  | { readonly kind: "open" }
  | { readonly kind: "differs"; readonly closed: ClosedMonth };

export interface SegmentItems {
  /** Retention may have removed records of the segment. */
  readonly hasExpired: boolean;
  readonly records: readonly { readonly text: string; readonly isCorrected: boolean }[];
  readonly corrections: readonly string[];
}

/** Corrections of an account, read once for a file. */
export interface Corrected {
  /** Time of the last ones; a segment's records are read with the later ones. */
  readonly through: string;
  /** Their sum of each attempt, by a name of the store. */
  readonly amounts: ReadonlyMap<string, bigint>;
}

/** Accounts of a page of all accounts that match. */
export interface AccountPage {
  readonly accounts: readonly AccountId[];
  /** The page after it begins after this account; undefined: it was empty. */
  readonly last: AccountId | undefined;
}

/** Every method throws DatabaseUnavailable. */
export interface UsageSealStore {
  /**
   * Accounts with about `items` records of the month that are not sealed, or with one that is older than `oldAfterMs`. Reads `limit` accounts
   * by id after `after`.
   */
  due(month: Month, items: number, oldAfterMs: number, after: string, limit: number): Promise<AccountPage>;
  /** Accounts with usage in the month and without a statement of it. Reads `limit` accounts by id after `after`. */
  withoutStatement(month: Month, after: string, limit: number): Promise<AccountPage>;
  /**
   * Appends one segment of at most about `items` records and as many corrections, which `seal` signs. It is in the database whole and after its
   * predecessor, or not at all.
   */
  append(
    account: AccountId,
    month: Month,
    items: number,
    seal: (segment: NewSegment) => Pick<SealedSegment, "hash" | "keyVersion" | "signature">,
  ): Promise<SealOutcome>;
  chain(account: AccountId, month: Month): Promise<Chain>;
  /** The last segment has fewer than `items` records and is younger than `ageMs`. */
  isFresh(account: AccountId, month: Month, items: number, ageMs: number): Promise<boolean>;
  /** Retention has removed records of the month that were not sealed. */
  isLost(account: AccountId, month: Month): Promise<boolean>;
  /** Undefined: the month is not closed. */
  closed(account: AccountId, month: Month): Promise<ClosedMonth | undefined>;
  statement(account: AccountId, month: Month): Promise<Statement | undefined>;
  addStatement(account: AccountId, month: Month, invoice: string | null, statement: Statement): Promise<void>;
  rates(account: AccountId, month: Month): Promise<NamedPrices>;
  segment(account: AccountId, month: Month, segment: number): Promise<SealedSegment | undefined>;
  /** Corrections since the start of the month that are all visible, in memory of some hundred bytes each. */
  corrected(account: AccountId, month: Month): Promise<Corrected>;
  /** Records and corrections of a segment as they are now. */
  items(account: AccountId, month: Month, segment: number, corrected: Corrected): Promise<SegmentItems>;
}

export const usageNotSealed = () =>
  unavailable("usage_not_sealed", "Usage of this month is still being sealed. Try again in some seconds.", {
    retryAfterSeconds: 2,
  });

export const usageExpired = () =>
  notFound("usage_expired", "Records of this month were removed before they were sealed, so it cannot be exported.");

export const exportRunning = () =>
  rateLimited("export_running", "Only one export of an account runs at a time, and few of a server. Try again later.", {
    retryAfterSeconds: 5,
  });

/** Exports that run at the same time in a process: each reads and hashes records beside the settlements. */
const maxExports = 4;
/** Minimum time between two segments that exports of the current month seal. Segments are never deleted. */
const exportAgeMs = 15 * 60_000;
/** Accounts and months whose difference was logged by this process. */
const maxLogged = 10_000;
/** Segments that a request makes at most; the next one continues. */
const segmentsOfRequest = 10;
/** Maximum of an account in one run of the job: others wait. */
const segmentsOfRun = 200;
/** Segments of few records are made once a day: each costs as much as some hundred records. */
const oldAfterMs = 24 * 3_600_000;
const page = 2_000;
/** Months before the current one whose statements are still made: the database may have been unavailable at the end of one. */
const pastMonths = 2;

export interface UsageSeals {
  /** Seals what was settled since the last run, and signs statements of closed months. Several control planes may run it. */
  run(signal: AbortSignal): Promise<void>;
  /**
   * Seals the account's month up to a minute ago, unless a segment of the current month was just made, and returns the lines of its file.
   * Ends early with `signal`. Throws usageNotSealed when there is more than a request may seal, usageExpired, and exportRunning.
   */
  export(account: AccountId, month: Month, signal?: AbortSignal): Promise<AsyncGenerator<string>>;
}

export function createUsageSeals(deps: {
  readonly store: UsageSealStore;
  readonly keys: InvoiceKeys;
  readonly log: Logger;
  readonly clock?: Clock;
  /** Records of a segment. */
  readonly items?: number;
  /** Minimum age of the last segment of a current month before an export makes another one. */
  readonly minAgeMs?: number;
}): UsageSeals {
  const { store, keys, log, items = segmentItems, minAgeMs = exportAgeMs } = deps;
  const clock = deps.clock ?? systemClock;
  const exporting = new Set<AccountId>();
  const logged = new Set<string>();
  /** Account at which outages ended the last run of this process, by month. The next run continues after it: the accounts may be the cause. */
  const stoppedAt = new Map<Month, string>();

  async function seal(account: AccountId, month: Month, maxSegments: number): Promise<SealOutcome> {
    const signer = await keys.newest();
    let outcome: SealOutcome = "more";
    for (let made = 0; outcome === "more" && made < maxSegments; made++)
      outcome = await store.append(account, month, items, (segment) => {
        const { previous, ...facts } = segment;
        const hash = segmentHash(previous, { ...facts, account, month: monthName(month) });
        return { hash, keyVersion: signer.version, signature: signer.sign(signedTexts.segment(hash)) };
      });
    return outcome;
  }

  async function ratesOf(account: AccountId, month: Month): Promise<Rates> {
    const named = await store.rates(account, month);
    const hash = new RatesHash(adapterPercent);
    const lineOf = (type: RateLine) => (row: NamedRow) => {
      hash.add(type, row);
      return jsonLine(type, row);
    };
    const lines = [
      ...named.prices.map(lineOf("price")),
      ...named.adapters.map(lineOf("adapter")),
      ...named.discounts.map(lineOf("discount")),
    ];
    return { lines, hash: hash.digest() };
  }

  /** Signs the statement of a closed month whose chain is complete, unless there is one. */
  async function signStatement(account: AccountId, month: Month): Promise<End> {
    const known = await store.statement(account, month);
    if (known) return { kind: "stated", statement: known };
    const closed = await store.closed(account, month);
    if (!closed) return { kind: "open" };
    const chain = await store.chain(account, month);
    if (chain.charged !== closed.total) {
      logDifference(account, month, chain, closed);
      return { kind: "differs", closed };
    }
    const signer = await keys.newest();
    const { hash } = await ratesOf(account, month);
    const text = statementText(account, month, closed, chain, hash);
    const statement = { text, keyVersion: signer.version, signature: signer.sign(signedTexts.statement(text)) };
    await store.addStatement(account, month, closed.invoice, statement);
    // Another control plane may have signed it at the same time.
    return { kind: "stated", statement: (await store.statement(account, month)) ?? statement };
  }

  /** Once for an account and month: customers may export it at any rate. */
  function logDifference(account: AccountId, month: Month, chain: Chain, closed: ClosedMonth): void {
    const name = `${account} ${month}`;
    if (logged.has(name) || logged.size >= maxLogged) return;
    logged.add(name);
    log.error(
      {
        alert: "usage_seal_differs",
        account,
        month: monthName(month),
        sealed: String(chain.charged),
        invoice: String(closed.total),
      },
      "the sealed usage of a month does not add up to its invoice",
    );
  }

  /** Seals for an export. A month with a statement is whole. */
  async function sealForExport(account: AccountId, month: Month): Promise<End> {
    const statement = await store.statement(account, month);
    if (statement) return { kind: "stated", statement };
    if (await store.isLost(account, month)) throw usageExpired();
    const isCurrent = month === monthOf(clock.unixMs());
    if (!isCurrent || minAgeMs === 0 || !(await store.isFresh(account, month, items, minAgeMs)))
      if ((await seal(account, month, segmentsOfRequest)) !== "done") throw usageNotSealed();
    return signStatement(account, month);
  }

  async function sealAccount(account: AccountId, month: Month, isPast: boolean, outages: OutageStreak): Promise<void> {
    try {
      const outcome = await seal(account, month, segmentsOfRun);
      if (isPast && outcome === "done") await signStatement(account, month);
      outages.succeeded();
    } catch (error) {
      // One account must not delay the others.
      if (isOutage(error)) outages.failed(error);
      log.error({ err: error, account, month: monthName(month) }, "could not seal usage; will retry");
    }
  }

  async function* lines(
    account: AccountId,
    month: Month,
    end: End,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<string> {
    // Others may append segments and add keys while this runs: the file ends where the chain ended before its keys and prices were read.
    const signer = await keys.newest();
    const chain = await store.chain(account, month);
    const exportedMs = clock.unixMs();
    yield jsonLine(invoiceFileType, {
      version: invoiceFileVersion,
      account,
      month: monthName(month),
      currency: "USD",
      amounts: "nano-USD: 1000000000 are one USD",
      adapter_percent: adapterPercent,
    });
    for (const key of await keys.list()) yield keyLine(key);
    const rates = await ratesOf(account, month);
    yield* rates.lines;
    const corrected = await store.corrected(account, month);
    for (let number = 1; number <= chain.segments; number++) {
      signal?.throwIfAborted();
      const segment = await store.segment(account, month, number);
      if (!segment) throw new Error(`no segment ${number}`);
      yield segmentLine(segment);
      yield itemLines(segment, await store.items(account, month, number, corrected));
    }
    if (end.kind !== "stated") {
      const text = openText(account, month, chain, rates.hash, exportedMs, end);
      yield jsonLine("open", { text, key: signer.version, signature: signer.sign(signedTexts.open(text)) });
      return;
    }
    const closed = await store.closed(account, month);
    for (const line of closed?.lines ?? []) yield `${lineText(line)}\n`;
    const { text, keyVersion, signature } = end.statement;
    yield jsonLine("statement", { text, key: keyVersion, signature });
  }

  return {
    async run(signal) {
      const now = monthOf(clock.unixMs());
      const outages = new OutageStreak();
      for (let month = now - pastMonths; month <= now; month++) {
        const isPast = month < now;
        const read = (after: string) =>
          isPast ? store.withoutStatement(month, after, page) : store.due(now, items, oldAfterMs, after, page);
        let last = stoppedAt.get(month) ?? "";
        stoppedAt.delete(month);
        for await (const account of inPages(read, last)) {
          if (signal.aborted) return;
          last = account;
          await sealAccount(account, month, isPast, outages).catch((error: unknown) => {
            stoppedAt.set(month, last);
            throw error;
          });
        }
      }
    },

    async export(account, month, signal) {
      if (exporting.has(account) || exporting.size >= maxExports) throw exportRunning();
      exporting.add(account);
      let isOver = false;
      // The signal also aborts after the export, when the next one of the account may run.
      const end = () => {
        if (!isOver) exporting.delete(account);
        isOver = true;
      };
      signal?.addEventListener("abort", end, { once: true });
      try {
        return endedBy(lines(account, month, await sealForExport(account, month), signal), end);
      } catch (error) {
        end();
        throw error;
      }
    },
  };
}

/** Calls `end` when the lines are finished, fail or are no longer read. The `finally` of a generator that never ran is not executed. */
function endedBy(lines: AsyncGenerator<string>, end: () => void): AsyncGenerator<string> {
  const step = async (result: Promise<IteratorResult<string>>, isLast: boolean): Promise<IteratorResult<string>> => {
    try {
      const { done } = await result;
      if (done || isLast) end();
    } catch (error) {
      end();
      throw error;
    }
    return result;
  };
  return {
    next: () => step(lines.next(), false),
    return: (value) => step(lines.return(value), true),
    throw: (error) => step(lines.throw(error), true),
    [Symbol.asyncIterator]() {
      return this;
    },
    async [Symbol.asyncDispose]() {
      await this.return(undefined);
    },
  };
}

async function* inPages(read: (after: string) => Promise<AccountPage>, first: string): AsyncGenerator<AccountId> {
  for (let after: string | undefined = first; after !== undefined; ) {
    const { accounts, last }: AccountPage = await read(after);
    yield* accounts;
    after = last;
  }
}

const jsonLine = (type: string, values: object): string => `${JSON.stringify({ type, ...values })}\n`;

const keyLine = ({ version, publicKey, createdUs, signature }: InvoicePublicKey): string =>
  jsonLine("key", { version, public_key: publicKey, created_us: createdUs, signature });

const segmentLine = ({
  segment,
  records,
  corrections,
  charged,
  throughUs,
  digests,
  hash,
  keyVersion,
  signature,
}: SealedSegment) =>
  jsonLine("segment", {
    segment,
    records,
    corrections,
    charged: String(charged),
    through_us: throughUs,
    hash,
    key: keyVersion,
    signature,
    digests: digests.toString("base64"),
  });

/**
 * Items in the places of their digests. Those that match none stand where one is missing, so that a reader names what was altered. Records
 * that retention may have removed are marked, so that the rest of the segment can be verified.
 */
function itemLines(
  { digests, records: count }: SealedSegment,
  { records, corrections, hasExpired }: SegmentItems,
): string {
  const lines = [
    ...records.map(({ text, isCorrected }) => ({ text, line: itemLine("record", recordFields, text, isCorrected) })),
    ...corrections.map((text) => ({ text, line: itemLine("correction", correctionFields, text) })),
  ].map(({ text, line }) => [digestOf(text).toString("latin1"), line] as const);
  const left = new Map(lines);
  const places = Array.from({ length: digests.length / digestBytes }, (_, place) => {
    const digest = digests.toString("latin1", place * digestBytes, (place + 1) * digestBytes);
    const line = left.get(digest);
    left.delete(digest);
    return line;
  });
  const unmatched = [...left.values()];
  const missing = (place: number): string => (hasExpired && place < count ? '{"type":"record","expired":true}\n' : "");
  const text = places.map((line, place) => line ?? unmatched.shift() ?? missing(place)).join("");
  return text + unmatched.join("");
}

function lineText({ key, model, pricingType, priceVersion, discountId, milliUnits, cost }: ClosedLine): string {
  return JSON.stringify({
    type: "line",
    key_id: key,
    model,
    ...(priceVersion === null ? {} : { price_version: String(priceVersion) }),
    ...(discountId === null ? {} : { discount_id: discountId }),
    pricing_type: pricingType,
    milli_units: String(milliUnits),
    cost: String(cost),
  });
}

/** Facts that every signed end of a file has. */
const chainFacts = (account: AccountId, month: Month, chain: Chain, rates: string) => ({
  account,
  month: monthName(month),
  segments: chain.segments,
  records: chain.records,
  corrections: chain.corrections,
  head: chain.head,
  rates,
});

const statementText = (
  account: AccountId,
  month: Month,
  { invoice, total, lines }: ClosedMonth,
  chain: Chain,
  rates: string,
): string =>
  JSON.stringify({
    ...chainFacts(account, month, chain, rates),
    ...(invoice === null ? {} : { invoice }),
    currency: "USD",
    total: String(total),
    lines: linesHash(lines.map(lineText)),
  });

const openText = (
  account: AccountId,
  month: Month,
  chain: Chain,
  rates: string,
  exportedMs: number,
  end: Exclude<End, { readonly kind: "stated" }>,
): string =>
  JSON.stringify({
    ...chainFacts(account, month, chain, rates),
    exported_us: Math.floor(exportedMs) * 1_000,
    through_us: chain.throughUs,
    closed: end.kind === "differs",
    ...(end.kind === "differs"
      ? { reason: "differs", invoice: end.closed.invoice ?? undefined, total: String(end.closed.total) }
      : {}),
  });
