// Reads the stream of a chat for its translation to the events of another API.
import { type ChatDelta, ChatDeltas } from "./chat-deltas.ts";
import type { StreamTranslation } from "./translated-stream.ts";

export interface ChatStream extends Required<Pick<StreamTranslation, "texts" | "flush">> {
  event(data: string): string;
  /** The chat has ended: writes the frames of its last deltas. */
  close(): void;
  /** Adds a frame to those that the calls above return. */
  write(frame: string): void;
  /** Returns the frames that were written since the last call of any that returns frames. */
  drain(): string;
}

/** `take` receives the deltas in order, during the calls of the stream. */
export function chatStream(take: (delta: ChatDelta) => void): ChatStream {
  const deltas = new ChatDeltas(take);
  let frames = "";
  const drain = (): string => {
    const drained = frames;
    frames = "";
    return drained;
  };
  return {
    event(data) {
      deltas.read(data);
      return drain();
    },
    texts(given, from) {
      return deltas.readTexts(given, from);
    },
    flush() {
      deltas.flush();
      return drain();
    },
    close() {
      deltas.end();
    },
    write(frame) {
      frames += frame;
    },
    drain,
  };
}
