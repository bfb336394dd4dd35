// Digests that recognise a request when it is sent again: the agent and the gateway use them to find the request that stops a
// model server.
import { createHash } from "node:crypto";

export interface RequestShape {
  /** Digest of every field that affects the engine's work. */
  readonly whole: string;
  /** Digest of the format and tools; undefined without them. A client can vary the prompt around a format. */
  readonly format: string | undefined;
}

/** They differ between otherwise equal requests. */
const ownKeys = new Set([
  "user",
  "seed",
  "stream",
  "stream_options",
  "max_tokens",
  "prompt_cache_key",
  "prompt_cache_options",
]);
/** Larger bodies carry media; their bytes are the shape. */
const maxParsedBytes = 2 * 1024 * 1024;
/** Shapes of bodies that are still in memory. */
const known = new WeakMap<Buffer, RequestShape>();

/**
 * The work is proportional to the body, which must not change afterwards: call it when a server has stopped or something is
 * suspected, never for each request. It is done once for each buffer.
 */
export function shapeOf(body: Buffer): RequestShape {
  const before = known.get(body);
  if (before) return before;
  const shape = newShapeOf(body);
  known.set(body, shape);
  return shape;
}

/** Prefix of `whole`, if it is known without reading the body. */
export const digestStart = (body: Buffer): string | undefined =>
  body.length > maxParsedBytes ? `${body.length}:` : undefined;

function newShapeOf(body: Buffer): RequestShape {
  const start = digestStart(body);
  if (start !== undefined) return { whole: start + digest(body), format: undefined };
  const fields = fieldsOf(body);
  if (!fields) return { whole: digest(body), format: undefined };
  const { response_format: format, tools, ...rest } = fields;
  const entries = Object.entries(rest).filter(([key]) => !ownKeys.has(key));
  const constraint = hasOwnConstraint(format, tools) ? JSON.stringify([format, tools]) : undefined;
  const sorted = entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    whole: digest(JSON.stringify([sorted, format, tools])),
    format: constraint === undefined ? undefined : digest(constraint),
  };
}

/** Many clients send a format without schema or pattern: refusing it would refuse requests of others. */
function hasOwnConstraint(format: unknown, tools: unknown): boolean {
  const isBare = typeof format !== "object" || format === null || Object.keys(format).length < 2;
  return tools !== undefined || !isBare;
}

function fieldsOf(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

const digest = (text: string | Buffer) => createHash("sha256").update(text).digest("base64url").slice(0, 22);
