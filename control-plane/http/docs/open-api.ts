import type { FastifyDynamicSwaggerOptions } from "@fastify/swagger";
import type { FastifySchema } from "fastify";
import { anyPathResponses } from "../errors/error-responses.ts";
import { answerExamples } from "./answer-examples.ts";
import { bodyExamples } from "./body-examples.ts";

/** Marks a route's schema: the description then contains the header. idempotency.ts validates it with better messages. */
export const takesIdempotencyKey = Symbol("Idempotency-Key");

/** Marks a route's schema: an operator may send it for another account, and the description contains the header for it. */
export const takesActAs = Symbol("X-Stoker-Act-As");

const actAs = {
  "X-Stoker-Act-As": {
    type: "string",
    maxLength: 64,
    description:
      "For operators: uid of the account whose records are read, as its owner sees them, without secrets. Audited (`account.view`). " +
      "Operations without this header refuse it with 403",
  },
};
const idempotencyKey = {
  "Idempotency-Key": {
    type: "string",
    minLength: 1,
    maxLength: 255,
    pattern: "^[ -~]+$",
    description:
      "A repeated request with the same key within a day gets the response of the first one and is not charged again. " +
      "Repeats of streams, except of resumable ones, and of responses above 4 MiB are refused with 409 `already_completed`",
  },
};
const resumableStream = {
  "X-Stoker-Resumable": {
    type: "string",
    enum: ["true"],
    description:
      "With `stream` and an `Idempotency-Key`: the stream goes on when its connection breaks. Its events have ids. The same request with " +
      "`Last-Event-ID` gets the rest, within an hour, and is not charged again",
  },
  "Last-Event-ID": {
    type: "string",
    maxLength: 9,
    description: "Id of the last event of a resumable stream that arrived: the response has those after it",
  },
};
const isStreamed = ({ tags, body }: FastifySchema): boolean =>
  tags?.[0] === "inference" && Object.hasOwn((body as { properties?: object } | undefined)?.properties ?? {}, "stream");
const serviceSource = {
  "x-service-source": { type: "string", description: "Origin of the request; stored with its usage" },
};

const refusal = { "application/json": { schema: { $ref: "#/components/schemas/ServiceRefusal" } } };
const responses = Object.fromEntries(
  Object.entries(anyPathResponses).map(([name, { description }]) => [name, { description, content: refusal }]),
);
const anyPath = Object.entries(anyPathResponses);
const anyPathText = anyPath.map(([, { status, description }]) => `- ${status}: ${description}.`).join("\n");

/** The statuses, for programs. */
const anyPathExtension = {
  "x-any-path": Object.fromEntries(
    anyPath.map(([name, { status }]) => [status, { $ref: `#/components/responses/${name}` }]),
  ),
};

/** `version` is that of the interface, not of the product. */
export const openApi: FastifyDynamicSwaggerOptions = {
  refResolver: { buildLocalReference: (json, _base, _fragment, index) => String(json["$id"] ?? `schema-${index}`) },
  transform({ schema: given, url, route }) {
    const path = url.replace("*", ":model_name").replaceAll(/:(\w+)/g, "{$1}");
    const schema = withExamples(given, `${String(route.method)} ${path}`);
    const headers = {
      ...(takesIdempotencyKey in schema ? idempotencyKey : {}),
      ...(isStreamed(schema) ? resumableStream : {}),
      ...(takesActAs in schema ? actAs : {}),
      ...(schema.tags?.[0] === "inference" && schema.body ? serviceSource : {}),
    };
    const hasHeaders = Object.keys(headers).length > 0;
    const whole = hasHeaders ? { ...schema, headers: { type: "object", properties: headers } } : schema;
    // A wildcard matches names with slashes; the description gives it a name.
    const isNamed = url.endsWith("*") && !(schema as { hide?: boolean }).hide;
    return isNamed ? named(whole, url) : { schema: whole, url };
  },
  openapi: {
    openapi: "3.1.0",
    info: {
      title: "Stoker",
      version: "1.0.0",
      description:
        "Serverless inference, dedicated deployments, accounts and billing.\n\n" +
        `Before an operation is reached, any path may answer (\`components.responses\`):\n${anyPathText}\n\n` +
        "405, and 408 for a body, have the shape of their path's other errors. A path that is not described is 404.",
    },
    tags: [
      { name: "inference", description: "Text, chat, embeddings, speech, images and all other tasks" },
      { name: "files", description: "Input and output files of batches" },
      { name: "batches", description: "Many requests at a lower price, completed within a day" },
      { name: "voices", description: "Voices for text to speech" },
      { name: "models", description: "Available models" },
      { name: "deployments", description: "Dedicated models" },
      { name: "lora", description: "LoRA adapters" },
      { name: "containers", description: "Rented GPUs with SSH" },
      { name: "agents", description: "Agent instances of an account, and their backups" },
      { name: "gpu pool", description: "GPU limits of an account" },
      { name: "account", description: "The account, its keys and its sign-in" },
      { name: "billing", description: "Usage, payments and invoices" },
      { name: "operator", description: "Only for operators" },
      { name: "service", description: "The service itself" },
    ],
    ...anyPathExtension,
    components: {
      responses,
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        "xi-api-key": { type: "apiKey", in: "header", name: "xi-api-key" },
        "x-api-key": { type: "apiKey", in: "header", name: "x-api-key" },
      },
    },
  },
};

/** Adds examples to the description; validation and replies ignore them. */
function withExamples(schema: FastifySchema, operation: string): FastifySchema {
  const body = bodyExamples[operation];
  const answer = answerExamples[operation];
  const { 200: answered, ...refused } = (schema.response ?? {}) as Readonly<Record<number, object>>;
  return {
    ...schema,
    ...(body && schema.body ? { body: { ...schema.body, examples: [body] } } : {}),
    ...(answer && answered ? { response: { ...refused, 200: { ...answered, examples: [answer] } } } : {}),
  };
}

function named(schema: FastifySchema, url: string) {
  const { properties } = schema.params as { properties: Record<string, unknown> };
  const params = { type: "object", required: ["model_name"], properties: { model_name: properties["*"] } };
  return { schema: { ...schema, params }, url: url.replace("*", ":model_name") };
}
