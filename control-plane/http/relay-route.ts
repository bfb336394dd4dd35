// The inference POSTs: an ordinary Fastify route with its schema, then the reply is hijacked and bytes go out by callbacks.
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Caller } from "../accounts/caller.ts";
import { complete, type Spine } from "../inference/complete.ts";
import type { Completion } from "../inference/completion.ts";
import { ClientSink } from "./client-sink.ts";
import { compatError } from "./error-body.ts";
import type { ReadBody } from "./json-body.ts";
import { refusalOf, renderError } from "./render-error.ts";
import type { RequestState } from "./request-state.ts";

/** From a validated body to what the spine works on. */
export type ReadCompletion = (body: Record<string, unknown>, read: ReadBody) => Completion;

export function relayRoute(spine: Spine, read: ReadCompletion) {
  return (request: FastifyRequest, reply: FastifyReply): void => {
    const completion = read(request.body as Record<string, unknown>, request.readBody as ReadBody);
    const state = request.state as RequestState;
    state.operation = completion.kind;
    state.isStream = completion.stream;
    const sink = new ClientSink(reply.raw, state);
    reply.hijack();
    complete(spine, state.caller as Caller, completion, sink, state, state.label).catch((error: unknown) => {
      answerError(error, sink, state, reply);
    });
  };
}

function answerError(error: unknown, sink: ClientSink, state: RequestState, reply: FastifyReply): void {
  const refusal = refusalOf(error);
  state.refusal = refusal;
  sink.flush();
  if (state.isClosed) return;
  if (sink.hasStarted) {
    sink.fail(compatError(refusal));
    return;
  }
  const { status, headers, body } = renderError(refusal, state.dialect, state.requestId);
  reply.raw.writeHead(status, [...headers, "content-length", String(Buffer.byteLength(body)), ...state.headers()]);
  reply.raw.end(body);
}
