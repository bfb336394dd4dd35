// OpenAI's Responses API: a body of items is translated to a chat, and the chat's response to items.
import type { Caller } from "../../../accounts/caller.ts";
import type { ReasoningSeal } from "../../../accounts/reasoning-seals.ts";
import type { Spine } from "../../../inference/complete.ts";
import { bodyLimitBytes, mediaLimitBytes } from "../../body/json-body.ts";
import type { Endpoints } from "../../core/endpoint.ts";
import type { RequestState } from "../../core/request-state.ts";
import { inferenceRefusals } from "../../errors/error-responses.ts";
import { bodyTooLarge } from "../../errors/errors.ts";
import { deltasOf } from "../chat-deltas.ts";
import type { InferenceFeatures } from "../features.ts";
import type { InferenceRequest } from "../inference-entry.ts";
import { type Relayed, type Relays, renderedWhole } from "../relay-route.ts";
import { TranslatedStream } from "../translated-stream.ts";
import { chatCompletion, itemsOf } from "./chat-fields.ts";
import { encryptedContentInvalid, fieldUnsupported } from "./errors.ts";
import { frameOf, responseObject } from "./response-object.ts";
import { type OutputOptions, ResponseOutput } from "./response-output.ts";
import { responseStream } from "./response-stream.ts";
import { ResponseAnswer, type ResponseItem, ResponseRequest } from "./responses-schemas.ts";
import { customNames } from "./tools.ts";

type Features = Pick<InferenceFeatures, "reasoning">;

export function addResponseRoutes(endpoints: Endpoints, spine: Spine, relays: Relays, features: Features): void {
  endpoints.addInference(
    {
      method: "POST",
      path: "/v1/responses",
      tag: "inference",
      access: "inference",
      dialect: "compat",
      idempotent: true,
      bodyLimitBytes: mediaLimitBytes,
      summary: "Create a response; server-sent events with `stream`",
      body: ResponseRequest,
      answer: ResponseAnswer,
      refusals: [...inferenceRefusals, 405],
    },
    relays.translated((request, state) => readResponse(spine, features, request, state)),
  );
}

const encrypted = "reasoning.encrypted_content";

async function readResponse(
  spine: Spine,
  features: Features,
  { body: given, readBody: { bytes, exact } }: InferenceRequest,
  state: RequestState,
): Promise<Relayed> {
  const body = (exact ?? given) as ResponseRequest;
  if (body.conversation != null) throw fieldUnsupported("conversation", "Send the items in input.");
  if (body.prompt != null) throw fieldUnsupported("prompt", "Send the text in instructions and input.");
  const { account } = state.caller as Caller;
  const items = itemsOf(body);
  if (bytes.length > bodyLimitBytes && !items.some(holdsMedia)) throw bodyTooLarge(bodyLimitBytes);
  const mustSeal = body.include?.includes(encrypted) === true;
  const seal = mustSeal || items.some(isEncrypted) ? await features.reasoning.of(account) : undefined;
  const completion = chatCompletion(body, items, openedBy(seal), bytes.length);
  const createdAt = Math.floor(state.admittedAtMs / 1000);
  const options: OutputOptions = {
    frame: frameOf(body, `resp_${state.requestId}`, body.model, createdAt),
    idBase: state.requestId,
    isSummary: (body.reasoning?.summary ?? body.reasoning?.generate_summary) != null,
    seal: mustSeal ? seal?.seal : undefined,
    customTools: customNames(body.tools ?? []),
    now: () => Math.floor(spine.unixMs() / 1000),
  };
  if (completion.stream) {
    const translation = responseStream(options);
    return {
      completion,
      through: (client) => new TranslatedStream(client, translation),
      streamError: (refusal) => translation.fail(refusal),
    };
  }
  return {
    completion,
    through: renderedWhole(spine, state, ({ body: whole }) => {
      const output = new ResponseOutput(options);
      for (const delta of deltasOf(whole.toString())) output.take(delta);
      if (!output.final) throw new TypeError("the engine's response has no end");
      return responseObject(options.frame, output.final);
    }),
  };
}

const isEncrypted = ({ encrypted_content: content }: ResponseItem): boolean =>
  typeof content === "string" && content !== "";

const openedBy =
  (seal: ReasoningSeal | undefined) =>
  (content: string, param: string): string => {
    const text = seal?.open(content);
    if (text === undefined) throw encryptedContentInvalid(param);
    return text;
  };

/** Bodies with media may be larger. */
function holdsMedia({ content, output }: ResponseItem): boolean {
  return [content, output].some(
    (parts) => Array.isArray(parts) && parts.some(({ type }) => type === "input_image" || type === "input_audio"),
  );
}
