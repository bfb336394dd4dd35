// Refusals of the edge itself: unreadable requests, and names that the edge resolves.
import { audioFormats } from "../../../proto/audio-formats.ts";
import type { ConstraintProblem } from "../../../proto/constraint-size.ts";
import type { ErrorCode } from "../../error-codes.ts";
import {
  badRequest,
  type ErrorFacts,
  forbidden,
  invalid,
  notFound,
  rateLimited,
  requestTimeout,
  ServiceError,
  tooLarge,
  unavailable,
} from "../../service-error.ts";

/** Refusal with a status of the HTTP protocol that no kind of error has. */
export class ProtocolError extends ServiceError {
  readonly status: number;
  constructor(status: number, code: ErrorCode, message: string, facts: ErrorFacts = {}) {
    super("bad_request", code, message, facts);
    this.status = status;
  }
}

/** A schema or pattern that would cost an engine too much. */
export const formatTooLarge = ({ param, message }: ConstraintProblem) =>
  badRequest("format_too_large", message, { param });

export function malformedBody(cause: unknown): ServiceError {
  const why = cause instanceof SyntaxError ? whereOf(cause) : "";
  return badRequest("json_invalid", `The request body is not valid JSON${why}. Send one JSON object in UTF-8.`);
}

/** Broken sequences, unpaired surrogates, or another encoding. */
export const bodyNotUtf8 = () =>
  badRequest("json_invalid", "The request body is not valid UTF-8. Encode it as UTF-8 and send it again.");

/** `encoding`: value of the header Content-Encoding. */
export const bodyCompressed = (encoding: string) =>
  badRequest(
    "content_encoding_unsupported",
    `Unsupported Content-Encoding ${JSON.stringify(encoding.slice(0, 32))}. Send the request body uncompressed.`,
  );

/** An escaped unpaired surrogate is valid JSON. `param`: its field; undefined: a key, or the whole body. */
export const textNotUnicode = (param: string | undefined) =>
  invalid(
    "validation_error",
    "A text in the request contains an unpaired surrogate (\\ud800 to \\udfff). Send the whole character, or \\ufffd instead.",
    param === undefined ? {} : { param },
  );

export const nestedTooDeep = (maxDepth: number) =>
  invalid("validation_error", `The request body must nest lists and objects at most ${maxDepth} levels deep.`);

export const jsonTooComplex = () =>
  invalid(
    "validation_error",
    "The request body holds too many JSON values: at most 800,000 numbers, 60,000 short texts or 15,000 object fields. Split it " +
      "into several requests.",
  );

/** The body is incomplete and no data arrived for this long. */
export const bodyStalled = (stalledMs: number) =>
  requestTimeout(
    "body_stalled",
    `No data of the request body was received for ${stalledMs / 1000} s. Send the request again.`,
  );

/** The path exists for other methods. `allowed`: value of the header `Allow`. */
export const methodNotAllowed = (method: string, allowed: string) =>
  new ServiceError("unsupported", "method_not_allowed", `Method ${method} not allowed. Allowed: ${allowed}.`);

/** The path of the request is not repeated: it can be long, and a log line or a page may show the message. */
export function routeNotFound(nearest: { readonly method: string; readonly path: string } | undefined): ServiceError {
  const advice = nearest ? `Did you mean ${nearest.method} ${nearest.path}?` : "/docs lists all paths.";
  return notFound("route_not_found", `No such path. ${advice}`);
}

export const hostMissing = () =>
  badRequest("host_missing", "The header Host is required. Set it to the name and port of this server.");

export const hostRepeated = () => badRequest("host_repeated", "The request has more than one Host header. Send one.");

/** For requests of one address without a valid credential. */
export const tooManyRequests = (retryAfterSeconds: number) =>
  rateLimited(
    "too_many_requests",
    "Too many requests without a valid API key from your address. Wait before you retry.",
    { retryAfterSeconds },
  );

/** Sent on one connection without waiting for responses. */
export const tooManyPipelined = (max: number) =>
  rateLimited("too_many_pipelined", `At most ${max} requests may wait on one connection. Open more connections.`);

export class ExpectationUnknown extends ProtocolError {
  constructor() {
    super(417, "expectation_failed", "The only supported expectation is 100-continue. Omit the header Expect.");
  }
}

/** The bytes of the connection are not an HTTP request. */
export const requestUnreadable = (cause: Error) =>
  badRequest(
    "bad_request",
    "Malformed HTTP/1.1 request: its first line, a header, its length or a chunk is invalid. " +
      "This port expects HTTP without TLS.",
    { cause },
  );

export class HeadersTooLarge extends ProtocolError {
  constructor(limitBytes: number, cause: Error) {
    const limit = `${limitBytes / 1024} KiB`;
    super(431, "headers_too_large", `The request's headers must be at most ${limit} in total, the URL included.`, {
      cause,
    });
  }
}

export const chunkExtensionsTooLarge = (cause: Error) =>
  tooLarge(
    "body_too_large",
    "The chunk extensions of the request body are too large. Send chunks without extensions.",
    { cause },
  );

/** The headers or the whole request did not arrive in time. */
export const requestTimedOut = (cause: Error) =>
  requestTimeout("request_timeout", "The request was not received in time. Send it again.", { cause });

export const malformedForm = (cause: unknown) =>
  badRequest(
    "form_invalid",
    "The request body is not a valid multipart form: a part is incomplete, or there are too many.",
    { cause },
  );

/** For uploads. */
export const noForm = () =>
  badRequest("form_required", "Send the file as multipart/form-data, with the parts `purpose` and `file`.");

export const expiryOutOfRange = (param: string, min: number, max: number) =>
  invalid("validation_error", `\`${param}\` must be from ${min} to ${max}.`, { param });

/** A part that must be one file is a text, or occurs several times. */
export const fileMissing = (param: string) =>
  invalid("file_missing", `The part \`${param}\` must be a single file with a filename.`, { param });

/** For one file among the parts of a form. */
export const partTooLarge = (param: string, limitBytes: number) =>
  tooLarge("part_too_large", `The part \`${param}\` must be at most ${limitBytes / 1024 / 1024} MiB.`, { param });

export const partRepeated = (param: string) =>
  invalid("validation_error", `The part \`${param}\` must occur only once.`, { param });

export const speechFormatUnknown = (code: string, place: "body" | "query" = "body") =>
  invalid(
    "output_format_unknown",
    `Unsupported output format ${code.slice(0, 64)}. Supported: ${audioFormats.join(", ")}.`,
    { param: "output_format", ...(place === "query" ? { in: place } : {}) },
  );

export const transcriptFormatStreams = () =>
  invalid("invalid_value", "`response_format` must be json or text with `stream`.", { param: "response_format" });

/** The model's task has no such variant. */
export const schemaVariantMissing = (key: string, known: readonly string[]) =>
  notFound("schema_variant_not_found", `This model has no variant ${key}. Its variants: ${known.join(", ")}.`, {
    param: "variantKey",
  });

/** The model's task requires this field. */
export const fieldMissing = (param: string) =>
  invalid("validation_error", `${param}: Field required`, { param, isMissing: true });

export const badDataUri = (param: string) =>
  invalid(
    "data_uri_invalid",
    `\`${param}\` must be a file or a data URI in base64, such as data:image/png;base64,iVBOR...`,
    { param },
  );

export const lengthsDiffer = (param: string, other: string) =>
  invalid("lengths_differ", `\`${param}\` and \`${other}\` must have the same number of elements.`, { param });

/** The model's server ranks the documents of one query. */
export const oneQueryOnly = () =>
  invalid("queries_not_supported", "This model scores texts against one query. Send one request per query.", {
    param: "queries",
  });

/** Embeddings of images are refused: a reply for the texts alone would look complete. */
export const imageNotEmbedded = () =>
  invalid("image_not_supported", "This model embeds only text. Omit `image`, or use a model that accepts images.", {
    param: "image",
  });

export const webhookWithStream = () =>
  invalid("webhook_with_stream", "`stream` cannot be combined with `webhook`. Omit one of them.", {
    param: "webhook",
  });

/** Ignored, it would cost the customer an answer that nobody waits for. */
export const webhookUnsupported = () =>
  badRequest(
    "webhook_unsupported",
    "`webhook` is not a field of this endpoint. Send the request to `/v1/inference/MODEL`, in the fields of the model's task.",
    { param: "webhook" },
  );

/** An empty body is a missing field, not malformed JSON. */
export const bodyMissing = () =>
  invalid("body_missing", "A request body is required. Send one JSON object.", { isMissing: true });

export function bodyTooLarge(limitBytes: number): ServiceError {
  const limit = limitBytes < 1024 ** 2 ? `${limitBytes / 1024} KiB` : `${limitBytes / 1024 ** 2} MiB`;
  return tooLarge("body_too_large", `The request body must be at most ${limit}.`);
}

/** The memory budget for the bodies of all requests is used up. */
export const bodiesFull = () =>
  unavailable("bodies_full", "The server's memory for request bodies is full. Try again in a few seconds.", {
    retryAfterSeconds: 2,
  });

/** A known field with a value that no engine supports. */
export const valueUnsupported = (message: string, facts?: ErrorFacts) => invalid("unsupported_value", message, facts);

export const fieldUnknown = (name: string, meant: string) =>
  invalid("unknown_field", `${name} is not a known field. Did you mean ${meant}?`, { param: name });

export const badTime = (param: string, place: "body" | "query") =>
  invalid("bad_time", `${param} must be a time since 1970 in unix seconds or ISO 8601, such as 2026-01-02T03:04:05Z.`, {
    param,
    ...(place === "query" ? { in: place } : {}),
  });

export const apiKeyNotFound = () =>
  notFound("api_key_not_found", "API key not found. `GET /v1/api-tokens` lists your keys.");

export const restarting = () =>
  unavailable("restarting", "This server is shutting down. Try again in a few seconds.", { retryAfterSeconds: 2 });

/** For callers with an API key. */
export const noSession = () => notFound("no_session", "The request has no session cookie, so there is no session.");

export const csrfRefused = (why: string) =>
  forbidden(
    "csrf_refused",
    `${why} A write with the session cookie requires the header x-csrf-token (its value: GET /v1/auth/session) and ` +
      "must come from a page of this server. Scripts use an API key instead.",
  );

/** Returns only the position: the parser's own message quotes the body. */
function whereOf(error: SyntaxError): string {
  const at = /position (\d+)/.exec(error.message)?.[1];
  return at === undefined ? "" : ` (error at character ${at})`;
}
