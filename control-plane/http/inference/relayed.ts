// A request as an edge converts it, its run, and the response to an error of it.
import type { ServerResponse } from "node:http";
import type { Caller } from "../../accounts/caller.ts";
import type { AnswerSink } from "../../inference/answer-sink.ts";
import { complete, type Spine } from "../../inference/complete.ts";
import type { Completion, Trace } from "../../inference/completion.ts";
import type { RequestState } from "../core/request-state.ts";
import { compatError, type Refusal } from "../errors/error-body.ts";
import { refusalOf } from "../errors/render-error.ts";
import { writeRefusal } from "../errors/write-refusal.ts";
import type { ClientSink } from "./client-sink.ts";
import { dataFrame } from "./translated-stream.ts";

/** A request as an edge converts it, and the conversion of its response. */
export interface Relayed {
  readonly completion: Completion;
  /** Sink that rewrites the response; default: none. */
  readonly through?: ((client: ClientSink) => AnswerSink) | undefined;
  /** Frames that report an error within a stream; default: one in OpenAI's format. */
  readonly streamError?: (refusal: Refusal) => string | Promise<string>;
  /** Called when a client has disconnected from a request that ran. */
  readonly left?: () => void;
  /** Another request to run instead of one that was refused before its first byte; undefined: none. */
  readonly insteadOf?: ((error: unknown) => Completion | undefined) | undefined;
}

/** A response to a request that does not run now. */
export interface Reply {
  readonly reply: object;
}

/** As `complete`; runs what `insteadOf` gives for the error of a request without a first byte. */
export async function completeInstead(
  spine: Spine,
  caller: Caller,
  completion: Completion,
  sink: AnswerSink,
  trace: Trace,
  insteadOf: Relayed["insteadOf"],
): Promise<boolean> {
  for (let wanted = completion; ; ) {
    try {
      return await complete(spine, caller, wanted, sink, trace);
    } catch (error) {
      const other = trace.firstByteAtMs > 0 ? undefined : insteadOf?.(error);
      if (!other) throw error;
      wanted = other;
    }
  }
}

export const streamErrorOf = (known: Relayed | Reply | undefined) =>
  known && "completion" in known ? known.streamError : undefined;

export function answerError(
  error: unknown,
  sink: ClientSink,
  state: RequestState,
  res: ServerResponse,
  streamError: NonNullable<Relayed["streamError"]> = (of) => dataFrame({ error: compatError(of, state.requestId) }),
): void {
  const refusal = refusalOf(error);
  state.refusal = refusal;
  sink.flush();
  if (state.isClosed) return;
  if (!sink.hasStarted) {
    writeRefusal(refusal, state, res);
    return;
  }
  try {
    const frames = streamError(refusal);
    if (!(frames instanceof Promise)) sink.fail(frames);
    else
      frames.then(
        (late) => sink.fail(late),
        () => sink.abandon(),
      );
  } catch {
    // The frames of a broken response may contain what broke it. One stream must not end the process.
    sink.abandon();
  }
}
