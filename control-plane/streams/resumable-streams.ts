// Streams that a client continues after a broken connection. One run writes a stream: the process that holds the claim of its
// idempotency key. Any control plane reads it, and continues it when its run has died. INVARIANT: events are sent after they were
// stored, so that a run that takes over knows everything a client may have seen.
import type { Logger } from "pino";
import { type RequestId, randomId } from "../../proto/ids.ts";
import { createAccountSlots } from "../account-slots.ts";
import type { DataKeys } from "../accounts/data-keys.ts";
import { InvalidApiKey } from "../accounts/errors.ts";
import { HourlyBytes } from "../accounts/hourly-bytes.ts";
import type { KeyedRequest } from "../accounts/idempotency.ts";
import { answerNotKept, idempotencyKeyInUse, idempotencyKeyReused } from "../accounts/token-errors.ts";
import { streamGone, streamsFull } from "./errors.ts";
import { PieceQueue } from "./piece-queue.ts";
import { PieceSeal, readAll } from "./piece-seal.ts";
import type { StreamRow, StreamStore } from "./store.ts";
import { StreamReader } from "./stream-reader.ts";
import { type StreamLimits, StreamRun } from "./stream-run.ts";

type StreamRequest = Omit<KeyedRequest, "isPaid">;

export interface BegunStream {
  readonly stream: StreamRow;
  readonly reader: StreamReader;
  /** Set: the caller runs the request, and these are the events of the runs before. */
  readonly run: { readonly writer: StreamRun; readonly sent: readonly Buffer[] } | undefined;
}

const defaultLimits: StreamLimits = {
  lockMs: 10_000,
  keepMs: 60 * 60_000,
  awayMs: 60_000,
  maxBytes: 16 * 1024 * 1024,
  maxPieces: 100_000,
};
/** Each run costs a host the whole response again. */
const maxRuns = 10;
/** Clients of one account at a time. Those of streams that run elsewhere read the database twice a second. */
const maxClients = 100;

export function createResumableStreams(deps: {
  readonly store: StreamStore;
  readonly dataKeys: DataKeys;
  readonly log: Logger;
  readonly limits?: Partial<StreamLimits>;
}) {
  const { store, dataKeys } = deps;
  const limits = { ...defaultLimits, ...deps.limits };
  const [written, read] = [new HourlyBytes(), new HourlyBytes()];
  const queue = new PieceQueue(store, deps.log, limits.lockMs);
  const runs = new Map<RequestId, StreamRun>();
  const clients = createAccountSlots({
    total: Number.POSITIVE_INFINITY,
    perAccount: maxClients,
    waitMs: 0,
    busy: streamsFull,
  });
  return {
    /** One client's requests, while it reads. Throws streamsFull. */
    clients,

    /**
     * Begins or continues a stream. `id`: of a new one. `isContinued`: the client has events of it. Close the reader. Throws
     * idempotencyKeyReused, idempotencyKeyInUse, answerNotKept, streamGone, streamsFull, DatabaseUnavailable.
     */
    async begin(
      { account, route, key, bodyHash }: StreamRequest,
      id: RequestId,
      isContinued: boolean,
    ): Promise<BegunStream> {
      const dek = await dataKeys.of(account);
      if (!dek) throw new InvalidApiKey();
      const claim = { account, route, key, claim: randomId(16) };
      const { lockMs, keepMs } = limits;
      const outcome = await store.claim({ ...claim, id, bodyHash, lockMs, keepMs });
      if (outcome.kind === "other_request") throw idempotencyKeyReused();
      if (outcome.kind === "plain") throw outcome.hasEnded ? answerNotKept() : idempotencyKeyInUse(1);
      const { stream } = outcome;
      const seal = new PieceSeal(dek, claim, stream.id);
      const mayRead = (bytes: number) => read.takes(account, bytes);
      const readerOf = (run: StreamRun | undefined) => new StreamReader({ store, seal, id: stream.id, run, mayRead });
      if (outcome.kind === "known") return { stream, reader: readerOf(runs.get(stream.id)), run: undefined };
      const isNew = outcome.run === 1;
      if (isNew && (isContinued || !written.takes(account, 1))) {
        await store.abandon(claim);
        throw isContinued ? streamGone() : streamsFull();
      }
      const before = await readAll(store, seal, stream.id).catch(async (error: unknown) => {
        await store.release(claim, false);
        throw error;
      });
      const writer: StreamRun = new StreamRun({
        store,
        queue,
        seal,
        claim,
        id: stream.id,
        number: outcome.run,
        before,
        hour: written,
        limits,
        log: deps.log,
        onOver: () => {
          if (runs.get(stream.id) === writer) runs.delete(stream.id);
        },
      });
      runs.set(stream.id, writer);
      const reader = readerOf(writer);
      const last = before.at(-1)?.kind ?? "events";
      // Its run died between the last piece and the end of the claim.
      if (last !== "events") await writer.end();
      else if (outcome.run > maxRuns) await writer.fail("broken");
      return { stream, reader, run: writer.ending ? undefined : { writer, sent: before.map(({ bytes }) => bytes) } };
    },

    /** Ends the runs here: the next requests continue their streams elsewhere. Clients have been disconnected before. */
    async stop(): Promise<void> {
      await Promise.all([...runs.values()].map((run) => run.release(new Error("the control plane stops"))));
    },
  };
}

export type ResumableStreams = ReturnType<typeof createResumableStreams>;
