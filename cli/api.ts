import { CliError, exitCode, exitCodeOfStatus } from "./cli-error.ts";
import type { Connection } from "./connection.ts";
import { events } from "./events.ts";

export interface Api {
  /** Resolves with the parsed body of a 2xx answer; every other end is a CliError. */
  call<Body>(
    method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Body>;
  /** The same for server-sent events: yields each event's JSON and ends at `[DONE]`. */
  stream<Event>(path: string, body: unknown): AsyncGenerator<Event>;
  /** A form, with its files streamed. */
  upload<Body>(path: string, form: FormData): Promise<Body>;
  /** An answer's bytes as they come. */
  download(path: string): Promise<ReadableStream<Uint8Array>>;
}

const limitMs = 600_000;

export function openApi(connection: Connection, options: { readonly anonymous?: boolean } = {}): Api {
  const send = async (
    method: string,
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Response> => {
    let response: Response;
    try {
      response = await fetch(connection.host + path, {
        method,
        headers: {
          ...headers,
          ...(options.anonymous ? {} : { authorization: `Bearer ${connection.key()}` }),
          ...(body === undefined || body instanceof FormData ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
        signal: AbortSignal.timeout(limitMs),
      });
    } catch (cause) {
      throw unreachable(connection.host, cause);
    }
    if (!response.ok) throw await refusal(response);
    return response;
  };
  return {
    async call<Body>(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>) {
      const response = await send(method, path, body, headers);
      return (await response.json().catch(() => ({}))) as Body;
    },
    async upload<Body>(path: string, form: FormData) {
      return (await (await send("POST", path, form)).json()) as Body;
    },
    async download(path: string) {
      return (await send("GET", path, undefined)).body ?? new ReadableStream();
    },
    async *stream<Event>(path: string, body: unknown) {
      const response = await send("POST", path, body);
      const requestId = response.headers.get("x-request-id") ?? undefined;
      for await (const data of events(response.body ?? new ReadableStream())) {
        if (data === "[DONE]") return;
        const event = JSON.parse(data) as { error?: { message?: string } };
        if (event.error) throw new CliError(event.error.message ?? "the stream failed", exitCode.failed, { requestId });
        yield event as Event;
      }
      throw new CliError("the stream ended before its last event", exitCode.failed, { requestId });
    },
  };
}

function unreachable(host: string, cause: unknown): unknown {
  if (cause instanceof CliError) return cause;
  if ((cause as Error).name === "TimeoutError") {
    return new CliError(`${host} did not answer within ${limitMs / 1000} s.`, exitCode.timedOut, { cause });
  }
  return new CliError(
    `${host} cannot be reached; start Stoker with ./scripts/up, or say where it runs: --host or STOKER_HOST with its URL, or ` +
      "STOKER_DATA with the data folder that it was started on.",
    exitCode.unavailable,
    { cause },
  );
}

async function refusal(response: Response): Promise<CliError> {
  const requestId = response.headers.get("x-request-id") ?? undefined;
  const body = (await response.json().catch(() => undefined)) as ErrorBody | undefined;
  return new CliError(errorText(body) ?? `the server answered ${response.status}`, exitCodeOfStatus(response.status), {
    requestId,
  });
}

interface ErrorBody {
  readonly error?: string | { readonly message?: string };
  readonly detail?:
    | string
    | { readonly error?: string; readonly message?: string }
    | readonly { readonly loc: readonly string[]; readonly msg: string }[];
}

/** The sentence in an error body, whichever of the API's dialects it has; validation names each field. */
export function errorText(body: ErrorBody | undefined): string | undefined {
  const { error, detail } = body ?? {};
  if (Array.isArray(detail)) return detail.map(({ loc, msg }) => `${loc.slice(1).join(".")}: ${msg}`).join("; ");
  if (typeof error === "string") return error;
  if (error?.message !== undefined) return error.message;
  if (typeof detail === "string") return detail;
  return detail && "message" in detail ? detail.message : undefined;
}
