// Runs lines of batches like requests: the same schemas, the same five steps, the same responses.
import type { TSchema } from "typebox";
import type { BatchEndpoint, BatchTokens } from "../../batches/batch.ts";
import type { LineAnswer, LineWork, RunLine } from "../../batches/line.ts";
import { backgroundTrace } from "../../inference/background-trace.ts";
import { complete, type Spine } from "../../inference/complete.ts";
import type { Completion, Trace } from "../../inference/completion.ts";
import { upstreamBroken } from "../../inference/errors.ts";
import { type ReadBody, readJson } from "../body/json-body.ts";
import { refusalOf, renderError } from "../errors/render-error.ts";
import { ChatRequest } from "../inference/chat-request-schemas.ts";
import { CompletionRequest } from "../inference/completion-request-schemas.ts";
import { readChat, readTextCompletion } from "../inference/completions-routes.ts";
import { readEmbeddings } from "../inference/embeddings-routes.ts";
import { KeptSink } from "../inference/kept-sink.ts";
import { EmbeddingsRequest } from "../inference/tasks-schemas.ts";

/** Reads the request of a route from its body. */
type Read = (body: Record<string, unknown>, read: ReadBody) => Completion;
type Validator = { (body: unknown): unknown; readonly errors?: unknown };

/** `compile`: compiles the schema of a body. */
export function batchLines(spine: Spine, compile: (schema: TSchema) => Validator): RunLine {
  const ways: Readonly<Record<BatchEndpoint, { readonly validate: Validator; readonly read: Read }>> = {
    "/v1/chat/completions": { validate: compile(ChatRequest), read: readChat },
    "/v1/completions": { validate: compile(CompletionRequest), read: readTextCompletion },
    "/v1/embeddings": { validate: compile(EmbeddingsRequest), read: readEmbeddings },
  };
  return async (work, signal) => {
    const trace = traceOf(work);
    const sink = new KeptSink(spine.answers, work.caller.account);
    let isAnswered = false;
    const abandon = () => sink.abandon();
    if (signal.aborted) return { kind: "stopped" };
    signal.addEventListener("abort", abandon, { once: true });
    try {
      const { validate, read } = ways[work.endpoint];
      const bytes = bodyOf(work.text);
      const { value, exact } = readJson(bytes);
      if (!validate(value))
        throw Object.assign(new Error(), { validation: validate.errors, validationContext: "body" });
      await complete(spine, work.caller, read(value as never, { bytes, exact }), sink, trace);
      if (signal.aborted) return { kind: "stopped" };
      const { answer } = sink;
      if (!answer) throw upstreamBroken({ cause: new Error("the response was missing or too large") });
      const body = oneLine(answer.body);
      isAnswered = true;
      return { kind: "answered", status: 200, body, tokens: tokensOf(trace), letGo: () => sink.letGo() };
    } catch (error) {
      return signal.aborted ? { kind: "stopped" } : refused(error, trace);
    } finally {
      signal.removeEventListener("abort", abandon);
      if (!isAnswered) sink.letGo();
    }
  };
}

/** Returns the body of a line with integers beyond 2^53 unchanged. */
function bodyOf(text: string): Buffer {
  const { value, exact } = readJson(Buffer.from(text));
  return Buffer.from(JSON.stringify((exact ?? (value as Record<string, unknown>))["body"]));
}

function refused(error: unknown, { requestId, attempts }: Trace): LineAnswer {
  const refusal = refusalOf(error);
  const { status, body } = renderError(refusal, "compat", requestId);
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

function traceOf({ caller, requestId, admittedAtMs, attempts, text }: LineWork): Trace {
  const { account, key } = caller;
  return backgroundTrace({ requestId, admittedAtMs, bodyBytes: text.length, account, key, attempts });
}
