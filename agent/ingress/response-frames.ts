// Events of a streamed response. Drops those that repeat what the deltas contained, and those that it does not know.
import { isJsonObject, type JsonObject } from "../../proto/json-object.ts";
import { finishOf, type ItemParts, itemParts, responseUsage, textOf } from "./format-answers.ts";
import {
  bounded,
  chunkOf,
  type EventReader,
  errorOf,
  noEvent,
  TranslatedFrames,
  usageChunkOf,
} from "./translated-frames.ts";
import type { UsageFrames } from "./usage-frames.ts";

export class ResponseFrames extends TranslatedFrames {
  constructor(...parts: ConstructorParameters<typeof UsageFrames>) {
    super(new ResponseChunks(parts[0].maxTokens), ...parts);
  }
}

type Kind = "content" | "refusal" | "reasoning_content" | "arguments";

const deltaKinds: Readonly<Record<string, Kind>> = {
  "response.output_text.delta": "content",
  "response.refusal.delta": "refusal",
  "response.reasoning_text.delta": "reasoning_content",
  "response.function_call_arguments.delta": "arguments",
};

/** For one response. */
class ResponseChunks implements EventReader {
  readonly #maxTokens: number;
  /** Characters sent, by item and kind. */
  readonly #sent = new Map<string, number>();
  /** Index of each call, by item. */
  readonly #calls = new Map<string, number>();

  constructor(maxTokens: number) {
    this.#maxTokens = maxTokens;
  }

  read(event: JsonObject): readonly string[] {
    if (isJsonObject(event["error"]) && event["type"] !== "response.failed") return [errorOf(event["error"])];
    const type = event["type"];
    if (typeof type !== "string") throw noEvent();
    const kind = Object.hasOwn(deltaKinds, type) ? deltaKinds[type] : undefined;
    if (kind) return this.#delta(textOf(event["item_id"]), kind, textOf(event["delta"]));
    const { item, response } = event;
    switch (type) {
      case "response.output_item.added":
      case "response.output_item.done":
        return isJsonObject(item) ? this.#item(item) : [];
      case "response.completed":
      case "response.incomplete":
        if (!isJsonObject(response)) throw noEvent();
        return this.#end(response);
      case "response.failed":
        return [errorOf(isJsonObject(response) ? response["error"] : event)];
      case "error":
        return [errorOf(event)];
      default:
        return [];
    }
  }

  /** Returns the chunks for the part of an item that no delta contained: servers may send it only with the end of the item. */
  #item(item: JsonObject): readonly string[] {
    const parts: ItemParts = itemParts(item);
    const id = textOf(item["id"]);
    return [
      ...this.#rest(id, "reasoning_content", parts.reasoning),
      ...this.#rest(id, "content", parts.text),
      ...this.#rest(id, "refusal", parts.refusal),
      ...(parts.call ? this.#call(id, parts.call) : []),
    ];
  }

  #call(item: string, call: NonNullable<ItemParts["call"]>): readonly string[] {
    let begun: readonly string[] = [];
    if (!this.#calls.has(item)) {
      const index = this.#calls.size;
      this.#calls.set(item, bounded(index));
      const head = { index, id: call.id, type: "function", function: { name: call.name, arguments: "" } };
      begun = [chunkOf({ tool_calls: [head] })];
    }
    return [...begun, ...this.#rest(item, "arguments", call.arguments)];
  }

  #rest(item: string, kind: Kind, text: string): readonly string[] {
    return this.#delta(item, kind, text.slice(this.#sent.get(`${kind} ${item}`) ?? 0));
  }

  #delta(item: string, kind: Kind, text: string): readonly string[] {
    if (text === "") return [];
    const key = `${kind} ${item}`;
    bounded(this.#sent.size);
    this.#sent.set(key, (this.#sent.get(key) ?? 0) + text.length);
    if (kind !== "arguments") return [chunkOf({ [kind]: text })];
    const index = this.#calls.get(item);
    if (index === undefined) throw noEvent();
    return [chunkOf({ tool_calls: [{ index, function: { arguments: text } }] })];
  }

  #end(response: JsonObject): readonly string[] {
    const { output } = response;
    const isUnsent = this.#sent.size === 0 && this.#calls.size === 0 && Array.isArray(output);
    const late = isUnsent ? output.filter(isJsonObject).flatMap((item) => this.#item(item)) : [];
    const reason = finishOf(response, this.#calls.size > 0, this.#maxTokens);
    const usage = responseUsage(response["usage"]);
    return [...late, chunkOf({}, { finish_reason: reason }), ...(usage ? [usageChunkOf(usage)] : []), "[DONE]"];
  }
}
