// Native inference: the model in the path, a body of its own task, an answer with `inference_status`.
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { Caller } from "../../accounts/caller.ts";
import { modelFor } from "../../inference/admit.ts";
import type { Spine } from "../../inference/complete.ts";
import { UpstreamBroken } from "../../inference/errors.ts";
import { BufferedSink } from "../buffered-sink.ts";
import type { Endpoints } from "../endpoint.ts";
import { WebhooksMissing, WebhookWithStream } from "../errors.ts";
import { mediaLimitBytes } from "../json-body.ts";
import { envelope } from "../native/envelope.ts";
import { prepare } from "../native/prepare.ts";
import { tokenEvents } from "../native/token-stream.ts";
import { type Relayed, taskRoute } from "../relay-route.ts";
import { refusalOf, renderError } from "../render-error.ts";
import type { RequestState } from "../request-state.ts";
import { RewrittenStream } from "../rewritten-stream.ts";
import { inferenceRefusals } from "../schemas/error-responses.ts";
import { NativeAnswer, NativeRequest } from "../schemas/native.ts";
import type { OwnVoice } from "../tasks/own-voice.ts";

export function addNativeRoutes(endpoints: Endpoints, spine: Spine, voices: OwnVoice): void {
  const common = {
    method: "POST",
    tag: "inference",
    access: "inference",
    takes: "both",
    bodyLimitBytes: mediaLimitBytes,
    refusals: inferenceRefusals,
    body: NativeRequest,
    answer: NativeAnswer,
  } as const;
  endpoints.addRaw(
    {
      ...common,
      // Model names hold a slash.
      path: "/v1/inference/*",
      summary: "Ask a model in the fields of its own task",
      params: Type.Object({ "*": Type.String({ description: "The model's name" }) }),
    },
    taskRoute(spine, (request, state) => {
      const { "*": name } = request.params as { readonly "*": string };
      return spoken(voices, name.replace(/\/$/, ""), request, state, (model) => read(spine, model, request, state));
    }),
  );
  endpoints.addRaw(
    {
      ...common,
      path: "/v1/inference/deploy/:deploy_id",
      summary: "Ask a deployment in the fields of its model's task",
      params: Type.Object({ deploy_id: Type.String({ minLength: 1 }) }),
    },
    taskRoute(spine, (request, state) => {
      const { deploy_id: id } = request.params as { readonly deploy_id: string };
      return spoken(voices, `deploy_id:${id}`, request, state, (model) => read(spine, model, request, state));
    }),
  );
}

/** One of the caller's own voices becomes what the model knows it by. */
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
  const body = request.body as NativeRequest;
  const model = modelFor(spine.models, state.caller as Caller, name);
  if (body.webhook != null) throw body.stream ? new WebhookWithStream() : new WebhooksMissing();
  // A seed beyond 2^53 is written as it came.
  const exact = request.readBody?.exact?.["seed"];
  const seeded = exact === undefined ? body : { ...body, seed: exact as number };
  const { completion, render } = prepare(seeded, model, name);
  if (completion.stream) {
    return {
      completion,
      through: (client) => new RewrittenStream(client, tokenEvents(body.seed)),
      streamError: ({ code, message }) => ({ error_type: code ?? "error", error_message: message }),
    };
  }
  const broken = (error: unknown) => {
    state.refusal = refusalOf(new UpstreamBroken({ cause: error }));
    return renderError(state.refusal, state.dialect, state.requestId);
  };
  return {
    completion,
    through: (client) =>
      new BufferedSink(
        client,
        (answer) => ({
          contentType: "application/json",
          body: Buffer.from(JSON.stringify({ ...render(answer, state), ...envelope(state) })),
        }),
        broken,
      ),
  };
}
