// Refusals of the edge itself: requests that could not be read, or that name something this edge looks up.
import { ServiceError } from "../service-error.ts";

export class MalformedBody extends ServiceError {
  readonly code = "json_invalid";
  constructor(cause: unknown) {
    const why = cause instanceof SyntaxError ? whereOf(cause) : "";
    super(`The request body is not valid JSON${why}. Send one JSON object in UTF-8.`);
  }
}

/** Broken sequences, halves of surrogate pairs, or another encoding. */
export class BodyNotUtf8 extends ServiceError {
  readonly code = "json_invalid";
  constructor() {
    super(
      "The request body is not valid UTF-8: it holds bytes that are no character, such as a cut-off one, half of a surrogate " +
        "pair, or text of another encoding. Encode it as UTF-8 and send it again.",
    );
  }
}

/** `encoding`: as the header Content-Encoding says it. */
export class BodyCompressed extends ServiceError {
  readonly code = "content_encoding_unsupported";
  constructor(encoding: string) {
    super(
      `The request body is said to be in the encoding ${JSON.stringify(encoding.slice(0, 32))}, and bodies are read as they are. Send it ` +
        "uncompressed, without Content-Encoding.",
    );
  }
}

/** Escaped in JSON, half of a surrogate pair passes as text. `param`: where it stands; undefined: in a key, or alone. */
export class TextNotUnicode extends ServiceError {
  readonly code = "validation_error";
  constructor(param: string | undefined) {
    super(
      "A text in the request holds half of a surrogate pair, an escape from \\ud800 to \\udfff without its other half, which is no " +
        "character. Send the whole character, or \\ufffd in its place.",
      param === undefined ? {} : { param },
    );
  }
}

export class NestedTooDeep extends ServiceError {
  readonly code = "validation_error";
  constructor(mostDepth: number) {
    super(`The request body nests lists and objects more than ${mostDepth} levels deep. Send a flatter one.`);
  }
}

/** More of the body was announced, and nothing came for so long that nobody waits for it any more. */
export class BodyStalled extends ServiceError {
  readonly code = "body_stalled";
  constructor(stalledMs: number) {
    super(
      `Nothing more of the request body came for ${stalledMs / 1000} s, so what had come was let go. Send the request again, over ` +
        "a connection that does not stall.",
    );
  }
}

/** The path is known, its methods are others. */
export class MethodNotAllowed extends ServiceError {
  readonly code = "method_not_allowed";
  /** As `Allow` says them. */
  readonly allowed: string;
  constructor(method: string, allowed: string) {
    super(`This path does not take ${method}. It takes ${allowed}.`);
    this.allowed = allowed;
  }
}

export class HostMissing extends ServiceError {
  readonly code = "host_missing";
  constructor() {
    super("A request of HTTP/1.1 needs the header Host. Send it, with the name and port of this server.");
  }
}

export class ExpectationUnknown extends ServiceError {
  readonly code = "expectation_failed";
  constructor() {
    super("This server knows the expectation 100-continue alone. Leave out the header Expect.");
  }
}

/** No request could be made out of what came over the connection. */
export class RequestUnreadable extends ServiceError {
  readonly code = "bad_request";
  constructor(cause: Error) {
    super(
      "What came over this connection is no readable HTTP/1.1 request: its first line, a header, its length or a chunk is " +
        "malformed. Check what sends it; this port speaks HTTP without TLS.",
      { cause },
    );
  }
}

export class HeadersTooLarge extends ServiceError {
  readonly code = "headers_too_large";
  constructor(limitBytes: number, cause: Error) {
    super(
      `The request's headers are larger than ${limitBytes / 1024} KiB together, the most this server reads. Send fewer or shorter ` +
        "ones; long cookies and query strings count.",
      { cause },
    );
  }
}

export class ChunkExtensionsTooLarge extends ServiceError {
  readonly code = "body_too_large";
  constructor(cause: Error) {
    super("The extensions of the body's chunks are larger than this server reads. Send chunks without extensions.", {
      cause,
    });
  }
}

/** Its headers, or all of it, did not come in the time there is for that. */
export class RequestTimedOut extends ServiceError {
  readonly code = "request_timeout";
  constructor(cause: Error) {
    super("The request did not come whole in the time this server waits for one. Send it again.", { cause });
  }
}

export class MalformedForm extends ServiceError {
  readonly code = "form_invalid";
  constructor(cause: unknown) {
    super("The body is not a readable multipart form: a part is cut off, or there are too many. Send it anew.", {
      cause,
    });
  }
}

/** Of an upload. */
export class NoForm extends ServiceError {
  readonly code = "form_required";
  constructor() {
    super("Send the file as multipart/form-data, with the parts `purpose` and `file`.");
  }
}

export class ExpiryOutOfRange extends ServiceError {
  readonly code = "validation_error";
  constructor(param: string, least: number, most: number) {
    super(`\`${param}\` must be from ${least} to ${most}.`, { param });
  }
}

/** A part that must be a file came as a text, or as several. */
export class FileMissing extends ServiceError {
  readonly code = "file_missing";
  constructor(param: string) {
    super(`The part \`${param}\` must be a file: give it a filename, and send it once.`, { param });
  }
}

/** Of one file among the parts of a form. */
export class PartTooLarge extends ServiceError {
  readonly code = "part_too_large";
  constructor(param: string, limitBytes: number) {
    super(
      `The part \`${param}\` is larger than ${limitBytes / 1024 / 1024} MiB, the limit of this file. Send a smaller one.`,
      {
        param,
      },
    );
  }
}

/** A part that may come once came again. */
export class PartRepeated extends ServiceError {
  readonly code = "validation_error";
  constructor(param: string) {
    super(`The part \`${param}\` came more than once. Send one.`, { param });
  }
}

export class SpeechFormatUnknown extends ServiceError {
  readonly code = "output_format_unknown";
  /** It stood in the query, not in the body. */
  readonly isOfQuery: boolean;
  constructor(code: string, isOfQuery = false) {
    super(`There is no output format ${code.slice(0, 64)}. There are mp3, opus, flac, wav and pcm.`, {
      param: "output_format",
    });
    this.isOfQuery = isOfQuery;
  }
}

/** A way to ask that the model's task does not have. */
export class SchemaVariantMissing extends ServiceError {
  readonly code = "schema_variant_not_found";
  constructor(key: string, known: readonly string[]) {
    super(`This model is not asked by ${key}. It has the variants ${known.join(", ")}.`, { param: "variantKey" });
  }
}

/** A field that the model's task needs. */
export class FieldMissing extends ServiceError {
  readonly code = "validation_error";
  /** Without the field's name, for where that stands beside it. */
  readonly what = "Field required";
  constructor(param: string) {
    super(`${param}: Field required`, { param });
  }
}

export class BadDataUri extends ServiceError {
  readonly code = "data_uri_invalid";
  constructor(param: string) {
    super(`\`${param}\` is neither a file nor a data URI in base64, such as data:image/png;base64,iVBOR...`, { param });
  }
}

export class LengthsDiffer extends ServiceError {
  readonly code = "lengths_differ";
  constructor(param: string, other: string) {
    super(`\`${param}\` and \`${other}\` are pairs, element by element: send as many of one as of the other.`, {
      param,
    });
  }
}

/** Vectors of pictures: an answer of the texts alone would pass for one of both. */
export class ImageNotEmbedded extends ServiceError {
  readonly code = "image_not_supported";
  constructor() {
    super(
      "This model makes vectors of texts, not of pictures. Leave out `image`, or ask a model that takes pictures.",
      {
        param: "image",
      },
    );
  }
}

export class WebhookWithStream extends ServiceError {
  readonly code = "webhook_with_stream";
  constructor() {
    super("A request with a webhook is answered there: leave out `stream`.", { param: "webhook" });
  }
}

/** Nothing was sent where a JSON object is needed: a field that is missing, not JSON that is broken. */
export class BodyMissing extends ServiceError {
  readonly code = "body_missing";
  constructor() {
    super("A request body is required. Send one JSON object.");
  }
}

export class BodyTooLarge extends ServiceError {
  readonly code = "body_too_large";
  constructor(limitBytes: number) {
    super(`The request body is larger than ${limitBytes / 1024 / 1024} MiB, the limit of this endpoint. Send less.`);
  }
}

/** Bodies of all requests together. */
export class BodiesFull extends ServiceError {
  readonly code = "bodies_full";
  constructor() {
    super(
      "This server holds as many requests as its memory allows, and yours is too large for what is left. Send it again in a few " +
        "seconds, or less at once.",
      { retryAfterSeconds: 2 },
    );
  }
}

export class BadRequest extends ServiceError {
  readonly code = "bad_request";
}

export class BadTime extends ServiceError {
  readonly code = "bad_time";
  constructor(param: string) {
    super(`${param} is not a time: give unix seconds, or ISO 8601 such as 2026-01-02T03:04:05Z.`, { param });
  }
}

export class ApiKeyNotFound extends ServiceError {
  readonly code = "api_key_not_found";
  constructor() {
    super("There is no such API key in your account. `GET /v1/api-tokens` lists its keys.");
  }
}

/** PostgreSQL could not be asked, and no feature had a better sentence for it. */
export class RecordsAway extends ServiceError {
  readonly code = "store_away";
  constructor(cause: unknown) {
    super("The records cannot be read or written at the moment. Try again in a few seconds.", {
      cause,
      retryAfterSeconds: 2,
    });
  }
}

export class Restarting extends ServiceError {
  readonly code = "restarting";
  constructor() {
    super("This server is being stopped. Ask again in a few seconds.", { retryAfterSeconds: 2 });
  }
}

/** Asked of a caller that came with an API key. */
export class NoSession extends ServiceError {
  readonly code = "no_session";
  constructor() {
    super("This request came with an API key, not with the cookie of a signed-in browser, so there is no session.");
  }
}

export class CsrfRefused extends ServiceError {
  readonly code = "csrf_refused";
  constructor(why: string) {
    super(
      `${why} A write with the session cookie needs the header x-csrf-token, whose value is in GET /v1/auth/session, and ` +
        "must come from a page of this server. Scripts send an API key instead.",
    );
  }
}

/** The place alone: the parser's own message quotes the body. */
function whereOf(error: SyntaxError): string {
  const at = /position (\d+)/.exec(error.message)?.[1];
  return at === undefined ? "" : ` (it breaks off or goes wrong at character ${at})`;
}
