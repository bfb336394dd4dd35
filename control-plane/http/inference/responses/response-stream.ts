// Translates the stream of a chat to the events of a response.
import type { ErrorCode } from "../../../error-codes.ts";
import type { Refusal } from "../../errors/error-body.ts";
import { chatStream } from "../chat-stream.ts";
import type { StreamTranslation } from "../translated-stream.ts";
import type { StateEvent } from "./response-events.ts";
import { frameWriter } from "./response-json.ts";
import type { ResponseState } from "./response-object.ts";
import { type OutputOptions, ResponseOutput } from "./response-output.ts";

export interface ResponseStream extends StreamTranslation {
  /** Frames of a response that broke. A promise does not reject. */
  fail(refusal: Refusal): string | Promise<string>;
  /** Stores what a client that has disconnected left. */
  leave(): void;
}

/** Stores a response; false: it could not be stored. */
type SaveResponse = (state: ResponseState) => Promise<boolean>;

/** `save`: its last event waits until it is stored. */
export function responseStream(options: OutputOptions, save?: SaveResponse): ResponseStream {
  const write = frameWriter(options.frame);
  const stream = chatStream((delta) => output.take(delta));
  let last: StateEvent | undefined;
  const output = new ResponseOutput(options, (event) => {
    if (save && output.final && "state" in event) last = event as StateEvent;
    else stream.write(write(event));
  });
  const lastFrame = (isSaved: boolean): string =>
    stream.drain() + frameWriter({ ...options.frame, store: isSaved })(last as StateEvent);
  let saving: Promise<string> | undefined;
  const saved = (): string | Promise<string> => {
    if (!save || !last) return stream.drain();
    saving ??= save(output.final as ResponseState).then(lastFrame);
    return saving;
  };
  return {
    ...stream,
    keptBytes() {
      return output.keptBytes;
    },
    end() {
      stream.close();
      return saved();
    },
    fail(refusal) {
      output.fail(errorOf(refusal));
      return saved();
    },
    leave() {
      if (!save || saving) return;
      output.cancel();
      const { final } = output;
      if (final) void save(final);
    },
  };
}

/** Error of a response object: OpenAI defines a closed list of codes. */
export function errorOf({ kind, message }: Refusal): { readonly code: ErrorCode; readonly message: string } {
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
