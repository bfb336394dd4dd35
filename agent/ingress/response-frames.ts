// Reads the events of a streamed response as the chunks of a chat, and gives these to the meter of chats: its bounds, figures and
// end hold for both. Drops events that repeat what the deltas contained, and those that it does not know.
import { FramePieces, frameEnd, frameOf, payloadOf } from "../../proto/sse-frames.ts";
import { type Fields, finishOf, type ItemParts, isFields, itemParts, responseUsage, textOf } from "./format-answers.ts";
import { maxFrameBytes, UsageFrames } from "./usage-frames.ts";

const noEvent = "the model server sent an event that is no part of a response";
/** A model does not begin more; a server that does is broken. */
const maxItems = 1_000;
const colon = 58;

export class ResponseFrames extends UsageFrames {
  readonly #chunks: ResponseChunks;
  readonly #pieces = new FramePieces();

  constructor(...[terms, price, out]: ConstructorParameters<typeof UsageFrames>) {
    super(terms, price, out);
    this.#chunks = new ResponseChunks(terms.maxTokens);
  }

  /** Throws RangeError for a frame above 1 MiB and for one that is not an event of a response. */
  override push(chunk: Buffer): void {
    const bytes = this.#pieces.add(chunk);
    if (bytes) this.#split(bytes);
    if (this.#pieces.bytes > maxFrameBytes) throw new RangeError("the engine sent a frame above 1 MiB");
  }

  #split(bytes: Buffer): void {
    let start = 0;
    for (let end = frameEnd(bytes, start); end >= 0 && !this.isDone; end = frameEnd(bytes, start)) {
      this.#frame(bytes.subarray(start, end));
      start = end;
    }
    this.#pieces.keep(bytes.subarray(start));
  }

  #frame(frame: Buffer): void {
    const json = payloadOf(frame);
    if (!json) {
      if (frame[0] === colon) super.push(frame);
      return;
    }
    for (const one of this.#chunks.read(json)) {
      if (this.isDone) return;
      super.push(frameOf(Buffer.from(one)));
    }
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
class ResponseChunks {
  readonly #maxTokens: number;
  /** Characters sent, by item and kind. */
  readonly #sent = new Map<string, number>();
  /** Index of each call, by item. */
  readonly #calls = new Map<string, number>();

  constructor(maxTokens: number) {
    this.#maxTokens = maxTokens;
  }

  /** Data of the chunks of one event. Throws RangeError for what is no event. */
  read(json: Buffer): readonly string[] {
    const event = eventOf(json);
    if (isFields(event["error"]) && event["type"] !== "response.failed") return [errorOf(event["error"])];
    const type = event["type"];
    if (typeof type !== "string") throw new RangeError(noEvent);
    const kind = Object.hasOwn(deltaKinds, type) ? deltaKinds[type] : undefined;
    if (kind) return this.#delta(textOf(event["item_id"]), kind, textOf(event["delta"]));
    const { item, response } = event;
    switch (type) {
      case "response.output_item.added":
      case "response.output_item.done":
        return isFields(item) ? this.#item(item) : [];
      case "response.completed":
      case "response.incomplete":
        if (!isFields(response)) throw new RangeError(noEvent);
        return this.#end(response);
      case "response.failed":
        return [errorOf(isFields(response) ? response["error"] : event)];
      case "error":
        return [errorOf(event)];
      default:
        return [];
    }
  }

  /** What its deltas did not contain: a server may send the last part of an item only with its end. */
  #item(item: Fields): readonly string[] {
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
    if (index === undefined) throw new RangeError(noEvent);
    return [chunkOf({ tool_calls: [{ index, function: { arguments: text } }] })];
  }

  #end(response: Fields): readonly string[] {
    const { output } = response;
    const isUnsent = this.#sent.size === 0 && this.#calls.size === 0 && Array.isArray(output);
    const late = isUnsent ? output.filter(isFields).flatMap((item) => this.#item(item)) : [];
    const reason = finishOf(response, this.#calls.size > 0, this.#maxTokens);
    const usage = responseUsage(response["usage"]);
    return [
      ...late,
      chunkOf({}, reason),
      ...(usage ? [JSON.stringify({ object: "chat.completion.chunk", choices: [], usage })] : []),
      "[DONE]",
    ];
  }
}

function bounded(count: number): number {
  if (count >= maxItems) throw new RangeError("the model server sent too many items");
  return count;
}

function eventOf(json: Buffer): Fields {
  let event: unknown;
  try {
    event = JSON.parse(json.toString());
  } catch {
    throw new RangeError(noEvent);
  }
  if (!isFields(event)) throw new RangeError(noEvent);
  return event;
}

const chunkOf = (delta: object, finish_reason: string | null = null): string =>
  JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] });

/** An engine's own error, as a chat has it. */
function errorOf(error: unknown): string {
  const { message, code } = isFields(error) ? error : {};
  return JSON.stringify({
    error: {
      message: textOf(message) || "The model server failed during the response.",
      type: "server_error",
      code: textOf(code) || null,
    },
  });
}
