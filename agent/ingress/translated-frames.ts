// Reads the events of a stream in another format as the chunks of a chat, and gives these to the meter of chats: its bounds, figures
// and end hold for both.
import { isJsonObject, type JsonObject } from "../../proto/json-object.ts";
import { FramePieces, frameOf, payloadOf } from "../../proto/sse-frames.ts";
import { textOf } from "./format-answers.ts";
import { maxFrameBytes, UsageFrames } from "./usage-frames.ts";

const colon = 58;
/** A model does not begin more; a server that does is broken. */
const maxItems = 1_000;

/** For one reply. */
export interface EventReader {
  /** Returns the data of the chunks of one event. Throws RangeError for what is no event of the format. */
  read(event: JsonObject): readonly string[];
}

export class TranslatedFrames extends UsageFrames {
  readonly #reader: EventReader;
  readonly #pieces = new FramePieces();

  constructor(reader: EventReader, ...[terms, price, out]: ConstructorParameters<typeof UsageFrames>) {
    super(terms, price, out);
    this.#reader = reader;
  }

  /** Throws RangeError for a frame above 1 MiB and for one that is not an event of the format. */
  override push(chunk: Buffer): void {
    this.#pieces.split(chunk, (frame) => this.#frame(frame));
    if (this.#pieces.bytes > maxFrameBytes) throw new RangeError("the engine sent a frame above 1 MiB");
  }

  #frame(frame: Buffer): void {
    if (this.isDone) return;
    const json = payloadOf(frame);
    if (!json) {
      if (frame[0] === colon) super.push(frame);
      return;
    }
    for (const one of this.#reader.read(eventOf(json))) {
      if (this.isDone) return;
      super.push(frameOf(Buffer.from(one)));
    }
  }
}

export const noEvent = (): RangeError => new RangeError("the model server sent an event that is no part of a response");

/** Throws RangeError above the limit of items of a reply. */
export function bounded(count: number): number {
  if (count >= maxItems) throw new RangeError("the model server sent too many items");
  return count;
}

function eventOf(json: Buffer): JsonObject {
  let event: unknown;
  try {
    event = JSON.parse(json.toString());
  } catch {
    throw noEvent();
  }
  if (!isJsonObject(event)) throw noEvent();
  return event;
}

export const chunkOf = (delta: object, finish: object | null = null, head: object = {}): string =>
  JSON.stringify({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason: null, ...finish }],
  });

export const usageChunkOf = (usage: object, head: object = {}): string =>
  JSON.stringify({ ...head, object: "chat.completion.chunk", choices: [], usage });

/** An engine's own error, as a chat has it. */
export function errorOf(error: unknown): string {
  const { message, code } = isJsonObject(error) ? error : {};
  return JSON.stringify({
    error: {
      message: textOf(message) || "The model server failed during the response.",
      type: "server_error",
      code: textOf(code) || null,
    },
  });
}
