// Events of a streamed message. Drops blocks that a chat has no place for, such as signatures.
import { isJsonObject, type JsonObject } from "../../proto/json-object.ts";
import { finishOfStop, messageUsage, textOf } from "./format-answers.ts";
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

export class MessageFrames extends TranslatedFrames {
  constructor(...parts: ConstructorParameters<typeof UsageFrames>) {
    super(new MessageChunks(), ...parts);
  }
}

interface Call {
  readonly index: number;
  readonly input: unknown;
  hasArguments: boolean;
}

class MessageChunks implements EventReader {
  #head: JsonObject | undefined;
  #usage: JsonObject = {};
  /** By index. Undefined: a block without calls. */
  readonly #blocks = new Map<unknown, Call | undefined>();
  #callCount = 0;
  #hasOutput = false;
  #isFinished = false;

  read(event: JsonObject): readonly string[] {
    const { type } = event;
    if (typeof type !== "string") throw noEvent();
    if (type === "error") return this.#failed(event["error"]);
    if (type === "message_start") return this.#start(event["message"]);
    if (type === "ping") return [];
    // Without it the input tokens are unknown.
    if (!this.#head) throw noEvent();
    if (type === "message_stop" && this.#isFinished) return ["[DONE]"];
    if (!type.startsWith("content_block_") && !type.startsWith("message_")) return [];
    if (this.#isFinished) throw noEvent();
    switch (type) {
      case "content_block_start":
        return this.#begin(event["index"], event["content_block"]);
      case "content_block_delta":
        return this.#delta(event["index"], event["delta"]);
      case "content_block_stop":
        return this.#end(event["index"]);
      case "message_delta":
        return this.#finish(event);
      default:
        throw noEvent();
    }
  }

  #start(message: unknown): readonly string[] {
    if (this.#head || !isJsonObject(message)) throw noEvent();
    this.#head = { id: textOf(message["id"]), created: Math.floor(Date.now() / 1000), model: textOf(message["model"]) };
    this.#count(message["usage"]);
    return [];
  }

  #count(usage: unknown): void {
    if (!isJsonObject(usage)) return;
    const known = Object.entries(usage).filter(([, value]) => value != null);
    this.#usage = { ...this.#usage, ...Object.fromEntries(known) };
  }

  #begin(at: unknown, block: unknown): readonly string[] {
    if (typeof at !== "number" || this.#blocks.has(at) || !isJsonObject(block)) throw noEvent();
    bounded(this.#blocks.size);
    if (block["type"] !== "tool_use") {
      this.#blocks.set(at, undefined);
      if (block["type"] === "text") return this.#text("content", block["text"]);
      return block["type"] === "thinking" ? this.#text("reasoning_content", block["thinking"]) : [];
    }
    const index = this.#callCount;
    this.#callCount += 1;
    this.#blocks.set(at, { index, input: block["input"], hasArguments: false });
    const given = { name: textOf(block["name"]), arguments: "" };
    return [this.#chunk({ tool_calls: [{ index, id: textOf(block["id"]), type: "function", function: given }] })];
  }

  #delta(at: unknown, delta: unknown): readonly string[] {
    if (!this.#blocks.has(at) || !isJsonObject(delta)) throw noEvent();
    switch (delta["type"]) {
      case "text_delta":
        return this.#text("content", delta["text"]);
      case "thinking_delta":
        return this.#text("reasoning_content", delta["thinking"]);
      case "input_json_delta": {
        const call = this.#blocks.get(at);
        return call ? this.#arguments(call, textOf(delta["partial_json"])) : [];
      }
      default:
        return [];
    }
  }

  /** A call without arguments has the text of an object as well. */
  #end(at: unknown): readonly string[] {
    const call = this.#blocks.get(at);
    if (!call || call.hasArguments) return [];
    return this.#arguments(call, JSON.stringify(isJsonObject(call.input) ? call.input : {}));
  }

  #arguments(call: Call, text: string): readonly string[] {
    if (text === "") return [];
    call.hasArguments = true;
    return [this.#chunk({ tool_calls: [{ index: call.index, function: { arguments: text } }] })];
  }

  #text(field: "content" | "reasoning_content", text: unknown): readonly string[] {
    return textOf(text) === "" ? [] : [this.#chunk({ [field]: text })];
  }

  #finish({ delta, usage }: JsonObject): readonly string[] {
    this.#count(usage);
    if (!isJsonObject(delta) || delta["stop_reason"] == null) return [];
    const finish_reason = finishOfStop(delta["stop_reason"]);
    if (finish_reason === undefined) throw noEvent();
    this.#isFinished = true;
    const finish = { finish_reason, stop_reason: delta["stop_sequence"] ?? null };
    const counted = Object.keys(this.#usage).length === 0 ? undefined : messageUsage(this.#usage);
    return [this.#chunk({}, finish), ...(counted ? [usageChunkOf(counted, this.#head)] : [])];
  }

  /** Before its first output, another model may still serve the request: it ends as a broken reply does. */
  #failed(error: unknown): readonly string[] {
    const type = isJsonObject(error) ? textOf(error["type"]).slice(0, 64) : "";
    if (!this.#hasOutput) throw new RangeError(`the model server failed before its reply: ${JSON.stringify(type)}`);
    return [errorOf(isJsonObject(error) ? { ...error, code: type } : error)];
  }

  #chunk(delta: object, finish?: object): string {
    const role = this.#hasOutput ? {} : { role: "assistant" };
    this.#hasOutput = true;
    return chunkOf({ ...role, ...delta }, finish, this.#head);
  }
}
