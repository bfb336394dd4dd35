// The inference POSTs: an ordinary Fastify route with its schema, then the reply is hijacked and bytes go out by callbacks.
import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Caller } from "../accounts/caller.ts";
import type { Claim, KeptAnswer } from "../accounts/idempotency.ts";
import { type AnswerRoom, AnswerShare } from "../inference/answer-room.ts";
import type { AnswerSink } from "../inference/answer-sink.ts";
import { complete, type Spine } from "../inference/complete.ts";
import type { Completion } from "../inference/completion.ts";
import { AnswersFull } from "../inference/errors.ts";
import { ClientSink } from "./client-sink.ts";
import { compatError } from "./error-body.ts";
import { beginKeyed, endRefused, isKeyed, type OnceDeps } from "./idempotency.ts";
import type { ReadBody } from "./json-body.ts";
import { KeepingSink } from "./keeping-sink.ts";
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

/** What an edge makes of a request, and of its answer. */
export interface Relayed {
  readonly completion: Completion;
  /** Where the answer goes on its way to the client; default: straight to it. */
  readonly through?: ((client: ClientSink) => AnswerSink) | undefined;
  /** An error in the middle of a stream, as one frame; default: as OpenAI's. */
  readonly streamError?: (refusal: Refusal) => object;
}

type Handler = (request: FastifyRequest, reply: FastifyReply) => void;
type Read = () => Relayed | Promise<Relayed>;

/** How every inference POST is served. With an `Idempotency-Key` it runs once, however often it is sent. */
export interface Relays {
  /** Of a JSON body; the short way learns from the first request of each path how to take the next ones itself. */
  json(read: ReadCompletion): Handler;
  /** A request that is read from the whole Fastify request: a form, or one whose path names the model. */
  task(read: (request: FastifyRequest, state: RequestState) => Relayed | Promise<Relayed>): Handler;
}

export function createRelays(spine: Spine, front: RelayFront, deps: OnceDeps): Relays {
  function serve(request: FastifyRequest, reply: FastifyReply, read: Read): void {
    const state = request.state as RequestState;
    if (isKeyed(request)) void relayOnce(spine, deps, request, reply.raw, read);
    else relay(spine, read(), state, reply.raw);
    reply.hijack();
  }
  return {
    json(read) {
      const relayed = (body: Record<string, unknown>, readBody: ReadBody, caller: Caller) => {
        const of = (completion: Completion): Relayed => ({
          completion,
          through: completion.task ? undefined : tierOf(body["service_tier"], completion.stream, spine.answers),
        });
        const completion = read(body, readBody, caller);
        return completion instanceof Promise ? completion.then(of) : of(completion);
      };
      const short: Lesson["relay"] = (body, readBody, state, res) =>
        relay(spine, relayed(body, readBody, state.caller as Caller), state, res);
      return (request, reply) => {
        const { meter, dialect, caller } = request.state as RequestState;
        const url = request.routeOptions.url ?? "";
        const validate = front.knows(url) ? undefined : request.getValidationFunction("body");
        if (validate) front.learn(url, { meter, dialect, validate, relay: short });
        const body = request.body as Record<string, unknown>;
        serve(request, reply, () => relayed(body, request.readBody as ReadBody, caller as Caller));
      };
    },
    task: (read) => (request, reply) => serve(request, reply, () => read(request, request.state as RequestState)),
  };
}

function relay(spine: Spine, relayed: Relayed | Promise<Relayed>, state: RequestState, res: ServerResponse): void {
  const start = (known: Relayed): void => {
    const client = new ClientSink(res, state);
    run(spine, known, client, state).catch((error: unknown) => {
      answerError(error, client, state, res, known.streamError);
    });
  };
  if (relayed instanceof Promise) relayed.then(start).catch(refuse(state, res));
  else start(relayed);
}

function run(
  spine: Spine,
  { completion, through }: Relayed,
  client: ClientSink,
  state: RequestState,
): Promise<boolean> {
  state.operation = completion.kind;
  state.isStream = completion.stream;
  return complete(spine, state.caller as Caller, completion, through?.(client) ?? client, state);
}

/** Nothing is thrown: all of it is answered. */
async function relayOnce(
  spine: Spine,
  deps: OnceDeps,
  request: FastifyRequest,
  res: ServerResponse,
  read: Read,
): Promise<void> {
  const state = request.state as RequestState;
  let claim: Claim;
  try {
    const route = `${state.meter.method} ${state.meter.route}`;
    const begun = await beginKeyed(deps, route, request, state.caller as Caller, true);
    if ("kept" in begun) {
      replay(begun.kept, new ClientSink(res, state), spine.answers);
      return;
    }
    claim = begun.claim;
  } catch (error) {
    refuse(state, res)(error);
    return;
  }
  const client = new KeepingSink(res, state, claim, spine.answers);
  let known: Relayed | undefined;
  try {
    known = await read();
    const hasRun = !state.isClosed && (await run(spine, known, client, state));
    // Nothing of it was answered: the client is gone. What was made for it until then is paid.
    await client.conclude((own) => (hasRun ? own.spend() : own.abandon()));
  } catch (error) {
    client.flush();
    await client.conclude((own) =>
      // Signs of life alone, while a model starts, are no part of an answer.
      client.hasStarted && state.firstByteMs > 0
        ? own.spend()
        : endRefused(own, refusalOf(error), state.dialect, state.requestId),
    );
    answerError(error, client, state, res, known?.streamError);
  }
}

/** Counts as kept here until it has left. Throws AnswersFull. */
function replay(kept: KeptAnswer, client: ClientSink, room: AnswerRoom): void {
  if (!room.hasRoom) throw new AnswersFull();
  const share = new AnswerShare(room, client.account, { pause() {}, resume() {}, giveUp() {} });
  share.whole();
  share.add(Buffer.byteLength(kept.body));
  client.atEnd(() => share.letGo());
  client.again(kept);
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
