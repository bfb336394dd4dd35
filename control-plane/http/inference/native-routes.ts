// Native inference: the model in the path, a body in the fields of its task, a response with `inference_status`.
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { Caller } from "../../accounts/caller.ts";
import { mayRun, modelFor } from "../../inference/admit.ts";
import type { Spine } from "../../inference/complete.ts";
import { mediaLimitBytes } from "../body/json-body.ts";
import { originOf } from "../core/act-of.ts";
import { type Endpoints, pairs } from "../core/endpoint.ts";
import type { RequestState } from "../core/request-state.ts";
import { inferenceRefusals } from "../errors/error-responses.ts";
import { webhookWithStream } from "../errors/errors.ts";
import type { InferenceFeatures } from "./features.ts";
import { type OnceDeps, once } from "./idempotency.ts";
import { envelope, queued } from "./native/envelope.ts";
import { keptBody } from "./native/native-jobs.ts";
import { prepare } from "./native/prepare.ts";
import { tokenEvents } from "./native/token-stream.ts";
import { NativeAnswer, NativeRequest } from "./native-schemas.ts";
import { type Relays, renderedWhole } from "./relay-route.ts";
import type { Relayed } from "./relayed.ts";
import type { OwnVoice } from "./tasks/own-voice.ts";
import { dataFrame, rewriting, TranslatedStream } from "./translated-stream.ts";

type NativeDeps = OnceDeps & Pick<InferenceFeatures, "webhooks" | "publicUrl">;
type RouteDeps = NativeDeps & { readonly voices: OwnVoice };

export function addNativeRoutes(
  endpoints: Endpoints,
  spine: Spine,
  relays: Relays,
  voices: OwnVoice,
  given: NativeDeps,
): void {
  const deps = { ...given, voices };
  const common = {
    method: "POST",
    tag: "inference",
    access: "inference",
    takes: "both",
    idempotent: true,
    bodyLimitBytes: mediaLimitBytes,
    refusals: inferenceRefusals,
    body: NativeRequest,
    answer: NativeAnswer,
  } as const;
  endpoints.addRaw(
    {
      ...common,
      // Model names contain a slash.
      path: "/v1/inference/*",
      summary: "Ask a model in the fields of its own task",
      params: Type.Object({ "*": Type.String({ description: "The model's name" }) }),
    },
    nativeRoute(spine, relays, deps, "POST /v1/inference/*", (request) => {
      const { "*": name } = request.params as { readonly "*": string };
      return name.replace(/\/$/, "");
    }),
  );
  endpoints.addRaw(
    {
      ...common,
      path: "/v1/inference/deploy/:deploy_id",
      summary: "Ask a deployment in the fields of its model's task",
      params: Type.Object({ deploy_id: Type.String({ minLength: 1 }) }),
    },
    nativeRoute(spine, relays, deps, "POST /v1/inference/deploy/:deploy_id", (request) => {
      const { deploy_id: id } = request.params as { readonly deploy_id: string };
      return `deploy_id:${id}`;
    }),
  );
}

/** Responds on the connection or, if the body has a webhook, to that. */
function nativeRoute(
  spine: Spine,
  relays: Relays,
  deps: RouteDeps,
  route: string,
  nameOf: (request: FastifyRequest) => string,
) {
  const relay = relays.task((request, state) =>
    spoken(deps.voices, nameOf(request), request, state, (model) => read(spine, model, request, state)),
  );
  return (request: FastifyRequest, reply: FastifyReply): unknown => {
    const state = request.state as RequestState;
    state.namedModel = nameOf(request);
    if ((request.body as NativeRequest).webhook == null) return relay(request, reply);
    return once(
      deps,
      { name: route, dialect: state.dialect, holdsSecrets: false, isPaid: true },
      request,
      reply,
      state.caller as Caller,
      () => accept(spine, deps, nameOf(request), request, state),
    ).then((answer) => (reply.sent ? reply : reply.headers(pairs(state.headers())).send(answer)));
  };
}

/** Checks everything that can be refused now: later errors reach only the webhook. */
async function accept(spine: Spine, deps: RouteDeps, name: string, request: FastifyRequest, state: RequestState) {
  const caller = state.caller as Caller;
  const asked = exactBody(request);
  if (asked.stream) throw webhookWithStream();
  const voice = asked.voice_id && (await deps.voices(caller, name, asked.voice_id));
  const body = voice ? { ...asked, voice_id: voice } : asked;
  const { completion } = prepare(body, modelFor(spine.models, caller, name), name);
  const target = await deps.webhooks.check(body.webhook as string);
  try {
    await mayRun(spine, caller, completion, state);
  } catch (error) {
    spine.metrics.refused(error);
    throw error;
  }
  await deps.webhooks.accept({
    caller,
    target,
    requestId: state.requestId,
    label: state.label,
    source: state.source,
    trace: state.span?.context,
    model: name,
    body: keptBody(body),
    origin: originOf(deps.publicUrl, request),
  });
  return queued(state.requestId);
}

/** The body with a seed beyond 2^53 kept exactly. */
function exactBody(request: FastifyRequest): NativeRequest {
  const body = request.body as NativeRequest;
  const exact = request.readBody?.exact?.["seed"];
  return exact === undefined ? body : { ...body, seed: exact as number };
}

/** Replaces one of the caller's own voices by the blend that the model understands. */
function spoken(
  voices: OwnVoice,
  model: string,
  request: FastifyRequest,
  state: RequestState,
  read: (model: string) => Relayed,
): Relayed | Promise<Relayed> {
  const body = request.body as NativeRequest;
  const voice = body.voice_id ? voices(state.caller as Caller, model, body.voice_id) : undefined;
  const relayed = (voice_id: string | undefined): Relayed => {
    if (voice_id !== undefined) body.voice_id = voice_id;
    return read(model);
  };
  return voice instanceof Promise ? voice.then(relayed) : relayed(voice);
}

function read(spine: Spine, name: string, request: FastifyRequest, state: RequestState): Relayed {
  const body = exactBody(request);
  const model = modelFor(spine.models, state.caller as Caller, name);
  const { completion, render } = prepare(body, model, name);
  if (completion.stream) {
    return {
      completion,
      through: (client) => new TranslatedStream(client, rewriting(tokenEvents(body.seed, completion.n))),
      streamError: ({ code, message }) =>
        dataFrame({ error_type: code ?? "error", error_message: message, request_id: state.requestId }),
    };
  }
  return {
    completion,
    through: renderedWhole(spine, state, (answer) => ({ ...render(answer, state), ...envelope(state) })),
  };
}
