// Runs inference POSTs through the spine and sends their responses by callbacks.
import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Caller } from "../../accounts/caller.ts";
import type { Claim, KeptAnswer } from "../../accounts/idempotency.ts";
import type { AnswerSink } from "../../inference/answer-sink.ts";
import type { Spine } from "../../inference/complete.ts";
import type { Completion } from "../../inference/completion.ts";
import { answersFull, upstreamBroken } from "../../inference/errors.ts";
import { AnswerShare, type ResponseBuffer } from "../../inference/response-buffer.ts";
import { servedTier } from "../../inference/service-tier.ts";
import type { ReadBody } from "../body/json-body.ts";
import type { RequestState } from "../core/request-state.ts";
import { inferenceRefusals } from "../errors/error-responses.ts";
import { webhookUnsupported } from "../errors/errors.ts";
import { refusalOf, renderError } from "../errors/render-error.ts";
import { BufferedSink, type SentAnswer, type WholeAnswer } from "./buffered-sink.ts";
import { ClientSink } from "./client-sink.ts";
import { beginKeyed, endRefused, isKeyed, type KeyedInput, type OnceDeps } from "./idempotency.ts";
import type { InferenceHandler, InferenceRequest } from "./inference-entry.ts";
import { KeepingSink } from "./keeping-sink.ts";
import { answerError, completeInstead, type Relayed, type Reply, streamErrorOf } from "./relayed.ts";
import { isResumable, type ResumableDeps, relayResumable } from "./resumable/resumable-relay.ts";
import { rewriting, TranslatedStream } from "./translated-stream.ts";

/** Converts a validated body to a Completion; returns a promise only if a lookup is needed. */
export type ReadCompletion = (
  body: Record<string, unknown>,
  read: ReadBody,
  caller: Caller,
) => Completion | Promise<Completion>;

/** Common settings of the inference endpoints in OpenAI's format. */
export const compatPost = {
  method: "POST",
  tag: "inference",
  access: "inference",
  dialect: "compat",
  idempotent: true,
  refusals: inferenceRefusals,
} as const;

type Read = () => Relayed | Reply | Promise<Relayed | Reply>;

/** Serves inference POSTs. A request with an `Idempotency-Key` runs once, however often it is sent. */
export interface Relays {
  /** A request with a JSON body. */
  json(read: ReadCompletion): InferenceHandler;
  /** A request with a JSON body in another format, whose response is translated. */
  translated(
    read: (request: InferenceRequest, state: RequestState) => Relayed | Promise<Relayed | Reply>,
  ): InferenceHandler;
  /** A request that needs the whole Fastify request: a form, or one with the model in its path. */
  task(
    read: (request: FastifyRequest, state: RequestState) => Relayed | Promise<Relayed>,
  ): (request: FastifyRequest, reply: FastifyReply) => void;
}

export function createRelays(spine: Spine, deps: OnceDeps & ResumableDeps): Relays {
  function serve(
    request: KeyedInput & { readonly body: unknown },
    state: RequestState,
    res: ServerResponse,
    read: Read,
  ): void {
    const checked = () => {
      // Native requests with a webhook run later: none comes here.
      if ((request.body as { readonly webhook?: unknown } | null)?.webhook != null) throw webhookUnsupported();
      return read();
    };
    if (isResumable(request)) void relayResumable(spine, deps, request, state, res, checked);
    else if (isKeyed(request)) void relayOnce(spine, deps, request, state, res, checked);
    else relay(spine, checked(), state, res);
  }
  return {
    json: (read) => (request, state, res) => {
      const { body, readBody } = request;
      const relayed = (completion: Completion): Relayed => ({
        completion,
        through: completion.task ? undefined : tierOf(completion, state.caller as Caller, spine.answers),
      });
      serve(request, state, res, () => {
        const completion = read(body, readBody, state.caller as Caller);
        return completion instanceof Promise ? completion.then(relayed) : relayed(completion);
      });
    },
    translated: (read) => (request, state, res) => serve(request, state, res, () => read(request, state)),
    task: (read) => (request, reply) => {
      const state = request.state as RequestState;
      serve(request, state, reply.raw, () => read(request, state));
      reply.hijack();
    },
  };
}

/** A JSON value, or its text. */
type Rendered = object | string;

/** Sink of a response that is sent in one piece. `render` throws where the engine sent something else, which is 502. */
export const renderedWhole =
  (spine: Spine, state: RequestState, render: (answer: WholeAnswer) => Rendered | Promise<Rendered>) =>
  (client: ClientSink): AnswerSink =>
    new BufferedSink(
      client,
      spine.answers,
      (answer) => {
        const rendered = render(answer);
        return rendered instanceof Promise ? rendered.then(inJson) : inJson(rendered);
      },
      (error) => {
        state.refusal = refusalOf(upstreamBroken({ cause: error }));
        return renderError(state.refusal, state.dialect, state.requestId);
      },
    );

const inJson = (answer: Rendered): SentAnswer => ({
  contentType: "application/json",
  body: typeof answer === "string" ? answer : JSON.stringify(answer),
});

function relay(spine: Spine, relayed: ReturnType<Read>, state: RequestState, res: ServerResponse): void {
  const start = (known: Relayed | Reply): void => {
    const client = new ClientSink(res, state);
    run(spine, known, client, state).catch((error: unknown) => {
      answerError(error, client, state, res, streamErrorOf(known));
    });
  };
  if (relayed instanceof Promise) relayed.then(start).catch(refuse(state, res));
  else start(relayed);
}

async function run(spine: Spine, known: Relayed | Reply, client: ClientSink, state: RequestState): Promise<boolean> {
  if ("reply" in known) {
    const { contentType, body } = inJson(known.reply);
    client.whole(200, contentType, body);
    return true;
  }
  const { completion, through, insteadOf, left } = known;
  state.operation = completion.kind;
  state.isStream = completion.stream;
  state.namedModel = completion.model;
  const sink = through?.(client) ?? client;
  const hasRun = await completeInstead(spine, state.caller as Caller, completion, sink, state, insteadOf);
  if (hasRun && client.isGone) left?.();
  if (sink.sent) await sink.sent;
  return hasRun;
}

/** Never rejects: every error is sent as a response. */
async function relayOnce(
  spine: Spine,
  deps: OnceDeps,
  request: KeyedInput,
  state: RequestState,
  res: ServerResponse,
  read: Read,
): Promise<void> {
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
  let known: Relayed | Reply | undefined;
  try {
    known = await read();
    const hasRun = !state.isClosed && (await run(spine, known, client, state));
    // The client may be gone before the end. Tokens generated so far are billed.
    await client.conclude((own) => (hasRun ? own.spend() : own.abandon()));
  } catch (error) {
    client.flush();
    await client.conclude((own) =>
      // Keep-alive comments during a cold start are not part of a response.
      client.hasStarted && state.firstByteAtMs > 0
        ? own.spend()
        : endRefused(own, refusalOf(error), state.dialect, state.requestId),
    );
    answerError(error, client, state, res, streamErrorOf(known));
  }
}

/** Counts against the memory budget until it is sent. Throws answersFull. */
function replay(kept: KeptAnswer, client: ClientSink, buffer: ResponseBuffer): void {
  if (!buffer.hasCapacity) throw answersFull();
  const share = new AnswerShare(buffer, client.account, { pause() {}, resume() {}, giveUp() {} });
  share.whole();
  share.add(Buffer.byteLength(kept.body));
  client.holds(share);
  client.again(kept);
}

/** Reports an error before the request ran. */
const refuse = (state: RequestState, res: ServerResponse) => (error: unknown) =>
  answerError(error, new ClientSink(res, state), state, res);

/**
 * Adds the service tier that serves the request to its response, if the request named one. Undefined: the response needs no
 * rewriting.
 */
function tierOf(
  { serviceTier, stream }: Completion,
  caller: Caller,
  answers: ResponseBuffer,
): ((client: ClientSink) => AnswerSink) | undefined {
  if (serviceTier === undefined) return undefined;
  const member = `"service_tier":"${servedTier(serviceTier, caller)}"`;
  const withTier = (json: string) => withMember(json, member);
  if (stream) return (client) => new TranslatedStream(client, rewriting(withTier));
  return (client) =>
    new BufferedSink(client, answers, ({ contentType, body }) => ({
      contentType,
      body: withTier(body.toString()),
    }));
}

/** Some engines send the field as null. Text of the model cannot match, because its quotes are escaped. */
function withMember(json: string, member: string): string {
  if (json.includes(member) || json.startsWith('{"error"')) return json;
  const replaced = json.replace(/"service_tier":\s*(?:null|"[a-z]*")/, member);
  return replaced === json && json.startsWith('{"') ? `{${member},${json.slice(1)}` : replaced;
}
