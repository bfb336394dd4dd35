// OpenAI's Responses API: a body of items is translated to a chat, and the chat's response to items.
import type { Caller } from "../../../accounts/caller.ts";
import { mayRun } from "../../../inference/admit.ts";
import type { Spine } from "../../../inference/complete.ts";
import { bodyLimitBytes, mediaLimitBytes } from "../../body/json-body.ts";
import type { Endpoints } from "../../core/endpoint.ts";
import type { RequestState } from "../../core/request-state.ts";
import { inferenceRefusals } from "../../errors/error-responses.ts";
import { bodiesFull, bodyTooLarge } from "../../errors/errors.ts";
import type { InferenceRequest } from "../inference-entry.ts";
import { compatPost, type Relays, renderedWhole } from "../relay-route.ts";
import type { Relayed, Reply } from "../relayed.ts";
import { TranslatedStream } from "../translated-stream.ts";
import { type BackgroundFeatures, responseJobs } from "./background.ts";
import { itemsOf } from "./chat-fields.ts";
import { fieldUnsupported } from "./errors.ts";
import {
  checkRequest,
  type PreparedResponse,
  prepareResponse,
  type RequestFacts,
  type ResponseFeatures,
} from "./prepare.ts";
import { responseJson } from "./response-json.ts";
import { type ResponseState, responseObject } from "./response-object.ts";
import { wholeOutput } from "./response-output.ts";
import { responseStream } from "./response-stream.ts";
import {
  DeletedResponse,
  InputItems,
  InputItemsQuery,
  ResponseAnswer,
  type ResponseItem,
  ResponseQuery,
  ResponseRequest,
} from "./responses-schemas.ts";

export function addResponseRoutes(
  endpoints: Endpoints,
  spine: Spine,
  relays: Relays,
  features: BackgroundFeatures,
): void {
  const { responses } = features;
  responses.runWith(responseJobs(spine, features));
  endpoints.addInference(
    {
      ...compatPost,
      path: "/v1/responses",
      bodyLimitBytes: mediaLimitBytes,
      summary: "Create a response; server-sent events with `stream`",
      body: ResponseRequest,
      answer: ResponseAnswer,
      refusals: [...inferenceRefusals, 405],
    },
    relays.translated((request, state) => readResponse(spine, features, request, state)),
  );
  // Users of scoped tokens share an account, but not each other's responses.
  const stored = endpoints.with({ tag: "inference", access: "key", dialect: "compat" });
  stored.get("/v1/responses/:response_id", {
    summary: "Get a stored response",
    query: ResponseQuery,
    answer: ResponseAnswer,
    refusals: [400, 404],
    async handler({ caller, params, query }) {
      if (query.stream) throw fieldUnsupported("stream", "Read the response again until its status is final.");
      return responses.get(caller.account, params.response_id);
    },
  });
  stored.delete("/v1/responses/:response_id", {
    summary: "Delete a stored response; one in the background stops",
    answer: DeletedResponse,
    refusals: [404],
    async handler({ caller, params: { response_id: id } }) {
      await responses.remove(caller.account, id);
      return { id, object: "response", deleted: true };
    },
  });
  stored.post("/v1/responses/:response_id/cancel", {
    summary: "Cancel a response in the background",
    answer: ResponseAnswer,
    refusals: [400, 404],
    handler: ({ caller, params }) => responses.cancel(caller.account, params.response_id),
  });
  stored.get("/v1/responses/:response_id/input_items", {
    summary: "List the input items of a stored response",
    query: InputItemsQuery,
    answer: InputItems,
    refusals: [400, 404],
    async handler({ caller, params, query: { order = "desc", limit = 20, after } }) {
      const page = await responses.inputItems(caller.account, params.response_id, { order, limit, after });
      const { items, hasMore } = page;
      return {
        object: "list",
        data: items,
        first_id: items[0]?.id ?? null,
        last_id: items.at(-1)?.id ?? null,
        has_more: hasMore,
      };
    },
  });
}

/** Returns a promise only if something must be read or stored first. */
function readResponse(
  spine: Spine,
  features: ResponseFeatures,
  { body: given, readBody: { bytes, exact } }: InferenceRequest,
  state: RequestState,
): Relayed | Promise<Relayed | Reply> {
  const body = (exact ?? given) as ResponseRequest;
  const caller = state.caller as Caller;
  checkRequest(caller, body);
  if (bytes.length > bodyLimitBytes && !itemsOf(body).some(holdsMedia)) throw bodyTooLarge(bodyLimitBytes);
  const { requestId, admittedAtMs: createdAtMs } = state;
  const hold = (more: number) => {
    if (!state.holdBody(more)) throw bodiesFull();
  };
  const facts = { requestId, createdAtMs, bytes: bytes.length, hold, unixMs: spine.unixMs };
  const prepare = () => prepareResponse(features, caller, body, facts);
  const relayed = (prepared: PreparedResponse) => relayedResponse(spine, features, body, prepared, state);
  if (body.background) return queued(spine, features, body, prepare, state);
  if (body.store) return features.responses.checkSpace(caller.account).then(prepare).then(relayed);
  const prepared = prepare();
  return prepared instanceof Promise ? prepared.then(relayed) : relayed(prepared);
}

function relayedResponse(
  spine: Spine,
  features: ResponseFeatures,
  body: ResponseRequest,
  prepared: PreparedResponse,
  state: RequestState,
): Relayed {
  const { completion, options, insteadOf } = prepared;
  const save = body.store === true ? saved(features, body, prepared, state.caller as Caller) : undefined;
  if (completion.stream) {
    const translation = responseStream(options, save);
    return {
      completion,
      insteadOf,
      through: (client) => new TranslatedStream(client, translation, spine.answers),
      streamError: (refusal) => translation.fail(refusal),
      left: () => translation.leave(),
    };
  }
  return {
    completion,
    insteadOf,
    through: renderedWhole(spine, state, ({ body: whole }) => {
      const final = wholeOutput(options, whole);
      if (!save) return responseJson(JSON.stringify(options.frame), final);
      return save(final).then((isSaved) => responseJson(JSON.stringify({ ...options.frame, store: isSaved }), final));
    }),
  };
}

/** A response of a batch. Throws fieldUnsupported, and the errors of prepareResponse. */
export async function responseLine(
  features: ResponseFeatures,
  caller: Caller,
  body: ResponseRequest,
  facts: RequestFacts,
) {
  if (body.store || body.background) {
    const field = body.background ? "background" : "store";
    throw fieldUnsupported(field, "The output file of a batch has its responses.");
  }
  checkRequest(caller, body);
  const { completion, insteadOf, options } = await prepareResponse(features, caller, body, facts);
  const render = (whole: Buffer): object => responseObject(options.frame, wholeOutput(options, whole));
  return { completion, insteadOf, render };
}

/** A response that was paid for is delivered even if it cannot be stored: it then says `store: false`. */
function saved(
  { responses, log }: ResponseFeatures,
  body: ResponseRequest,
  prepared: PreparedResponse,
  caller: Caller,
) {
  const { options, items } = prepared;
  const { id } = options.frame;
  return async (final: ResponseState): Promise<boolean> => {
    try {
      const content = { items: items(), response: responseObject(options.frame, final) };
      const previous = body.previous_response_id ?? undefined;
      await responses.save(caller, { id, previous, status: final.status, content });
      return true;
    } catch (error) {
      log.warn({ err: error, responseId: id }, "could not store a response");
      return false;
    }
  };
}

/** Checks everything that can be refused now, and stores the request. */
async function queued(
  spine: Spine,
  features: ResponseFeatures,
  body: ResponseRequest,
  prepare: () => ReturnType<typeof prepareResponse>,
  state: RequestState,
): Promise<Reply> {
  const { completion, options, items } = await prepare();
  const caller = state.caller as Caller;
  try {
    await mayRun(spine, caller, completion, state);
  } catch (error) {
    spine.metrics.refused(error);
    throw error;
  }
  const response = responseObject(options.frame, { status: "queued", output: [] });
  const { input: _, ...rest } = body;
  const { label, source } = state;
  await features.responses.queue(caller, {
    id: response.id,
    previous: body.previous_response_id ?? undefined,
    content: { items: items(), response, body: rest, label, source },
  });
  return { reply: response };
}

/** Bodies with media may be larger. */
function holdsMedia({ content, output }: ResponseItem): boolean {
  return [content, output].some(
    (parts) => Array.isArray(parts) && parts.some(({ type }) => type === "input_image" || type === "input_audio"),
  );
}
