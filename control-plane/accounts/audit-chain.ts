// Seals the audit log: rows are chained by hashes after their transactions, so that no audited action waits for another. One chain of
// the installation.
import {
  type AuditContent,
  auditFooter,
  auditHash,
  auditHeader,
  auditLine,
  auditStart,
  auditText,
} from "../../proto/audit-chain.ts";

export interface AuditLink {
  readonly seq: bigint;
  readonly hash: string;
}

export interface SealedRow extends AuditLink {
  readonly content: AuditContent;
}

/** Every method throws DatabaseUnavailable. */
export interface AuditChainStore {
  /**
   * Chains up to `limit` rows that are not yet: `link` gets their head and contents, and returns a link for each. Returns how many;
   * undefined: another process does it now.
   */
  seal(
    limit: number,
    link: (head: AuditLink, rows: readonly AuditContent[]) => readonly AuditLink[],
  ): Promise<number | undefined>;
  /** Sealed rows after `seq` and up to `last`, in their order. */
  rows(after: bigint, last: bigint, limit: number): Promise<readonly SealedRow[]>;
  /** The last sealed row up to `seq`, or before a time; undefined: of all. Row 0 with the starting hash if there is none. */
  linkAt(at?: { readonly seq: bigint } | { readonly sealedBeforeMs: number }): Promise<AuditLink>;
  /** Row that a receiver has everything up to; 0: nothing. */
  delivered(receiver: string): Promise<bigint>;
  /** Moves it on from `from`. */
  noteDelivered(receiver: string, from: bigint, to: bigint): Promise<void>;
}

export interface AuditRange {
  /** Rows after this one; default: from the first. */
  readonly after?: bigint | undefined;
  /** Rows that were sealed within these times; Unix ms. */
  readonly sinceMs?: number | undefined;
  readonly untilMs?: number | undefined;
  readonly limit: number;
}

const sealPage = 500;
const readPage = 500;
/** Pages that a request seals at most; a job seals the rest. */
const pagesOfRequest = 4;

export function createAuditChain({ store }: { readonly store: AuditChainStore }) {
  /** `hasMore`: there are further rows to seal. */
  async function sealPages(signal: AbortSignal | undefined, maxPages: number) {
    for (let page = 1, total = 0; ; page++) {
      const sealed = (await store.seal(sealPage, linksOf)) ?? 0;
      total += sealed;
      const isLast = sealed < sealPage;
      if (isLast || page >= maxPages || signal?.aborted) return { total, hasMore: !isLast };
    }
  }

  const seal = async (signal?: AbortSignal): Promise<number> =>
    (await sealPages(signal, Number.POSITIVE_INFINITY)).total;

  /** Lines of a file, page by page; ends early with `signal`. */
  async function* lines(
    first: AuditLink,
    last: AuditLink,
    hasMore: boolean,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<string> {
    yield auditHeader(first.seq, first.hash);
    let at = first;
    while (at.seq < last.seq) {
      signal?.throwIfAborted();
      const page = await store.rows(at.seq, last.seq, readPage);
      const end = page.at(-1);
      if (!end) break;
      yield page.map(({ seq, hash, content }) => auditLine(seq, hash, auditText(content))).join("");
      at = end;
    }
    yield auditFooter(at.seq, at.hash, hasMore);
  }

  return {
    seal,

    /**
     * Seals some thousand rows that are not yet, and returns the lines of a file. Its last one says whether the range has more rows:
     * in the chain, or still to be sealed.
     */
    async export(
      { after, sinceMs, untilMs, limit }: AuditRange,
      signal?: AbortSignal,
    ): Promise<AsyncGenerator<string>> {
      const { hasMore: isBehind } = await sealPages(signal, pagesOfRequest);
      signal?.throwIfAborted();
      const since = sinceMs === undefined ? undefined : await store.linkAt({ sealedBeforeMs: sinceMs });
      const from = after ?? 0n;
      const first = since && since.seq > from ? since : await store.linkAt({ seq: from });
      const end = await store.linkAt(untilMs === undefined ? undefined : { sealedBeforeMs: untilMs });
      const bounded = first.seq + BigInt(limit);
      const last = end.seq > bounded ? await store.linkAt({ seq: bounded }) : end;
      const until = last.seq < first.seq ? first : last;
      // Rows that are sealed later are not of a range that ended before.
      const hasUnsealed = isBehind && (untilMs === undefined || untilMs > Date.now());
      return lines(first, until, end.seq > until.seq || hasUnsealed, signal);
    },
  };
}

export type AuditChain = ReturnType<typeof createAuditChain>;

function linksOf(head: AuditLink, rows: readonly AuditContent[]): AuditLink[] {
  let { seq, hash } = head.seq === 0n ? { seq: 0n, hash: auditStart } : head;
  return rows.map((content) => {
    seq += 1n;
    hash = auditHash(hash, seq, auditText(content));
    return { seq, hash };
  });
}
