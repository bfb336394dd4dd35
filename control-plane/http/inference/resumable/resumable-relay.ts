// Serves a stream that its client continues after a broken connection: the same request with the same `Idempotency-Key`, and the id of
// the last event that arrived in `Last-Event-ID`.
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { Caller } from "../../../accounts/caller.ts";
import type { AnswerSink } from "../../../inference/answer-sink.ts";
import { backgroundTrace } from "../../../inference/background-trace.ts";
import { type ByteBudget, HeldBytes } from "../../../inference/byte-budget.ts";
import type { Spine } from "../../../inference/complete.ts";
import type { Trace } from "../../../inference/completion.ts";
import type { RequestTally } from "../../../series/request-tally.ts";
import { lastEventInvalid, notResumable, streamKeyMissing } from "../../../streams/errors.ts";
import type { BegunStream, ResumableStreams } from "../../../streams/resumable-streams.ts";
import type { StreamReader } from "../../../streams/stream-reader.ts";
import type { RequestState } from "../../core/request-state.ts";
import { bodiesFull } from "../../errors/errors.ts";
import { isKeyed, type KeyedInput, keyedRequest } from "../idempotency.ts";
import { noteBackground } from "../note-background.ts";
import { answerError, type Relayed, type Reply, streamErrorOf } from "../relayed.ts";
import { NumberedSink } from "./numbered-sink.ts";
import { runStream } from "./run-stream.ts";

const keepAliveMs = 15_000;
/** Shorter than the time after which a run without clients ends. */
const stalledMs = 45_000;
const keepAlive = Buffer.from(": keep-alive\n\n");

export interface ResumableDeps {
  readonly streams: ResumableStreams;
  readonly bodies: ByteBudget;
  readonly tally: Pick<RequestTally, "note">;
}

/** The first request has `X-Stoker-Resumable: true`; one that continues may leave it out. */
export const isResumable = ({ headers }: KeyedInput): boolean =>
  (headers["x-stoker-resumable"] ?? "false") !== "false" || headers["last-event-id"] !== undefined;

type Read = () => Relayed | Reply | Promise<Relayed | Reply>;

/** Never rejects: every error is sent as a response. */
export async function relayResumable(
  spine: Spine,
  deps: ResumableDeps,
  request: KeyedInput & { readonly body: unknown },
  state: RequestState,
  res: ServerResponse,
  read: Read,
): Promise<void> {
  let client: NumberedSink | undefined;
  let known: Relayed | undefined;
  try {
    const after = lastEvent(request.headers);
    if (!isKeyed(request)) throw streamKeyMissing();
    if (isStored(request.body)) throw notResumable();
    const keyed = keyedRequest(`${state.meter.method} ${state.meter.route}`, request, state.caller as Caller);
    await deps.streams.clients.run(keyed.account, async () => {
      let begun = await deps.streams.begin(keyed, state.requestId, after > 0);
      // One id for all requests of a stream: the names in its events, its attempts and its usage have it.
      state.continues(begun.stream);
      known = await resumableOf(read, begun);
      client = new NumberedSink(res, state, after);
      const feed = new Feed(client, known.through?.(client) ?? client, state);
      for (;;) {
        const trace = begun.run && start(spine, deps, known, begun.run, state);
        const { reader } = begun;
        const isWhole = await feed.readFrom(reader, trace).finally(() => reader.close());
        if (isWhole) return;
        begun = await deps.streams.begin(keyed, state.requestId, true);
      }
    });
  } catch (error) {
    answerError(error, client ?? new NumberedSink(res, state, 0), state, res, streamErrorOf(known));
  }
}

/** Responses that are stored, or run in the background, are read by their id. */
const isStored = (body: unknown): boolean => {
  const { store, background } = (body ?? {}) as { readonly store?: unknown; readonly background?: unknown };
  return store === true || background === true;
};

/** Throws as `read`, and notResumable: nothing has run then. */
async function resumableOf(read: Read, { run, reader }: BegunStream): Promise<Relayed> {
  try {
    const known = await read();
    if (!("completion" in known) || !known.completion.stream || known.completion.task) throw notResumable();
    return known;
  } catch (error) {
    reader.close();
    await run?.writer.withdraw(error);
    throw error;
  }
}

/** Starts a run, which goes on without this connection. Returns the trace of its last try. */
function start(
  spine: Spine,
  { bodies, tally }: ResumableDeps,
  { completion, insteadOf }: Relayed,
  { writer, sent }: NonNullable<BegunStream["run"]>,
  state: RequestState,
): () => Trace | undefined {
  const caller = state.caller as Caller;
  const { requestId, label, source, admittedAtMs, bodyBytes, account, key, span, address, userHeader } = state;
  const held = new HeldBytes(bodies, caller.account);
  let current: Trace | undefined;
  const traceFrom = (attempts: number): Trace => {
    const known = { requestId, label, source, admittedAtMs, bodyBytes, account, key, span, attempts };
    const isCountedForKey = current !== undefined || writer.number > 1;
    const own = { address, userHeader, isCountedForKey, operation: completion.kind, isStream: true };
    current = { ...backgroundTrace(known), ...own };
    return current;
  };
  const ended = (trace: Trace, error?: unknown): void => {
    // A client that is still there has its own line and count.
    if (state.isClosed) noteBackground(tally, caller.account, { ...trace, span: undefined }, error);
    else state.shows(trace);
  };
  if (held.hold(bodyBytes)) {
    const job = { spine, caller, completion, insteadOf, writer, sent, traceFrom, ended };
    void runStream(job)
      .catch((error: unknown) => writer.release(error))
      .finally(() => held.letGo());
  } else void writer.withdraw(bodiesFull());
  return () => current;
}

/** One client's copy of a stream: events of any number of runs, in order. */
class Feed {
  readonly #client: NumberedSink;
  readonly #sink: AnswerSink;
  readonly #state: RequestState;
  #position = 0;
  #isStalled = false;
  #goOn = () => {};
  #dropped: unknown;

  constructor(client: NumberedSink, sink: AnswerSink, state: RequestState) {
    this.#client = client;
    this.#sink = sink;
    this.#state = state;
  }

  /**
   * Returns true when the stream or the client has ended, false when the run must be continued. `traceOf`: of the run, if it is here, for
   * the headers of the response.
   */
  async readFrom(reader: StreamReader, traceOf: (() => Trace | undefined) | undefined): Promise<boolean> {
    this.#listen(reader);
    for (;;) {
      const part = await reader.read(this.#position, keepAliveMs);
      if (this.#dropped !== undefined) throw this.#dropped;
      if (this.#state.isClosed) return true;
      if (part.kind === "orphaned") return false;
      if (part.kind === "ended") {
        this.#sink.end();
        await this.#sink.sent;
        return true;
      }
      if (part.pieces.length === 0) this.#client.write(keepAlive);
      const trace = this.#client.hasStarted ? undefined : traceOf?.();
      if (trace) this.#state.announces(trace);
      for (const piece of part.pieces) {
        this.#position += 1;
        this.#sink.write(piece);
        // Each piece by itself: clients that read it at other times must count the same events.
        this.#client.flush();
        if (this.#isStalled) await this.#drained();
        if (this.#state.isClosed) return true;
      }
    }
  }

  #listen(reader: StreamReader): void {
    this.#sink.listener = {
      clientGone: () => {
        reader.close();
        this.#goOn();
      },
      dropped: (why) => {
        this.#dropped = why;
        reader.close();
      },
      stalled: () => {
        this.#isStalled = true;
      },
      drained: () => {
        this.#isStalled = false;
        this.#goOn();
      },
    };
  }

  /** Disconnects a client that does not read. */
  #drained(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#client.abandon(), stalledMs);
      this.#goOn = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** 0: none. Throws lastEventInvalid. */
function lastEvent(headers: IncomingHttpHeaders): number {
  const id = headers["last-event-id"] ?? "0";
  if (typeof id !== "string" || !/^\d{1,9}$/.test(id)) throw lastEventInvalid();
  return Number(id);
}
