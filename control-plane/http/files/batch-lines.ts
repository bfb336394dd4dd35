// Runs lines of batches like requests: the same schemas, the same five steps, the same responses.
import type { TSchema } from "typebox";
import type { BatchEndpoint, BatchTokens } from "../../batches/batch.ts";
import type { LineAnswer, LineWork, RunLine } from "../../batches/line.ts";
import { backgroundTrace } from "../../inference/background-trace.ts";
import { type ByteBudget, HeldBytes } from "../../inference/byte-budget.ts";
import type { Spine } from "../../inference/complete.ts";
import type { Completion, Trace } from "../../inference/completion.ts";
import { upstreamBroken } from "../../inference/errors.ts";
import type { HoldBytes } from "../../responses/responses.ts";
import type { RequestTally } from "../../series/request-tally.ts";
import { type ReadBody, readJson } from "../body/json-body.ts";
import type { Dialect } from "../errors/error-body.ts";
import { bodiesFull } from "../errors/errors.ts";
import { refusalOf, renderError } from "../errors/render-error.ts";
import { ChatRequest } from "../inference/chat-request-schemas.ts";
import { CompletionRequest } from "../inference/completion-request-schemas.ts";
import { readChat, readTextCompletion } from "../inference/completions-routes.ts";
import { readEmbeddings } from "../inference/embeddings-routes.ts";
import { KeptSink } from "../inference/kept-sink.ts";
import { type MessageBody, MessageRequest } from "../inference/messages/message-request-schemas.ts";
import { messageLine } from "../inference/messages/messages-routes.ts";
import { backgroundSpan, noteBackground } from "../inference/note-background.ts";
import { completeInstead } from "../inference/relayed.ts";
import type { ResponseFeatures } from "../inference/responses/prepare.ts";
import { responseLine } from "../inference/responses/responses-routes.ts";
import { ResponseRequest } from "../inference/responses/responses-schemas.ts";
import { EmbeddingsRequest } from "../inference/tasks-schemas.ts";

/** A line as its endpoint reads it. */
interface Prepared {
  readonly completion: Completion;
  /** Another request to run instead of one that was refused. */
  readonly insteadOf?: ((error: unknown) => Completion | undefined) | undefined;
  /** Translates the engine's response; throws where it is none. Default: unchanged. */
  readonly render?: (whole: Buffer) => object;
}

/** A line in progress: its request, trace, and reservation of memory. */
interface Line {
  readonly work: LineWork;
  readonly trace: Trace;
  readonly hold: HoldBytes;
}

interface Way {
  readonly validate: Validator;
  readonly dialect: Dialect;
  prepare(body: Record<string, unknown>, read: ReadBody, line: Line): Prepared | Promise<Prepared>;
}

type LineFeatures = ResponseFeatures & {
  readonly bodies: ByteBudget;
  readonly tally: Pick<RequestTally, "note">;
};
type Validator = { (body: unknown): unknown; readonly errors?: unknown };

/** `compile`: compiles the schema of a body. */
export function batchLines(spine: Spine, features: LineFeatures, compile: (schema: TSchema) => Validator): RunLine {
  const unchanged = (schema: TSchema, read: (body: never, read: ReadBody) => Completion): Way => ({
    validate: compile(schema),
    dialect: "compat",
    prepare: (body, readBody) => ({ completion: read(body as never, readBody) }),
  });
  const ways: Readonly<Record<BatchEndpoint, Way>> = {
    "/v1/chat/completions": unchanged(ChatRequest, readChat),
    "/v1/completions": unchanged(CompletionRequest, readTextCompletion),
    "/v1/embeddings": unchanged(EmbeddingsRequest, readEmbeddings),
    "/v1/responses": {
      validate: compile(ResponseRequest),
      dialect: "compat",
      prepare: (body, { bytes, exact }, { work: { caller, requestId, admittedAtMs }, hold }) =>
        responseLine(features, caller, (exact ?? body) as ResponseRequest, {
          requestId,
          createdAtMs: admittedAtMs,
          bytes: bytes.length,
          hold,
          unixMs: spine.unixMs,
        }),
    },
    "/v1/messages": {
      validate: compile(MessageRequest),
      dialect: "messages",
      prepare: (body, read, { work: { caller, requestId }, trace }) =>
        messageLine(features.reasoning, caller.account, body as unknown as MessageBody, read, {
          requestId,
          model: () => trace.model,
        }),
    },
  };
  return async (work, signal) => {
    const trace = traceOf(work, backgroundSpan(spine, "batch line", work.requestId));
    const { account } = work.caller;
    const sink = new KeptSink(spine.answers, account);
    const held = new HeldBytes(features.bodies, account);
    const hold = (bytes: number) => {
      if (!held.hold(bytes)) throw bodiesFull();
    };
    const { validate, dialect, prepare } = ways[work.endpoint];
    let isAnswered = false;
    const abandon = () => sink.abandon();
    if (signal.aborted) return { kind: "stopped" };
    signal.addEventListener("abort", abandon, { once: true });
    try {
      const bytes = bodyOf(work.text);
      const { value, exact } = readJson(bytes);
      if (!validate(value))
        throw Object.assign(new Error(), { validation: validate.errors, validationContext: "body" });
      const prepared = await prepare(value as Record<string, unknown>, { bytes, exact }, { work, trace, hold });
      if (signal.aborted) return { kind: "stopped" };
      const { completion, insteadOf } = prepared;
      await completeInstead(spine, work.caller, completion, sink, trace, insteadOf);
      if (signal.aborted) return { kind: "stopped" };
      const { answer } = sink;
      if (!answer) throw upstreamBroken({ cause: new Error("the response was missing or too large") });
      const body = prepared.render ? rendered(prepared.render, answer.body) : oneLine(answer.body);
      isAnswered = true;
      noteBackground(features.tally, account, trace);
      return { kind: "answered", status: 200, body, tokens: tokensOf(trace), letGo: () => sink.letGo() };
    } catch (error) {
      if (signal.aborted) return { kind: "stopped" };
      noteBackground(features.tally, account, trace, error);
      return refused(error, dialect, trace);
    } finally {
      signal.removeEventListener("abort", abandon);
      held.letGo();
      if (!isAnswered) sink.letGo();
    }
  };
}

/** Returns the body of a line with integers beyond 2^53 unchanged. */
function bodyOf(text: string): Buffer {
  const { value, exact } = readJson(Buffer.from(text));
  return Buffer.from(JSON.stringify((exact ?? (value as Record<string, unknown>))["body"]));
}

function rendered(render: (whole: Buffer) => object, whole: Buffer): string {
  try {
    return JSON.stringify(render(whole));
  } catch (error) {
    throw upstreamBroken({ cause: error });
  }
}

function refused(error: unknown, dialect: Dialect, { requestId, attempts }: Trace): LineAnswer {
  const refusal = refusalOf(error);
  const { status, body } = renderError(refusal, dialect, requestId);
  const otherwise = { status, body };
  const again = (why: "busy" | "funds" | "broken", seconds: number): LineAnswer => ({
    kind: "again",
    why,
    afterMs: seconds * 1000,
    attempts,
    otherwise,
  });
  if (status === 429 || status === 503) return again("busy", Math.min(30, refusal.retryAfterSeconds ?? 1));
  if (status === 402) return again("funds", 0.25);
  return status >= 500 ? again("broken", 1) : { kind: "answered", ...otherwise, tokens: undefined };
}

/** Returns the response as one line of JSON. Throws when it is not JSON. */
function oneLine(body: Buffer): string {
  const text = body.toString();
  const value: unknown = JSON.parse(text);
  return /[\r\n]/.test(text) ? JSON.stringify(value) : text;
}

const tokensOf = ({ usage }: Trace): BatchTokens | undefined => usage;

function traceOf({ caller, requestId, admittedAtMs, attempts, text }: LineWork, span: Trace["span"]): Trace {
  const { account, key } = caller;
  return backgroundTrace({ requestId, admittedAtMs, bodyBytes: text.length, account, key, attempts, span });
}
