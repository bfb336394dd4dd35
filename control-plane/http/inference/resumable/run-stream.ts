// Runs the request of a resumable stream. Belongs to no connection: clients come and go while it runs.
import { setTimeout as wait } from "node:timers/promises";
import type { Caller } from "../../../accounts/caller.ts";
import type { Spine } from "../../../inference/complete.ts";
import type { Completion, Trace } from "../../../inference/completion.ts";
import { upstreamBroken } from "../../../inference/errors.ts";
import { Stitch } from "../../../inference/stitch.ts";
import { ServiceError } from "../../../service-error.ts";
import { failureError } from "../../../streams/errors.ts";
import type { StreamRun } from "../../../streams/stream-run.ts";
import { completeInstead, type Relayed } from "../relayed.ts";
import { JournalSink } from "./journal-sink.ts";

/** Pauses before the tries after the first: an agent or a model server takes seconds to start again. */
const pausesMs = [250, 1_000, 3_000, 5_000];
/** The request itself may stop its servers: one run does not send it to a fourth. */
const maxBroken = 3;
const transient: ReadonlySet<ServiceError["kind"]> = new Set(["unavailable", "upstream_failed", "rate_limited"]);

export interface StreamJob {
  readonly spine: Spine;
  readonly caller: Caller;
  readonly completion: Completion;
  readonly insteadOf: Relayed["insteadOf"];
  readonly writer: StreamRun;
  /** Pieces of the runs before. */
  readonly sent: readonly Buffer[];
  /** A trace whose first attempt has this number. Attempts of a request are paid once, by the last one. */
  readonly traceFrom: (attempt: number) => Trace;
  /** Called at the end of the stream, or of this run of it. `error` undefined: it succeeded. */
  readonly ended: (trace: Trace, error?: unknown) => void;
}

/** Attempts of different runs have different numbers. */
const attemptsOfRun = 10_000;

/** Ends the writer. */
export async function runStream(job: StreamJob): Promise<void> {
  const { spine, completion, writer, ended } = job;
  let { caller, sent } = job;
  if (sent.length > 0 && !isRepeatable(completion)) return writer.fail("sampled");
  let attempts = (writer.number - 1) * attemptsOfRun;
  let brokenCount = 0;
  for (const pauseMs of [...pausesMs, undefined]) {
    const trace = job.traceFrom(attempts);
    const sink = new JournalSink(writer, sent.length === 0 ? undefined : new Stitch(eventsOf(sent)));
    let error: unknown;
    try {
      await completeInstead(spine, caller, completion, sink, trace, job.insteadOf);
      sink.flush();
      // A run that was stopped, without its stream being ended, is not whole.
      const cause = sink.brokenBy ?? (sink.isGone ? "its events could not be stored" : undefined);
      if (cause !== undefined) error = upstreamBroken({ cause: new Error(cause) });
    } catch (failure) {
      error = failure;
    }
    if (error === undefined && !sink.hasDiverged && !writer.isOver) {
      ended(trace);
      return writer.end();
    }
    if (sink.hasDiverged) await writer.fail("diverged");
    else if (trace.firstByteAtMs > 0 && ++brokenCount === maxBroken) await writer.fail("broken");
    else if (writer.isEmpty) await writer.abandon(error);
    else if (!isRepeatable(completion)) await writer.fail("sampled");
    else if (pauseMs === undefined || !isTransient(error)) await writer.release(error);
    if (writer.isOver) {
      // A run that was overtaken is counted by the one that took over.
      if (writer.ending?.kind !== "taken") ended(trace, writer.failure ? failureError(writer.failure) : error);
      return;
    }
    attempts = trace.attempts;
    const since = spine.standing?.now() ?? 0;
    await wait(pauseMs ?? 0);
    try {
      // The key may have been revoked during the pause.
      caller = (await spine.standing?.again(caller, since, trace.address)) ?? caller;
      sent = await writer.pieces();
    } catch (failure) {
      await writer.release(failure);
      ended(trace, failure);
    }
    if (writer.isOver) return;
  }
}

/** Another run gives the same text. */
const isRepeatable = ({ fields }: Completion): boolean => fields["temperature"] === 0 || fields["top_k"] === 1;

const isTransient = (error: unknown): boolean => error instanceof ServiceError && transient.has(error.kind);

function* eventsOf(pieces: readonly Buffer[]): Generator<string> {
  for (const piece of pieces)
    for (const frame of piece.toString().split("\n\n")) if (frame !== "") yield frame.slice("data: ".length);
}
