// Anthropic's Messages API, translated to a chat request and back.

import type { Caller } from "../../../accounts/caller.ts";
import type { ReasoningSeal, ReasoningSeals } from "../../../accounts/reasoning-seals.ts";
import type { Spine } from "../../../inference/complete.ts";
import type { Completion } from "../../../inference/completion.ts";
import { servedTier } from "../../../inference/service-tier.ts";
import { bodyLimitBytes, mediaLimitBytes, type ReadBody } from "../../body/json-body.ts";
import type { Endpoints } from "../../core/endpoint.ts";
import type { RequestState } from "../../core/request-state.ts";
import { errorBody } from "../../errors/error-body.ts";
import { inferenceRefusals } from "../../errors/error-responses.ts";
import { bodyTooLarge } from "../../errors/errors.ts";
import { refusalOf } from "../../errors/render-error.ts";
import { writeRefusal } from "../../errors/write-refusal.ts";
import { deltasOf } from "../chat-deltas.ts";
import { checkFormat } from "../check-format.ts";
import { ClientSink } from "../client-sink.ts";
import { type Relays, renderedWhole } from "../relay-route.ts";
import type { Relayed } from "../relayed.ts";
import { namedFrame, TranslatedStream } from "../translated-stream.ts";
import { countTokens } from "./count-tokens.ts";
import { MessageAnswer, TokenCount } from "./message-answer-schemas.ts";
import { type MessageFacts, messageOf } from "./message-events.ts";
import { type MessageBody, MessageRequest, type PromptBody, TokenCountRequest } from "./message-request-schemas.ts";
import { messageStream } from "./message-stream.ts";
import { nativeMessage } from "./native-message.ts";
import { chatFields, hasImage, hasThinking } from "./to-chat.ts";

export function addMessageRoutes(endpoints: Endpoints, spine: Spine, relays: Relays, seals: ReasoningSeals): void {
  endpoints.addInference(
    {
      method: "POST",
      path: "/v1/messages",
      summary: "Create a message, in Anthropic's format; server-sent events with `stream`",
      tag: "inference",
      access: "inference",
      dialect: "messages",
      idempotent: true,
      bodyLimitBytes: mediaLimitBytes,
      refusals: [...inferenceRefusals, 405],
      body: MessageRequest,
      answer: MessageAnswer,
    },
    relays.translated(({ body, readBody }, state) => {
      const request = body as unknown as MessageBody;
      const relayed = (seal: ReasoningSeal | undefined) => relayedMessage(spine, request, readBody, state, seal);
      const seal = sealFor(seals, (state.caller as Caller).account, hasThinking(request));
      return seal instanceof Promise ? seal.then(relayed) : relayed(seal);
    }),
  );
  endpoints.addInference(
    {
      method: "POST",
      path: "/v1/messages/count_tokens",
      summary: "Count the input tokens of a message, free of charge",
      tag: "inference",
      access: "inference",
      dialect: "messages",
      bodyLimitBytes: mediaLimitBytes,
      refusals: [402, 404, 405, 429, 500, 502, 504],
      body: TokenCountRequest,
      answer: TokenCount,
    },
    ({ body, readBody: { bytes, exact } }, state, res) => {
      const request = body as unknown as PromptBody;
      checkLength(bytes, request);
      const { account } = state.caller as Caller;
      const isSealed = hasThinking(request);
      const count = async () => {
        const seal = isSealed ? await seals.of(account) : undefined;
        return countTokens(spine, (exact as PromptBody | undefined) ?? request, seal, state);
      };
      count()
        .then((input_tokens) => {
          if (input_tokens === undefined) return;
          const answer = Buffer.from(JSON.stringify({ input_tokens }));
          new ClientSink(res, state).whole(200, "application/json", answer);
        })
        .catch((error: unknown) => {
          state.refusal = refusalOf(error);
          writeRefusal(state.refusal, state, res);
        });
    },
  );
}

function checkLength(bytes: Buffer, body: PromptBody): void {
  if (bytes.length > bodyLimitBytes && !hasImage(body)) throw bodyTooLarge(bodyLimitBytes);
}

/** Undefined while the data key cannot be read: a reply does not need it. Rejects if `isNeeded`. */
function sealFor(
  seals: ReasoningSeals,
  account: Caller["account"],
  isNeeded: boolean,
): ReasoningSeal | Promise<ReasoningSeal | undefined> {
  const seal = seals.of(account);
  return seal instanceof Promise && !isNeeded ? seal.catch(() => undefined) : seal;
}

function relayedMessage(
  spine: Spine,
  body: MessageBody,
  read: ReadBody,
  state: RequestState,
  seal: ReasoningSeal | undefined,
): Relayed {
  const completion = completionOf(body, read, seal);
  const tier = servedTier(body.service_tier, state.caller as Caller) === "priority" ? "priority" : "standard";
  const facts = factsOf(tier, body, state.requestId, () => state.model ?? body.model, seal);
  if (!completion.stream)
    return {
      completion,
      through: renderedWhole(spine, state, (answer) => messageOf(deltasOf(answer.body.toString()), facts)),
    };
  return {
    completion,
    through: (client) => new TranslatedStream(client, messageStream(facts), spine.answers),
    streamError: (refusal) => namedFrame("error", errorBody(refusal, "messages", state.requestId)),
  };
}

const factsOf = (
  tier: MessageFacts["tier"],
  body: MessageBody,
  requestId: string,
  model: () => string,
  seal: ReasoningSeal | undefined,
): MessageFacts => ({
  requestId,
  model,
  tier,
  stopSequences: body.stop_sequences ?? [],
  seal,
  omitsThinking: body.thinking?.display === "omitted",
});

function completionOf(body: MessageBody, { bytes, exact }: ReadBody, seal: ReasoningSeal | undefined): Completion {
  checkLength(bytes, body);
  const whole = (exact as MessageBody | undefined) ?? body;
  const fields = chatFields(whole, seal);
  checkFormat(fields);
  return {
    kind: "chat",
    model: body.model,
    stream: body.stream === true,
    n: 1,
    maxTokens: body.max_tokens,
    promptBytes: bytes.length,
    messages: fields.messages.length,
    usage: "merge",
    bytes,
    fields,
    isRebuilt: true,
    task: undefined,
    serviceTier: body.service_tier ?? undefined,
    endUser: fields.user as string | undefined,
    native: () => nativeMessage(whole),
  };
}

/** A message of a batch. `model`: read once the request is admitted. */
export async function messageLine(
  seals: ReasoningSeals,
  account: Caller["account"],
  body: MessageBody,
  read: ReadBody,
  { requestId, model }: { readonly requestId: string; readonly model: () => string | undefined },
) {
  const seal = await sealFor(seals, account, hasThinking(body));
  const facts = factsOf("batch", body, requestId, () => model() ?? body.model, seal);
  return {
    completion: completionOf(body, read, seal),
    render: (whole: Buffer): object => messageOf(deltasOf(whole.toString()), facts),
  };
}
