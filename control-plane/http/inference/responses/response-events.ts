// Events of a response's stream.
import type { ResponseState } from "./response-object.ts";

export type ResponseEvent = Readonly<Record<string, unknown>> & { readonly type: string };

/** An event with the whole response, as its state. */
export interface StateEvent {
  readonly type: `response.${"created" | ResponseState["status"]}`;
  readonly sequence_number: number;
  readonly state: ResponseState;
}

/** The most frequent event of a stream. */
export interface TextDelta {
  readonly type: typeof textDelta;
  readonly sequence_number: number;
  readonly item_id: string;
  readonly output_index: number;
  readonly content_index: number;
  readonly delta: string;
  readonly logprobs: readonly object[];
}

export const textDelta = "response.output_text.delta";

export type OutputEvent = ResponseEvent | StateEvent | TextDelta;
