import type { FastifyDynamicSwaggerOptions } from "@fastify/swagger";
import type { FastifySchema } from "fastify";

/** In a route's schema: the description names the header. Read by idempotency.ts, which says more of it than a validator. */
export const takesIdempotencyKey = Symbol("Idempotency-Key");

const idempotencyKey = {
  type: "object",
  properties: {
    "Idempotency-Key": {
      type: "string",
      minLength: 1,
      maxLength: 255,
      pattern: "^[ -~]+$",
      description:
        "A repeat of the request with the same key within a day gets the answer of the first one; " +
        "of native inference, where it names a webhook",
    },
  },
};

/** The interface's own version, not the product's. */
export const openApi: FastifyDynamicSwaggerOptions = {
  refResolver: { buildLocalReference: (json, _base, _fragment, index) => String(json["$id"] ?? `schema-${index}`) },
  transform({ schema, url }) {
    const whole = takesIdempotencyKey in schema ? { ...schema, headers: idempotencyKey } : schema;
    // A wildcard is how a name with slashes is matched; in the description it has a name.
    const isNamed = url.endsWith("*") && !(schema as { hide?: boolean }).hide;
    return isNamed ? named(whole, url) : { schema: whole, url };
  },
  openapi: {
    openapi: "3.1.0",
    info: {
      title: "Stoker",
      version: "1.0.0",
      description: "Serverless inference, dedicated deployments, accounts and billing.",
    },
    tags: [
      { name: "inference", description: "Text and chat completions" },
      { name: "voices", description: "Voices to speak in" },
      { name: "models", description: "What can be used" },
      { name: "deployments", description: "Dedicated models" },
      { name: "lora", description: "LoRA adapters" },
      { name: "containers", description: "Rented GPUs with SSH" },
      { name: "account", description: "The account of a key" },
      { name: "billing", description: "Use and funds" },
      { name: "operator", description: "For the operator's account alone" },
      { name: "service", description: "The service itself" },
    ],
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        "xi-api-key": { type: "apiKey", in: "header", name: "xi-api-key" },
        "x-api-key": { type: "apiKey", in: "header", name: "x-api-key" },
      },
    },
  },
};

function named(schema: FastifySchema, url: string) {
  const { properties } = schema.params as { properties: Record<string, unknown> };
  const params = { type: "object", required: ["model_name"], properties: { model_name: properties["*"] } };
  return { schema: { ...schema, params }, url: url.replace("*", ":model_name") };
}
