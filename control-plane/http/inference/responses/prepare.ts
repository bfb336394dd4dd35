// Reads a request: the conversation that it continues, the items that it refers to, its translation and the frame of its response.
import type { Caller } from "../../../accounts/caller.ts";
import { scopeNotAllowed } from "../../../accounts/errors.ts";
import type { ReasoningSeal } from "../../../accounts/reasoning-seals.ts";
import type { Completion } from "../../../inference/completion.ts";
import { servedTier } from "../../../inference/service-tier.ts";
import { referenceNotFound } from "../../../responses/errors.ts";
import type { HoldBytes, Responses, StoredItem } from "../../../responses/responses.ts";
import type { InferenceFeatures } from "../features.ts";
import { chatCompletion, itemsOf } from "./chat-fields.ts";
import { encryptedContentInvalid, fieldUnsupported } from "./errors.ts";
import { frameOf } from "./response-object.ts";
import type { OutputOptions } from "./response-output.ts";
import type { ResponseItem, ResponseRequest } from "./responses-schemas.ts";
import { calledTools } from "./tools.ts";
import { isOverflow, shorterConversations } from "./truncation.ts";

export type ResponseFeatures = Pick<InferenceFeatures, "reasoning" | "responses" | "log">;

export interface PreparedResponse {
  readonly completion: Completion;
  /** A shorter request, where the engine refused this one because of its length and the caller allows that. */
  readonly insteadOf: ((error: unknown) => Completion | undefined) | undefined;
  readonly options: OutputOptions;
  /** Input of this request only, with ids and without references. Most requests are not stored. */
  readonly items: () => readonly StoredItem[];
}

export interface RequestFacts {
  readonly requestId: string;
  readonly createdAtMs: number;
  /** Upper bound of the text in the body. */
  readonly bytes: number;
  readonly hold: HoldBytes;
  /** Unix ms. */
  readonly unixMs: () => number;
}

/**
 * Returns a promise only for a request that continues a conversation, refers to items or has sealed reasoning. Throws the errors of
 * chat-fields.ts and of Responses.
 */
export function prepareResponse(
  features: ResponseFeatures,
  caller: Caller,
  body: ResponseRequest,
  facts: RequestFacts,
): PreparedResponse | Promise<PreparedResponse> {
  const given = itemsOf(body);
  const isComplete = body.previous_response_id == null && !given.some(isReference);
  if (isComplete && !isSealing(body) && !given.some(isEncrypted))
    return prepared(caller, body, facts, { before: noItems, own: { items: given, bytes: 0 }, seal: undefined });
  return lookedUp(features, caller, body, given, facts);
}

async function lookedUp(
  features: ResponseFeatures,
  caller: Caller,
  body: ResponseRequest,
  given: readonly ResponseItem[],
  facts: RequestFacts,
): Promise<PreparedResponse> {
  const before = await beforeOf(features.responses, caller, body, facts.hold);
  const own = await resolved(features.responses, caller, given, facts.hold);
  const needsSeal = isSealing(body) || own.items.some(isEncrypted) || before.items.some(isEncrypted);
  const seal = needsSeal ? await features.reasoning.of(caller.account) : undefined;
  return prepared(caller, body, facts, { before, own, seal });
}

/** What a request refers to. */
interface Referred {
  /** Items of earlier responses. */
  readonly before: Items;
  /** Items of this request. */
  readonly own: Items;
  readonly seal: ReasoningSeal | undefined;
}

function prepared(
  caller: Caller,
  body: ResponseRequest,
  { requestId, createdAtMs, bytes, unixMs }: RequestFacts,
  { before, own, seal }: Referred,
): PreparedResponse {
  const { items } = own;
  const open = (content: string, param: string): string => {
    const text = seal?.open(content);
    if (text === undefined) throw encryptedContentInvalid(param);
    return text;
  };
  const allBytes = bytes + before.bytes + own.bytes;
  const all = before.items.length === 0 ? items : [...before.items, ...items];
  const shorter = body.truncation === "auto" ? shorterConversations(all) : undefined;
  return {
    completion: chatCompletion(body, { items: all, beforeCount: before.items.length }, open, allBytes),
    insteadOf:
      shorter &&
      ((error) => {
        const kept = isOverflow(error) ? shorter.next().value : undefined;
        return kept && chatCompletion(body, { items: kept, beforeCount: kept.length }, open, allBytes);
      }),
    options: {
      frame: frameOf(
        body,
        `resp_${requestId}`,
        body.model,
        Math.floor(createdAtMs / 1000),
        servedTier(body.service_tier, caller),
      ),
      idBase: requestId,
      isSummary: (body.reasoning?.summary ?? body.reasoning?.generate_summary) != null,
      seal: isSealing(body) && seal ? (text) => seal.seal(text) : undefined,
      tools: calledTools(body.tools ?? []),
      now: () => Math.floor(unixMs() / 1000),
    },
    items: () => items.map((item, i) => ({ ...item, id: item.id ?? `${item.type ?? "message"}_${requestId}_in${i}` })),
  };
}

/** Throws scopeNotAllowed, fieldUnsupported. */
export function checkRequest(caller: Caller, body: ResponseRequest): void {
  if (body.conversation != null) throw fieldUnsupported("conversation", "Send the items in input.");
  if (body.prompt != null) throw fieldUnsupported("prompt", "Send the text in instructions and input.");
  if (body.background && !body.store)
    throw fieldUnsupported("background", "A response in the background needs `store: true`, to be read later.");
  if (body.background && body.stream) throw fieldUnsupported("stream", "A response in the background has no stream.");
  // Users of scoped tokens share an account, but not each other's content.
  if (caller.via === "jwt" && (body.store || body.previous_response_id != null || itemsOf(body).some(isReference)))
    throw scopeNotAllowed();
}

interface Items {
  readonly items: readonly ResponseItem[];
  readonly bytes: number;
}

const noItems: Items = { items: [], bytes: 0 };

function beforeOf(
  responses: Responses,
  { account }: Caller,
  body: ResponseRequest,
  hold: HoldBytes,
): Items | Promise<Items> {
  const previous = body.previous_response_id;
  return previous == null ? noItems : responses.conversation(account, previous, hold);
}

const isReference = ({ type, role, id }: ResponseItem): boolean =>
  type === "item_reference" || (type === undefined && role === undefined && typeof id === "string");

/** Replaces references by their items. An item's id contains the id of its response. */
async function resolved(
  responses: Responses,
  { account }: Caller,
  items: readonly ResponseItem[],
  hold: HoldBytes,
): Promise<Items> {
  const ids = items.filter(isReference).map(({ id }) => `resp_${id?.split("_").at(-2)}`);
  if (ids.length === 0) return { items, bytes: 0 };
  const known = await responses.itemsOf(account, [...new Set(ids)], hold);
  let bytes = 0;
  const all = items.map((item, i) => {
    if (!isReference(item)) return item;
    const found = known.get(item.id ?? "");
    if (!found) throw referenceNotFound(item.id ?? "", `input.${i}.id`);
    bytes += Buffer.byteLength(JSON.stringify(found));
    return found as ResponseItem;
  });
  return { items: all, bytes };
}

const isSealing = ({ include }: ResponseRequest): boolean => include?.includes("reasoning.encrypted_content") === true;

const isEncrypted = ({ encrypted_content: content }: ResponseItem): boolean =>
  typeof content === "string" && content !== "";
