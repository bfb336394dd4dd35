// Runs the request of a resumable stream. Belongs to no connection: clients come and go while it runs.
import { setTimeout as wait } from "node:timers/promises";
import { payloadOf } from "../../../../proto/sse-frames.ts";
import type { Caller } from "../../../accounts/caller.ts";
import type { Spine } from "../../../inference/complete.ts";
import type { Completion, Trace } from "../../../inference/completion.ts";
import { upstreamBroken } from "../../../inference/errors.ts";
import { Stitch } from "../../../inference/stitch.ts";
import { ServiceError } from "../../../service-error.ts";
import type { StreamRun } from "../../../streams/stream-run.ts";
import { completeInstead, type Relayed } from "../relayed.ts";
import { JournalSink } from "./journal-sink.ts";

/** Repetitions within one run, and the pause before each: an agent or a model server takes seconds to start again. */
const pausesMs = [250, 1_000, 3_000, 5_000];
const transient: ReadonlySet<ServiceError["kind"]> = new Set(["unavailable", "upstream_failed", "rate_limited"]);

export interface StreamJob {
  readonly spine: Spine;
  readonly caller: Caller;
  readonly completion: Completion;
  readonly insteadOf: Relayed["insteadOf"];
  readonly writer: StreamRun;
  /** Events of the runs before. */
  readonly sent: readonly Buffer[];
  /** A trace whose first attempt has this number. Attempts of a request are paid once, by the last one. */
  readonly traceFrom: (attempt: number) => Trace;
  /** Called before the end is known to readers. `error` undefined: it succeeded. */
  readonly ended: (trace: Trace, error?: unknown) => void;
}

/** Attempts of different runs have different numbers. */
const attemptsOfRun = 100;

/** Ends the writer. Rejects only with DatabaseUnavailable: another run then takes over. */
export async function runStream(job: StreamJob): Promise<void> {
  const { spine, caller, completion, writer, ended } = job;
  let sent = job.sent;
  let attempts = (writer.number - 1) * attemptsOfRun;
  for (const pauseMs of [...pausesMs, undefined]) {
    const trace = job.traceFrom(attempts);
    const sink = new JournalSink(writer, sent.length === 0 ? undefined : new Stitch(eventsOf(sent)));
    let error: unknown;
    try {
      await completeInstead(spine, caller, completion, sink, trace, job.insteadOf);
      sink.flush();
      if (sink.brokenBy !== undefined) error = upstreamBroken({ cause: new Error(sink.brokenBy) });
    } catch (failure) {
      error = failure;
    }
    if (sink.hasDiverged) {
      ended(trace, error);
      return writer.fail("diverged");
    }
    if (writer.ending) return ended(trace, writer.ending);
    if (error === undefined) {
      ended(trace);
      return writer.end();
    }
    if (writer.isEmpty) {
      ended(trace, error);
      return writer.abandon(error);
    }
    if (pauseMs === undefined || !isTransient(error)) {
      ended(trace, error);
      return writer.release(error);
    }
    await wait(pauseMs);
    attempts = trace.attempts;
    sent = await writer.pieces();
  }
}

const isTransient = (error: unknown): boolean => error instanceof ServiceError && transient.has(error.kind);

function* eventsOf(pieces: readonly Buffer[]): Generator<string> {
  for (const piece of pieces)
    for (const frame of piece.toString().split("\n\n")) {
      const payload = payloadOf(Buffer.from(frame));
      if (payload) yield payload.toString();
    }
}
