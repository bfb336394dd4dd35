// Translates the stream of a chat to the events of a message.
import { chatStream } from "../chat-stream.ts";
import { namedFrame, type StreamTranslation } from "../translated-stream.ts";
import { type MessageEvent, MessageEvents, type MessageFacts } from "./message-events.ts";

export function messageStream(facts: MessageFacts): StreamTranslation {
  const stream = chatStream((delta) => events.delta(delta));
  const events = new MessageEvents(facts, (event) => stream.write(messageFrame(event)));
  return {
    ...stream,
    keptBytes() {
      return events.keptBytes;
    },
    end() {
      stream.close();
      return stream.drain();
    },
  };
}

/** Writes an event as namedFrame does. Texts are most of a stream, and are written in a quarter of the time. */
export function messageFrame(event: MessageEvent): string {
  const { type } = event;
  if (type === "ping") return ping;
  if (type === "message_stop") return stop;
  if (type !== "content_block_delta" || event.delta.type !== "text_delta") return namedFrame(type, event);
  return `${textStart}${event.index},"delta":{"type":"text_delta","text":${JSON.stringify(event.delta.text)}}}\n\n`;
}

const ping = namedFrame("ping", { type: "ping" });
const stop = namedFrame("message_stop", { type: "message_stop" });
const textStart = 'event: content_block_delta\ndata: {"type":"content_block_delta","index":';
