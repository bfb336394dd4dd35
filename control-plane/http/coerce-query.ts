import type { FastifyReply, FastifyRequest } from "fastify";
import type { TSchema } from "typebox";

/**
 * Query values arrive as text: what reads as the number or truth value its field wants becomes one. Bodies are not
 * treated so: there `"12"` is a string.
 */
export function coerceQuery(schema: TSchema) {
  const properties = (schema as { properties?: Record<string, { type?: unknown }> }).properties ?? {};
  const wanted = Object.entries(properties);
  return (request: FastifyRequest, _reply: FastifyReply, done: () => void): void => {
    const query = request.query as Record<string, unknown>;
    for (const [key, { type }] of wanted) {
      const text = query[key];
      if (typeof text !== "string") continue;
      if (type === "boolean" && truths.has(text)) query[key] = truths.get(text);
      else if ((type === "integer" || type === "number") && /^-?\d+(\.\d+)?$/.test(text)) query[key] = Number(text);
    }
    done();
  };
}

const truths: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["True", true],
  ["1", true],
  ["false", false],
  ["False", false],
  ["0", false],
]);
