import { neverConnected } from "../proto/never-connected.ts";
import { CliError, exitCode, exitCodeOfStatus } from "./cli-error.ts";
import { withCommands } from "./command-of-path.ts";
import type { Connection } from "./connection.ts";

export interface Api {
  /** Returns the parsed body of a 2xx response. Throws CliError otherwise. */
  call<Body>(
    method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Body>;
  /** Yields the JSON of each server-sent event and ends at `[DONE]`. */
  stream<Event>(path: string, body: unknown, signal?: AbortSignal): AsyncGenerator<Event>;
  /** Sends a form and streams its files. */
  upload<Body>(path: string, form: FormData): Promise<Body>;
  /** Streams the bytes of a response. */
  download(path: string): Promise<ReadableStream<Uint8Array>>;
}

const limitMs = 600_000;

export function openApi(connection: Connection, options: { readonly anonymous?: boolean } = {}): Api {
  /** The server that responded last comes first. */
  let hosts: readonly string[] = [connection.host, ...(connection.others ?? [])];
  const request = (
    host: string,
    method: string,
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>>,
    signal?: AbortSignal,
  ) =>
    fetch(host + path, {
      method,
      headers: {
        ...headers,
        ...(options.anonymous ? {} : { authorization: `Bearer ${connection.key()}` }),
        ...(body === undefined || body instanceof FormData ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
      signal: AbortSignal.any([AbortSignal.timeout(limitMs), ...(signal ? [signal] : [])]),
    });
  const send = async (
    method: string,
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
    signal?: AbortSignal,
  ): Promise<Response> => {
    const tried = hosts;
    for (const [n, host] of tried.entries()) {
      let response: Response;
      try {
        response = await request(host, method, path, body, headers, signal);
      } catch (cause) {
        if (n + 1 < tried.length && isSafeToRetry(method, cause)) continue;
        throw unreachable(tried.slice(0, n + 1).join(", "), cause);
      }
      hosts = [host, ...tried.filter((one) => one !== host)];
      if (!response.ok) throw await refusal(response, options.anonymous ? undefined : connection.keySource);
      return response;
    }
    throw new CliError("No server given. Set --host or STOKER_HOST.", exitCode.wrongUsage);
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
    async *stream<Event>(path: string, body: unknown, signal?: AbortSignal) {
      const response = await send("POST", path, body, {}, signal);
      const requestId = response.headers.get("x-request-id") ?? undefined;
      for await (const data of events(response.body ?? new ReadableStream())) {
        if (data === "[DONE]") return;
        const event = JSON.parse(data) as { error?: { message?: string } };
        if (event.error)
          throw new CliError(withCommands(event.error.message ?? "The stream failed."), exitCode.failed, { requestId });
        yield event as Event;
      }
      throw new CliError("The stream ended before its last event.", exitCode.failed, { requestId });
    },
  };
}

/** Only a request that cannot have had an effect is sent to another server. */
function isSafeToRetry(method: string, error: unknown): boolean {
  if (error instanceof CliError || (error as Error).name === "TimeoutError") return false;
  return method === "GET" || neverConnected(error);
}

function unreachable(host: string, cause: unknown): unknown {
  if (cause instanceof CliError) return cause;
  const { problem, fix } = connectionFailure(host, cause);
  const code = isTimeout(cause) ? exitCode.timedOut : exitCode.unavailable;
  return new CliError([problem, fix].filter((text) => text !== "").join(" "), code, { cause });
}

const isTimeout = (cause: unknown): boolean => (cause as Error).name === "TimeoutError";

interface ConnectionFailure {
  readonly problem: string;
  /** Suggested action; empty: none. */
  readonly fix: string;
}

/** Cause of a request without a response. */
export function connectionFailure(host: string, cause: unknown, waitedMs = limitMs): ConnectionFailure {
  if (isTimeout(cause)) return { problem: `No response from ${host} within ${waitedMs / 1000} s.`, fix: "" };
  const fix =
    "Start Stoker with ./scripts/up, or set --host or STOKER_HOST to its URL, or STOKER_DATA to its data folder.";
  return tlsFailure(host, cause) ?? { problem: `Could not reach ${host}.`, fix };
}

/** Undefined if TLS did not cause the failure. */
function tlsFailure(host: string, error: unknown): ConnectionFailure | undefined {
  const { code = "", message = "" } = ((error as Error).cause ?? {}) as { code?: string; message?: string };
  if (code === "CERT_HAS_EXPIRED")
    return { problem: `The certificate of ${host} has expired.`, fix: "Renew it on the server." };
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID")
    return {
      problem: `The certificate of ${host} is for another name.`,
      fix: "Use a name that the certificate holds: --host or STOKER_HOST.",
    };
  if (/CERT|SELF_SIGNED|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/.test(code))
    return {
      problem: `The certificate of ${host} is not trusted (${code}).`,
      fix: "Set NODE_EXTRA_CA_CERTS to the file with the certificate of its authority.",
    };
  if (
    host.startsWith("https:") &&
    (code === "ERR_SSL_WRONG_VERSION_NUMBER" || code === "ERR_SSL_PACKET_LENGTH_TOO_LONG")
  )
    return { problem: `${host} does not use TLS.`, fix: "Use http:// instead of https://." };
  const isClosed = code === "ECONNRESET" || code === "UND_ERR_SOCKET" || code.startsWith("HPE_");
  if (host.startsWith("http:") && isClosed)
    return {
      problem: `${host} closed the connection without a response (${code || message}).`,
      fix: "If it uses TLS, use https:// instead of http://.",
    };
  return undefined;
}

async function refusal(response: Response, keySource: string | undefined): Promise<CliError> {
  const requestId = response.headers.get("x-request-id") ?? undefined;
  const { status } = response;
  const body = (await response.json().catch(() => undefined)) as ErrorBody | undefined;
  const said = withCommands(errorText(body) ?? `The server returned status ${status}.`);
  const text = status === 401 && keySource ? `${said} The key is from ${keySource}.` : said;
  const help = helpLink(response);
  return new CliError(text, exitCodeOfStatus(status), { requestId, code: errorCode(body), status, help });
}

/** Target of the header `Link` with the relation `help`. */
function helpLink({ headers, url }: Response): string | undefined {
  const target = /<([^>]*)>\s*;\s*rel="?help"?/.exec(headers.get("link") ?? "")?.[1];
  return target === undefined ? undefined : URL.parse(target, url)?.href;
}

interface ErrorBody {
  readonly code?: string;
  readonly error?: string | { readonly message?: string; readonly code?: string };
  readonly detail?:
    | string
    | { readonly error?: string; readonly message?: string; readonly status?: string }
    | readonly { readonly loc: readonly string[]; readonly msg: string }[];
}

/** Error code in any of the API's formats. */
export function errorCode({ code, error, detail }: ErrorBody = {}): string | undefined {
  if (code !== undefined) return code;
  if (typeof error === "object") return error.code;
  return typeof detail === "object" && "status" in detail ? detail.status : undefined;
}

/** Prefixes the field name unless the message already starts with it or is about the whole request. */
function fieldText({ loc, msg }: { readonly loc: readonly string[]; readonly msg: string }): string {
  const field = loc.slice(1).join(".");
  const isNamed = [`${field}: `, `${field} `, `The ${field} `].some((start) =>
    msg.replaceAll("`", "").startsWith(start),
  );
  return field === "" || isNamed ? msg : `${field}: ${msg}`;
}

/** Message of an error body in any of the API's formats. Validation errors name each field. */
export function errorText(body: ErrorBody | undefined): string | undefined {
  const { error, detail } = body ?? {};
  if (Array.isArray(detail)) return detail.map(fieldText).join("; ");
  if (typeof error === "string") return error;
  if (error?.message !== undefined) return error.message;
  if (typeof detail === "string") return detail;
  return detail && "message" in detail ? detail.message : undefined;
}

/** Yields the `data` of each server-sent event; ignores comments and other fields. */
export async function* events(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of bytes) {
    // Normalise the whole remainder, because a chunk may end between CR and LF.
    text = (text + decoder.decode(chunk, { stream: true })).replaceAll("\r\n", "\n");
    let end = text.indexOf("\n\n");
    while (end >= 0) {
      const data = dataOf(text.slice(0, end));
      if (data !== undefined) yield data;
      text = text.slice(end + 2);
      end = text.indexOf("\n\n");
    }
  }
}

function dataOf(event: string): string | undefined {
  const lines = event.split("\n").filter((line) => line.startsWith("data:"));
  return lines.length === 0 ? undefined : lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n");
}
