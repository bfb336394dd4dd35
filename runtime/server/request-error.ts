// A request that is refused, in the shape of the OpenAI protocol. The message is public: what, why, what to do.
export interface RefusalFacts {
  readonly param?: string | undefined;
  readonly code?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

export class RequestError extends Error {
  readonly status: number;
  readonly param: string | null;
  readonly code: string | null;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, facts: RefusalFacts = {}) {
    super(message, { cause: facts.cause });
    this.name = "RequestError";
    this.status = status;
    this.param = facts.param ?? null;
    this.code = facts.code ?? null;
    this.headers = facts.headers ?? {};
  }

  get body(): { readonly error: Readonly<Record<string, string | null>> } {
    const { message, param, code } = this;
    return { error: { message, type: typeOf(this.status), param, code } };
  }
}

function typeOf(status: number): string {
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

/** A field of the wrong type or out of its range. */
export function invalid(param: string, message: string): RequestError {
  return new RequestError(422, message, { param });
}

/** A readable field whose value this model, or this server, cannot use. */
export function unusable(param: string, message: string, code?: string): RequestError {
  return new RequestError(400, message, { param, code });
}
