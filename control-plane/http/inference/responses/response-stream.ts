// Translates the stream of a chat to the events of a response.
import type { Refusal } from "../../errors/error-body.ts";
import { ChatDeltas } from "../chat-deltas.ts";
import { namedFrame, type StreamTranslation } from "../translated-stream.ts";
import { type OutputOptions, ResponseOutput } from "./response-output.ts";

export interface ResponseStream extends StreamTranslation {
  /** Frames of a response that broke. */
  fail(refusal: Refusal): string;
}

export function responseStream(options: OutputOptions): ResponseStream {
  let frames = "";
  const output = new ResponseOutput(options, (event) => {
    frames += namedFrame(event.type, event);
  });
  const deltas = new ChatDeltas((delta) => output.take(delta));
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
    end() {
      deltas.end();
      return drain();
    },
    fail(refusal) {
      output.fail(errorOf(refusal));
      return drain();
    },
  };
}

/** Error of a response object: OpenAI defines a closed list of codes. */
export function errorOf({ kind, message }: Refusal): { readonly code: string; readonly message: string } {
  switch (kind) {
    case "rate_limited":
      return { code: "rate_limit_exceeded", message };
    case "bad_request":
    case "invalid":
    case "too_large":
      return { code: "invalid_prompt", message };
    default:
      return { code: "server_error", message };
  }
}
