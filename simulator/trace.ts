// Requests from a file: JSON lines with the fields of Mooncake's published traces, and two of our own.
import type { Segment } from "./segment-cache.ts";
import type { World } from "./workload.ts";

export interface TraceRequest {
  readonly atMs: number;
  readonly account: string;
  readonly segments: readonly Segment[];
  readonly outputTokens: number;
}

export class TraceError extends Error {}

/** Tokens of a block in `hash_ids`; the last one may be shorter. */
const blockTokens = 512;
const maxTokens = 10_000_000;

/**
 * Reads a line. `timestamp` (ms), `input_length` and `output_length` (tokens) are required. `hash_ids`: numbers of the prompt's blocks of
 * 512 tokens, equal for equal beginnings. `conversation`: the prompt repeats the previous prompts of that name. `account`: default
 * `account`. Throws TraceError.
 */
export function readTraceLine(line: string, number: number, conversationId: (name: string) => number): TraceRequest {
  const fail = (why: string): never => {
    throw new TraceError(`Line ${number}: ${why}`);
  };
  let fields: Record<string, unknown>;
  try {
    fields = JSON.parse(line);
  } catch {
    return fail("not a JSON object.");
  }
  if (typeof fields !== "object" || fields === null) return fail("not a JSON object.");
  const count = (name: string, min: number): number => {
    const value = fields[name];
    if (typeof value !== "number" || !Number.isFinite(value) || value < min)
      return fail(`${name} must be a number of at least ${min}.`);
    return value;
  };
  const tokens = Math.round(count("input_length", 1));
  const outputTokens = Math.round(count("output_length", 1));
  if (tokens > maxTokens || outputTokens > maxTokens) return fail(`a length must be at most ${maxTokens}.`);
  const { account = "account", conversation, hash_ids: hashIds } = fields;
  if (typeof account !== "string") return fail("account must be a string.");
  if (conversation !== undefined && typeof conversation !== "string") return fail("conversation must be a string.");
  const segments: Segment[] = [];
  if (Array.isArray(hashIds) && hashIds.length > 0) {
    if (hashIds.length > Math.ceil(tokens / blockTokens)) return fail("hash_ids has more blocks than input_length.");
    if (!hashIds.every(Number.isSafeInteger)) return fail("hash_ids must contain integers.");
    let left = tokens;
    for (const [i, id] of hashIds.entries()) {
      const size = i === hashIds.length - 1 ? left : blockTokens;
      segments.push({ id: Number(id), tokens: size });
      left -= size;
    }
  } else segments.push({ id: conversationId(conversation ?? `line ${number}`), tokens });
  return { atMs: count("timestamp", 0), account, segments, outputTokens };
}

/** Sends each request at its time, whether or not earlier ones have ended. `requests`: in order of their times. */
export function replay({ fleet }: World, requests: readonly TraceRequest[]): void {
  let next = 0;
  const { timeline } = fleet;
  const schedule = () => {
    const request = requests[next];
    if (request) timeline.set(id, request.atMs);
  };
  const id = timeline.add({
    act: () => {
      const { account, segments, outputTokens } = requests[next++] as TraceRequest;
      schedule();
      fleet.ask({ account, segments, outputTokens, ended: () => {} });
    },
  });
  schedule();
}
