// What a fake engine does with a request, and what it remembers of it.

export interface EngineBehaviour {
  /** Content tokens per choice, one frame each; fewer when the request's max_tokens is lower. */
  readonly tokens: number;
  /** Wait before the response headers of an answer. */
  readonly firstByteMs: number;
  /** Begins no answer before this is settled. */
  readonly until: Promise<unknown> | undefined;
  /** Wait between the writes of a stream; of a complete answer: per token. 0: at once. */
  readonly tokenMs: number;
  readonly framesPerWrite: number;
  /** Where a stream carries its usage. `extra` as the OpenAI API does, `finish` on the chunk with finish_reason. */
  readonly usage: "extra" | "finish" | "none";
  /** Every chunk says `"usage":null` until the real one, as some engines do. */
  readonly nullUsage: boolean;
  /** JSON with a space after colons and commas, as Python's json.dumps writes it. */
  readonly spaced: boolean;
  readonly cachedTokens: number;
  /** Reported tokens of each prompt; undefined: its words. */
  readonly promptTokens?: number | undefined;
  /** Answers this status with an OpenAI error body and generates nothing. */
  readonly status: number;
  /** Message of that body. */
  readonly message?: string;
  /** Destroys the socket after so many content frames; 0: before the response headers. -1: never. */
  readonly breakAfter: number;
  /** Stops sending after so many content frames but keeps the socket open; 0: before the response headers. -1: never. */
  readonly hangAfter: number;
  /** The text of each token, with its number in place of `#`. Longer ones make big frames. */
  readonly token: string;
  /** False: `GET /usage/{id}` is 404, as with engines that are not ours. */
  readonly usageEndpoint: boolean;
  /** `POST /tokenize` counts as vLLM does; undefined: 404. */
  readonly tokenizes?: number | undefined;
  /** Text of `GET /metrics`; undefined: 404. */
  readonly metrics?: string | undefined;
}

export const calm: EngineBehaviour = {
  tokens: 16,
  firstByteMs: 0,
  until: undefined,
  tokenMs: 0,
  framesPerWrite: 1,
  usage: "extra",
  nullUsage: false,
  spaced: false,
  cachedTokens: 0,
  status: 200,
  breakAfter: -1,
  hangAfter: -1,
  token: " tok",
  usageEndpoint: true,
};

export interface EngineRequest {
  readonly path: string;
  /** Header `x-stoker-request-id`: `<requestId>.<attempt>`. */
  readonly id: string;
  readonly body: Readonly<Record<string, unknown>>;
}

/** One line of the engine's own book: what it really sent. Times are Unix ms. */
export interface EngineLogEntry {
  readonly id: string;
  readonly path: string;
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
  readonly startedAtMs: number;
  promptTokens: number;
  /** Content tokens handed to the socket, over all choices. */
  sentTokens: number;
  endedAtMs?: number;
  end?: "done" | "aborted" | "broken" | "failed";
}
