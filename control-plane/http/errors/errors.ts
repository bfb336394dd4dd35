// Refusals of the edge itself: requests that could not be read, or that name something this edge looks up.
import type { ConstraintProblem } from "../../../proto/constraint-size.ts";
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

/** Refusal with a status of HTTP's own, which is no answer to what a feature was asked. */
export class ProtocolError extends ServiceError {
  readonly status: number;
  constructor(status: number, code: string, message: string, facts: ErrorFacts = {}) {
    super("bad_request", code, message, facts);
    this.status = status;
  }
}

/** A schema or pattern that would cost an engine more than any output is worth. */
export const formatTooLarge = ({ param, message }: ConstraintProblem) =>
  badRequest("format_too_large", message, { param });

export function malformedBody(cause: unknown): ServiceError {
  const why = cause instanceof SyntaxError ? whereOf(cause) : "";
  return badRequest("json_invalid", `The request body is not valid JSON${why}. Send one JSON object in UTF-8.`);
}

/** Broken sequences, halves of surrogate pairs, or another encoding. */
export const bodyNotUtf8 = () =>
  badRequest("json_invalid", "The request body is not valid UTF-8. Encode it as UTF-8 and send it again.");

/** `encoding`: as the header Content-Encoding says it. */
export const bodyCompressed = (encoding: string) =>
  badRequest(
    "content_encoding_unsupported",
    `Unsupported Content-Encoding ${JSON.stringify(encoding.slice(0, 32))}. Send the request body uncompressed.`,
  );

/** Escaped in JSON, half of a surrogate pair passes as text. `param`: where it stands; undefined: in a key, or alone. */
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

/** More of the body was announced, and nothing came for so long that nobody waits for it any more. */
export const bodyStalled = (stalledMs: number) =>
  requestTimeout(
    "body_stalled",
    `No data of the request body was received for ${stalledMs / 1000} s. Send the request again.`,
  );

/** The path is known, its methods are others. `allowed`: as the header `Allow` lists them. */
export const methodNotAllowed = (method: string, allowed: string) =>
  new ServiceError("unsupported", "method_not_allowed", `Method ${method} not allowed. Allowed: ${allowed}.`);

export const hostMissing = () =>
  badRequest("host_missing", "The header Host is required. Set it to the name and port of this server.");

export const hostRepeated = () => badRequest("host_repeated", "The request has more than one Host header. Send one.");

/** From one address without a valid credential. */
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

/** No request could be made out of what came over the connection. */
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

/** Its headers, or all of it, did not come in the time there is for that. */
export const requestTimedOut = (cause: Error) =>
  requestTimeout("request_timeout", "The request was not received in time. Send it again.", { cause });

export const malformedForm = (cause: unknown) =>
  badRequest(
    "form_invalid",
    "The request body is not a valid multipart form: a part is incomplete, or there are too many.",
    { cause },
  );

/** Of an upload. */
export const noForm = () =>
  badRequest("form_required", "Send the file as multipart/form-data, with the parts `purpose` and `file`.");

export const expiryOutOfRange = (param: string, least: number, most: number) =>
  invalid("validation_error", `\`${param}\` must be from ${least} to ${most}.`, { param });

/** A part that must be a file came as a text, or as several. */
export const fileMissing = (param: string) =>
  invalid("file_missing", `The part \`${param}\` must be a single file with a filename.`, { param });

/** Of one file among the parts of a form. */
export const partTooLarge = (param: string, limitBytes: number) =>
  tooLarge("part_too_large", `The part \`${param}\` must be at most ${limitBytes / 1024 / 1024} MiB.`, { param });

/** A part that may come once came again. */
export const partRepeated = (param: string) =>
  invalid("validation_error", `The part \`${param}\` must occur only once.`, { param });

export const speechFormatUnknown = (code: string, place: "body" | "query" = "body") =>
  invalid(
    "output_format_unknown",
    `Unsupported output format ${code.slice(0, 64)}. Supported: mp3, opus, flac, wav, pcm.`,
    { param: "output_format", ...(place === "query" ? { in: place } : {}) },
  );

/** A way to ask that the model's task does not have. */
export const schemaVariantMissing = (key: string, known: readonly string[]) =>
  notFound("schema_variant_not_found", `This model has no variant ${key}. Its variants: ${known.join(", ")}.`, {
    param: "variantKey",
  });

/** A field that the model's task needs. */
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

/** Vectors of pictures: an answer of the texts alone would pass for one of both. */
export const imageNotEmbedded = () =>
  invalid("image_not_supported", "This model embeds only text. Omit `image`, or use a model that accepts images.", {
    param: "image",
  });

export const webhookWithStream = () =>
  invalid("webhook_with_stream", "`stream` cannot be combined with `webhook`. Omit one of them.", {
    param: "webhook",
  });

/** Nothing was sent where a JSON object is needed: a field that is missing, not JSON that is broken. */
export const bodyMissing = () =>
  invalid("body_missing", "A request body is required. Send one JSON object.", { isMissing: true });

export function bodyTooLarge(limitBytes: number): ServiceError {
  const limit = limitBytes < 1024 ** 2 ? `${limitBytes / 1024} KiB` : `${limitBytes / 1024 ** 2} MiB`;
  return tooLarge("body_too_large", `The request body must be at most ${limit}.`);
}

/** Bodies of all requests together. */
export const bodiesFull = () =>
  unavailable("bodies_full", "The server's memory for request bodies is full. Try again in a few seconds.", {
    retryAfterSeconds: 2,
  });

/** A field that is known and whose value no engine here can serve. */
export const valueUnsupported = (message: string, facts?: ErrorFacts) => invalid("unsupported_value", message, facts);

export const badTime = (param: string, place: "body" | "query") =>
  invalid("bad_time", `${param} must be a time in unix seconds or ISO 8601, such as 2026-01-02T03:04:05Z.`, {
    param,
    ...(place === "query" ? { in: place } : {}),
  });

export const apiKeyNotFound = () =>
  notFound("api_key_not_found", "API key not found. `GET /v1/api-tokens` lists your keys.");

export const restarting = () =>
  unavailable("restarting", "This server is shutting down. Try again in a few seconds.", { retryAfterSeconds: 2 });

/** Asked of a caller that came with an API key. */
export const noSession = () => notFound("no_session", "The request has no session cookie, so there is no session.");

export const csrfRefused = (why: string) =>
  forbidden(
    "csrf_refused",
    `${why} A write with the session cookie requires the header x-csrf-token (its value: GET /v1/auth/session) and ` +
      "must come from a page of this server. Scripts use an API key instead.",
  );

/** The place alone: the parser's own message quotes the body. */
function whereOf(error: SyntaxError): string {
  const at = /position (\d+)/.exec(error.message)?.[1];
  return at === undefined ? "" : ` (error at character ${at})`;
}
