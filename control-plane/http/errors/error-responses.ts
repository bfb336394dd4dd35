import { type TSchema, Type } from "typebox";
import type { Dialect } from "./error-body.ts";
import { errorKinds } from "./error-kinds.ts";

const detail = Type.Array(Type.Object({ loc: Type.Array(Type.String()), msg: Type.String(), type: Type.String() }));
const code = Type.Union([Type.String(), Type.Null()]);
const request_id = Type.String({ description: "Also in the header X-Stoker-Request-Id" });
const compatError = Type.Object({
  message: Type.String(),
  type: Type.String(),
  param: Type.Union([Type.String(), Type.Null()]),
  code,
  request_id,
});
const messagesRefusal = {
  type: Type.Literal("error"),
  error: Type.Object({
    type: Type.String(),
    message: Type.String(),
    details: Type.Object({ error_code: Type.String() }),
  }),
  request_id,
};

/** Schemas of errors, by their name in the description. */
export const errorSchemas: readonly TSchema[] = [
  Type.Object(
    { error: Type.String(), detail: Type.Object({ error: Type.String() }), code, request_id },
    { $id: "ServiceRefusal" },
  ),
  Type.Object({ detail, error: Type.String(), code, request_id }, { $id: "ServiceValidation" }),
  Type.Object({ error: compatError }, { $id: "CompatRefusal" }),
  Type.Object({ detail, error: compatError }, { $id: "CompatValidation" }),
  Type.Object(
    { detail: Type.Object({ status: Type.String(), message: Type.String(), request_id }) },
    { $id: "VoicesRefusal", description: "Format of ElevenLabs" },
  ),
  Type.Object({ detail, request_id }, { $id: "VoicesValidation" }),
  Type.Object(messagesRefusal, { $id: "MessagesRefusal", description: "Format of Anthropic" }),
  Type.Object({ detail, ...messagesRefusal }, { $id: "MessagesValidation" }),
  Type.Object(
    { schemas: Type.Array(Type.String()), status: Type.String(), detail: Type.String() },
    { $id: "ScimRefusal", description: "Format of SCIM (RFC 7644)" },
  ),
];

const names: Readonly<Record<Dialect, { readonly refusal: string; readonly validation: string }>> = {
  service: { refusal: "ServiceRefusal", validation: "ServiceValidation" },
  compat: { refusal: "CompatRefusal", validation: "CompatValidation" },
  voices: { refusal: "VoicesRefusal", validation: "VoicesValidation" },
  messages: { refusal: "MessagesRefusal", validation: "MessagesValidation" },
  scim: { refusal: "ScimRefusal", validation: "ScimRefusal" },
};

const meanings: ReadonlyMap<number, string> = new Map(
  Object.values(errorKinds).map(({ status, meaning }) => [status, meaning]),
);

function meaningOf(status: number): string {
  const meaning = meanings.get(status);
  if (meaning === undefined) throw new Error(`no kind of error has status ${status}`);
  return meaning;
}

/** Replies of any path before an operation is reached, by name; described once for all paths. */
export const anyPathResponses: Readonly<Record<string, { readonly status: number; readonly description: string }>> = {
  Unreadable: {
    status: 400,
    description: "Malformed HTTP/1.1 request, missing `Host`, or a path that cannot be decoded",
  },
  MethodNotAllowed: { status: 405, description: "The path does not allow this method; `Allow` lists the allowed ones" },
  RequestTimeout: { status: 408, description: "The request or the rest of its body was not received in time" },
  ContentTooLarge: { status: 413, description: "The chunk extensions are too large" },
  PathTooLong: { status: 414, description: "A part of the path is too long" },
  ExpectationFailed: { status: 417, description: "An `Expect` other than 100-continue" },
  HeadersTooLarge: { status: 431, description: "The headers exceed 16 KiB in total" },
};

/** Refusals of every inference POST, in addition to those of each operation; 409 concerns its idempotency key. */
export const inferenceRefusals = [400, 402, 403, 404, 409, 413, 429, 500, 502, 504];

/** Returns responses for the description only; render-error.ts sends the statuses of error-kinds.ts. */
export function errorResponses(statuses: readonly number[], dialect: Dialect): Record<number, object> {
  const { refusal, validation } = names[dialect];
  const sorted = [...new Set(statuses)].sort((a, b) => a - b);
  return Object.fromEntries(
    sorted.map((status) => [
      status,
      {
        description: meaningOf(status),
        content: { "application/json": { schema: { $ref: `${status === 422 ? validation : refusal}#` } } },
      },
    ]),
  );
}
