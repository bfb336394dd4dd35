// Sends the sealed audit log to receivers outside of this installation: write access to the database does not reach those copies.
import type { Logger } from "pino";
import { auditFooter, auditHeader, auditLine, auditText } from "../../proto/audit-chain.ts";
import type { AuditChainStore, SealedRow } from "./audit-chain.ts";

export interface AuditReceiver {
  /** Kept with its progress and logged, so without secrets: a receiver with another name gets everything. */
  readonly name: string;
  /** Throws if it may not have arrived; the same rows are sent again then, perhaps with more. */
  send(
    rows: { readonly first: bigint; readonly last: bigint; readonly body: Buffer },
    signal: AbortSignal,
  ): Promise<void>;
}

/** Rows that are read at once: an entry may have 100 KB. */
const maxRows = 100;
/** Lines of one body; a single longer line is sent alone. */
const maxBodyBytes = 1024 * 1024;
/** Bodies of a run: a new receiver gets the past in several. */
const maxBodies = 200;

export function createAuditDelivery(deps: {
  readonly store: Pick<AuditChainStore, "rows" | "linkAt" | "delivered" | "noteDelivered">;
  readonly receivers: readonly AuditReceiver[];
  readonly log: Logger;
}) {
  const { store, log } = deps;

  async function deliver(receiver: AuditReceiver, signal: AbortSignal): Promise<void> {
    for (let count = 0; count < maxBodies && !signal.aborted; count++) {
      const from = await store.delivered(receiver.name);
      const [before, end] = await Promise.all([store.linkAt({ seq: from }), store.linkAt()]);
      const page = await store.rows(from, end.seq, maxRows);
      const { rows, lines } = firstLines(page);
      const [first, last] = [rows[0], rows.at(-1)];
      if (!first || !last) return;
      const body = Buffer.from(`${auditHeader(before.seq, before.hash)}${lines}${auditFooter(last.seq, last.hash)}`);
      await receiver.send({ first: first.seq, last: last.seq, body }, signal);
      await store.noteDelivered(receiver.name, from, last.seq);
    }
  }

  return {
    /** One receiver that fails delays no other; the next run tries again. */
    async run(signal: AbortSignal): Promise<void> {
      const ends = await Promise.allSettled(deps.receivers.map((receiver) => deliver(receiver, signal)));
      const failed = ends.flatMap((end, n) =>
        end.status === "rejected" ? [{ receiver: deps.receivers[n]?.name, err: end.reason as unknown }] : [],
      );
      for (const facts of failed) log.warn(facts, "could not deliver the audit log; will retry");
      if (failed[0]) throw failed[0].err;
    },
  };
}

/** The first rows of `page` that fit into a body; at least one. */
function firstLines(page: readonly SealedRow[]): { readonly rows: readonly SealedRow[]; readonly lines: string } {
  let [lines, bytes, count] = ["", 0, 0];
  for (const { seq, hash, content } of page) {
    const line = auditLine(seq, hash, auditText(content));
    bytes += Buffer.byteLength(line);
    if (count > 0 && bytes > maxBodyBytes) break;
    lines += line;
    count += 1;
  }
  return { rows: page.slice(0, count), lines };
}
