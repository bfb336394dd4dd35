// Resumable streams without a database: held to the real store by test/conformance/resumable-streams.test.ts.

import type { NewPiece, StreamStore } from "../../control-plane/streams/store.ts";
import type { RequestId } from "../../proto/ids.ts";

interface Row {
  readonly id: RequestId;
  readonly bodyHash: Buffer;
  readonly startedAtMs: number;
  claim: string;
  lockedUntilMs: number;
  runs: number;
  hasEnded: boolean;
  readAtMs: number;
  readonly pieces: Buffer[];
}

/** Keeps everything, for ever. */
export function memoryStreams(): StreamStore {
  const rows = new Map<string, Row>();
  const nameOf = (of: { readonly account: string; readonly route: string; readonly key: string }) =>
    JSON.stringify([of.account, of.route, of.key]);
  const held = (of: Parameters<StreamStore["renew"]>[0]) => {
    const row = rows.get(nameOf(of));
    return row?.claim === of.claim ? row : undefined;
  };
  const streamOf = ({ id, startedAtMs }: Pick<Row, "id" | "startedAtMs">) => ({ id, startedAtMs });
  const byId = (id: RequestId) => [...rows.values()].find((row) => row.id === id);
  return {
    async claim({ id, bodyHash, lockMs, claim, ...of }) {
      const nowMs = performance.now();
      const row = rows.get(nameOf(of));
      if (!row) {
        const own = { id, bodyHash, startedAtMs: Date.now(), claim, lockedUntilMs: nowMs + lockMs, runs: 1 };
        rows.set(nameOf(of), { ...own, hasEnded: false, readAtMs: 0, pieces: [] });
        return { kind: "claimed", stream: streamOf(own), run: 1 };
      }
      if (!row.bodyHash.equals(bodyHash)) return { kind: "other_request" };
      if (row.hasEnded || row.lockedUntilMs > nowMs) return { kind: "known", stream: streamOf(row) };
      Object.assign(row, { claim, lockedUntilMs: nowMs + lockMs, runs: row.runs + 1 });
      return { kind: "claimed", stream: streamOf(row), run: row.runs };
    },
    async renew(claim, lockMs) {
      const row = held(claim);
      if (row) row.lockedUntilMs = performance.now() + lockMs;
    },
    async release(claim) {
      const row = held(claim);
      if (row) row.lockedUntilMs = performance.now();
    },
    async abandon(claim) {
      if (held(claim)) rows.delete(nameOf(claim));
    },
    async end(claim) {
      const row = held(claim);
      if (row) row.hasEnded = true;
    },
    async append(pieces) {
      const lost = new Set<RequestId>();
      for (const { id, claim, seq, sealed } of pieces as readonly NewPiece[]) {
        const row = byId(id);
        if (row?.claim === claim) row.pieces[seq] = sealed;
        else lost.add(id);
      }
      return lost;
    },
    async read(id, from, limit) {
      const row = byId(id);
      if (!row) return { pieces: [], hasEnded: true, lockedMs: 0 };
      const lockedMs = row.lockedUntilMs - performance.now();
      return { pieces: row.pieces.slice(from, from + limit), hasEnded: row.hasEnded, lockedMs };
    },
    async noteReader(id) {
      const row = byId(id);
      if (row) row.readAtMs = performance.now();
    },
    async wasReadWithin(id, ms) {
      const row = byId(id);
      return row !== undefined && row.readAtMs > 0 && performance.now() - row.readAtMs < ms;
    },
  };
}
