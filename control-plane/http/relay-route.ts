// The inference POSTs: an ordinary Fastify route with its schema, then the reply is hijacked and bytes go out by callbacks.
import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Caller } from "../accounts/caller.ts";
import type { AnswerSink } from "../inference/answer-sink.ts";
import { complete, type Spine } from "../inference/complete.ts";
import type { Completion } from "../inference/completion.ts";
import { ClientSink } from "./client-sink.ts";
import { compatError } from "./error-body.ts";
import type { ReadBody } from "./json-body.ts";
import type { Refusal } from "./refusal.ts";
import type { Lesson, RelayFront } from "./relay-front.ts";
import { refusalOf, renderError } from "./render-error.ts";
import type { RequestState } from "./request-state.ts";
import { tierOf } from "./service-tier.ts";

/** From a validated body to what the spine works on; a promise where something must be looked up first. */
export type ReadCompletion = (
  body: Record<string, unknown>,
  read: ReadBody,
  caller: Caller,
) => Completion | Promise<Completion>;

/** `front` learns from the first request of each path how to take the next ones itself. */
export function relayRoute(spine: Spine, read: ReadCompletion, front: RelayFront) {
  const relay: Lesson["relay"] = (body, readBody, state, res) => {
    const run = (completion: Completion): void => {
      state.operation = completion.kind;
      state.isStream = completion.stream;
      const client = new ClientSink(res, state);
      const through = completion.task ? undefined : tierOf(body["service_tier"], completion.stream, spine.answers);
      const sink = through?.(client) ?? client;
      complete(spine, state.caller as Caller, completion, sink, state).catch((error: unknown) => {
        answerError(error, client, state, res);
      });
    };
    const completion = read(body, readBody, state.caller as Caller);
    if (completion instanceof Promise) completion.then(run).catch(refuse(state, res));
    else run(completion);
  };
  return (request: FastifyRequest, reply: FastifyReply): void => {
    const state = request.state as RequestState;
    const url = request.routeOptions.url ?? "";
    const validate = front.knows(url) ? undefined : request.getValidationFunction("body");
    if (validate) front.learn(url, { meter: state.meter, dialect: state.dialect, validate, relay });
    relay(request.body as Record<string, unknown>, request.readBody as ReadBody, state, reply.raw);
    reply.hijack();
  };
}

/** What an edge makes of a request, and of its answer. */
export interface Relayed {
  readonly completion: Completion;
  /** Where the answer goes on its way to the client; default: straight to it. */
  readonly through?: (client: ClientSink) => AnswerSink;
  /** An error in the middle of a stream, as one frame; default: as OpenAI's. */
  readonly streamError?: (refusal: Refusal) => object;
}

/** A request that is read from the whole Fastify request: a form, or one whose path names the model. */
export function taskRoute(
  spine: Spine,
  read: (request: FastifyRequest, state: RequestState) => Relayed | Promise<Relayed>,
) {
  return (request: FastifyRequest, reply: FastifyReply): void => {
    const state = request.state as RequestState;
    const relayed = read(request, state);
    const { raw } = reply;
    reply.hijack();
    const run = ({ completion, through, streamError }: Relayed): void => {
      state.operation = completion.kind;
      state.isStream = completion.stream;
      const client = new ClientSink(raw, state);
      const sink = through?.(client) ?? client;
      complete(spine, state.caller as Caller, completion, sink, state).catch((error: unknown) => {
        answerError(error, client, state, raw, streamError);
      });
    };
    if (relayed instanceof Promise) relayed.then(run).catch(refuse(state, raw));
    else run(relayed);
  };
}

/** What went wrong before anything ran. */
const refuse = (state: RequestState, res: ServerResponse) => (error: unknown) =>
  answerError(error, new ClientSink(res, state), state, res);

function answerError(
  error: unknown,
  sink: ClientSink,
  state: RequestState,
  res: ServerResponse,
  streamError = (refusal: Refusal): object => ({ error: compatError(refusal) }),
): void {
  const refusal = refusalOf(error);
  state.refusal = refusal;
  sink.flush();
  if (state.isClosed) return;
  if (sink.hasStarted) {
    sink.fail(streamError(refusal));
    return;
  }
  const { status, headers, body } = renderError(refusal, state.dialect, state.requestId);
  res.writeHead(status, [...headers, "content-length", String(Buffer.byteLength(body)), ...state.headers()]);
  res.end(body);
}
