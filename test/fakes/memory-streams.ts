// Resumable streams without a database: held to the real store by test/conformance/resumable-streams.test.ts.
import type { NewPiece, StreamStore } from "../../control-plane/streams/store.ts";
import type { RequestId } from "../../proto/ids.ts";

interface Row {
  readonly id: RequestId;
  readonly bodyHash: Buffer;
  readonly startedAtMs: number;
  claim: string;
  lockedUntilMs: number;
  expiresAtMs: number;
  runs: number;
  hasEnded: boolean;
  readAtMs: number;
  readonly pieces: Buffer[];
}

export function memoryStreams(): StreamStore {
  const rows = new Map<string, Row>();
  const nameOf = (of: { readonly account: string; readonly route: string; readonly key: string }) =>
    JSON.stringify([of.account, of.route, of.key]);
  const held = (of: Parameters<StreamStore["abandon"]>[0]) => {
    const row = rows.get(nameOf(of));
    return row?.claim === of.claim ? row : undefined;
  };
  const streamOf = ({ id, startedAtMs }: Row) => ({ id, startedAtMs });
  const byId = (id: RequestId) => [...rows.values()].find((row) => row.id === id);
  return {
    async claim({ id, bodyHash, lockMs, keepMs, claim, ...of }) {
      const nowMs = performance.now();
      const [lockedUntilMs, expiresAtMs] = [nowMs + lockMs, nowMs + keepMs];
      const old = rows.get(nameOf(of));
      const isExpired = old && old.expiresAtMs <= nowMs && (old.hasEnded || old.lockedUntilMs <= nowMs);
      if (!old || isExpired) {
        const facts = { id, bodyHash, startedAtMs: Date.now(), claim, lockedUntilMs, expiresAtMs };
        const own: Row = { ...facts, runs: 1, hasEnded: false, readAtMs: 0, pieces: [] };
        rows.set(nameOf(of), own);
        return { kind: "claimed", stream: streamOf(own), run: 1 };
      }
      if (!old.bodyHash.equals(bodyHash)) return { kind: "other_request" };
      if (old.hasEnded || old.lockedUntilMs > nowMs) return { kind: "known", stream: streamOf(old) };
      Object.assign(old, { claim, lockedUntilMs, expiresAtMs, runs: old.runs + 1 });
      return { kind: "claimed", stream: streamOf(old), run: old.runs };
    },
    async renew(claim, lockMs, keepMs) {
      const nowMs = performance.now();
      Object.assign(held(claim) ?? {}, { lockedUntilMs: nowMs + lockMs, expiresAtMs: nowMs + keepMs });
    },
    async release(claim, hasRun) {
      const row = held(claim);
      if (!row) return;
      row.lockedUntilMs = performance.now();
      row.runs -= hasRun ? 0 : 1;
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
        if (row?.claim === claim) row.pieces[seq] ??= sealed;
        else lost.add(id);
      }
      return lost;
    },
    async read(id, from) {
      const row = byId(id);
      if (!row) return undefined;
      const pieces: Buffer[] = [];
      for (let at = from; row.pieces[at]; at++) pieces.push(row.pieces[at] as Buffer);
      return { pieces, hasEnded: row.hasEnded, lockedMs: row.lockedUntilMs - performance.now() };
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
