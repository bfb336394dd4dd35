// One request to an agent, independent of its connection.
export interface UpstreamRequest {
  readonly path: string;
  readonly ticket: string;
  readonly body: Buffer;
  /** Content type of the body; default JSON. */
  readonly contentType?: string;
}

/** A running request. */
export interface UpstreamCall {
  abort(reason: Error): void;
  pause(): void;
  resume(): void;
}

/** Events of a request, in this order; the last is `onResponseEnd` or `onResponseError`, unless it was aborted. */
export interface UpstreamListener {
  /** It is sent: from here on it may have run. */
  onRequestStart(call: UpstreamCall): void;
  onResponseStart(call: UpstreamCall, status: number, headers: UpstreamHeaders): void;
  onResponseData(call: UpstreamCall, chunk: Buffer): void;
  onResponseEnd(call: UpstreamCall, trailers: UpstreamHeaders): void;
  onResponseError(call: UpstreamCall | undefined, error: Error): void;
}

export type UpstreamHeaders = Readonly<Record<string, string | string[] | undefined>>;
