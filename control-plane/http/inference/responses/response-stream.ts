// Translates the stream of a chat to the events of a response.
import type { ErrorCode } from "../../../error-codes.ts";
import type { Refusal } from "../../errors/error-body.ts";
import { ChatDeltas } from "../chat-deltas.ts";
import { namedFrame, type StreamTranslation } from "../translated-stream.ts";
import { type ResponseFrame, type ResponseState, responseJson } from "./response-object.ts";
import {
  type OutputOptions,
  type ResponseEvent,
  ResponseOutput,
  type StateEvent,
  type TextDelta,
  textDelta,
} from "./response-output.ts";

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
  let frames = "";
  let last: StateEvent | undefined;
  const write = frameWriter(options.frame);
  const output = new ResponseOutput(options, (event) => {
    if (save && output.final && hasState(event)) last = event;
    else frames += write(event);
  });
  const deltas = new ChatDeltas((delta) => output.take(delta));
  const drain = (): string => {
    const drained = frames;
    frames = "";
    return drained;
  };
  const lastFrame = (isSaved: boolean): string =>
    drain() + frameWriter({ ...options.frame, store: isSaved })(last as StateEvent);
  let saving: Promise<string> | undefined;
  const saved = (): string | Promise<string> => {
    if (!save || !last) return drain();
    saving ??= save(output.final as ResponseState).then(lastFrame);
    return saving;
  };
  return {
    keptBytes() {
      return output.keptBytes;
    },
    event(data) {
      deltas.read(data);
      return drain();
    },
    texts(frames, from) {
      return deltas.readTexts(frames, from);
    },
    flush() {
      deltas.flush();
      return drain();
    },
    end() {
      deltas.end();
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

/** Writes events as namedFrame does. The response is in several of them, so that its fields are written once. */
export function frameWriter(frame: ResponseFrame): (event: ResponseEvent | StateEvent | TextDelta) => string {
  const frameJson = JSON.stringify(frame);
  let written: ResponseState | undefined;
  let json = "";
  return (event) => {
    if (hasState(event)) {
      const { type, sequence_number: sequence, state } = event;
      if (state !== written) json = responseJson(frameJson, state);
      written = state;
      return `event: ${type}\ndata: {"type":"${type}","sequence_number":${sequence},"response":${json}}\n\n`;
    }
    return event.type === textDelta ? textFrame(event as TextDelta) : namedFrame(event.type, event);
  };
}

const hasState = (event: ResponseEvent | StateEvent | TextDelta): event is StateEvent => "state" in event;

/** As namedFrame, in a quarter of the time: most events of a stream are of this type. */
function textFrame(event: TextDelta): string {
  const { sequence_number: sequence, item_id: item, output_index: index, content_index: part, delta, logprobs } = event;
  const at = `"sequence_number":${sequence},"item_id":"${item}","output_index":${index},"content_index":${part}`;
  const tokens = logprobs.length === 0 ? "[]" : JSON.stringify(logprobs);
  return `${textStart}${at},"delta":${JSON.stringify(delta)},"logprobs":${tokens}}\n\n`;
}

const textStart = `event: ${textDelta}\ndata: {"type":"${textDelta}",`;

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
