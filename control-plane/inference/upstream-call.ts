// One request on its way to an agent, whatever connection carries it: what goes, what is heard of it, what may be done to it.

export interface UpstreamRequest {
  readonly path: string;
  readonly ticket: string;
  readonly body: Buffer;
  /** Of the body; default JSON. */
  readonly contentType?: string;
}

/** Of the request under way. */
export interface UpstreamCall {
  abort(reason: Error): void;
  pause(): void;
  resume(): void;
}

/** What happens to a request, in this order; the last is `onResponseEnd` or `onResponseError`, unless it was aborted. */
export interface UpstreamListener {
  /** It leaves: from here on it may have run. */
  onRequestStart(call: UpstreamCall): void;
  onResponseStart(call: UpstreamCall, status: number, headers: UpstreamHeaders): void;
  onResponseData(call: UpstreamCall, chunk: Buffer): void;
  onResponseEnd(call: UpstreamCall, trailers: UpstreamHeaders): void;
  onResponseError(call: UpstreamCall | undefined, error: Error): void;
}

export type UpstreamHeaders = Readonly<Record<string, string | string[] | undefined>>;
