import { CliError, exitCode, exitCodeOfStatus } from "./cli-error.ts";
import { withCommands } from "./command-of-path.ts";
import type { Connection } from "./connection.ts";
import { events } from "./events.ts";
import { neverConnected } from "./never-connected.ts";

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
  /** The one that answered last comes first. */
  let hosts: readonly string[] = [connection.host, ...(connection.others ?? [])];
  const ask = (host: string, method: string, path: string, body: unknown, headers: Readonly<Record<string, string>>) =>
    fetch(host + path, {
      method,
      headers: {
        ...headers,
        ...(options.anonymous ? {} : { authorization: `Bearer ${connection.key()}` }),
        ...(body === undefined || body instanceof FormData ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(limitMs),
    });
  const send = async (
    method: string,
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Response> => {
    const asked = hosts;
    for (const [n, host] of asked.entries()) {
      let response: Response;
      try {
        response = await ask(host, method, path, body, headers);
      } catch (cause) {
        if (n + 1 < asked.length && mayAskAnother(method, cause)) continue;
        throw unreachable(asked.slice(0, n + 1).join(", "), cause);
      }
      hosts = [host, ...asked.filter((one) => one !== host)];
      if (!response.ok) throw await refusal(response);
      return response;
    }
    throw new CliError("no server was named", exitCode.wrongUsage);
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
        if (event.error)
          throw new CliError(withCommands(event.error.message ?? "the stream failed"), exitCode.failed, { requestId });
        yield event as Event;
      }
      throw new CliError("the stream ended before its last event", exitCode.failed, { requestId });
    },
  };
}

/** What may have been done already is not asked for a second time. */
function mayAskAnother(method: string, error: unknown): boolean {
  if (error instanceof CliError || (error as Error).name === "TimeoutError") return false;
  return method === "GET" || neverConnected(error);
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
  const text = withCommands(errorText(body) ?? `the server answered ${response.status}`);
  return new CliError(text, exitCodeOfStatus(response.status), { requestId });
}

interface ErrorBody {
  readonly error?: string | { readonly message?: string };
  readonly detail?:
    | string
    | { readonly error?: string; readonly message?: string }
    | readonly { readonly loc: readonly string[]; readonly msg: string }[];
}

/** Says the field once: some sentences begin with it themselves, and some are about the request as a whole. */
function fieldText({ loc, msg }: { readonly loc: readonly string[]; readonly msg: string }): string {
  const field = loc.slice(1).join(".");
  const isNamed = [": ", " "].some((end) => msg.replaceAll("`", "").startsWith(`${field}${end}`));
  return field === "" || isNamed ? msg : `${field}: ${msg}`;
}

/** The sentence in an error body, whichever of the API's dialects it has; validation names each field. */
export function errorText(body: ErrorBody | undefined): string | undefined {
  const { error, detail } = body ?? {};
  if (Array.isArray(detail)) return detail.map(fieldText).join("; ");
  if (typeof error === "string") return error;
  if (error?.message !== undefined) return error.message;
  if (typeof detail === "string") return detail;
  return detail && "message" in detail ? detail.message : undefined;
}
