// Requests from a file: JSON lines with the fields of Mooncake's published traces, and two of our own.
import type { Fleet } from "./fleet.ts";
import type { Segment } from "./segment-cache.ts";
import type { World } from "./workload.ts";

export interface TraceRequest {
  /** Ignored for a caller's later requests. */
  readonly atMs: number;
  /** Sends its requests one after the other. */
  readonly caller?: string | undefined;
  /** Time between the previous response and this request of the caller. */
  readonly thinkMs: number;
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
 * 512 tokens, equal for equal beginnings. `conversation`: the prompt repeats the previous prompts of that name; `prefix`: it begins with
 * a text of `prefix_length` tokens that others of this name have too. `caller`: sends its requests in the order of the lines, each
 * `think` ms after the previous response. `account`: default `account`. Throws TraceError.
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
  const { account = "account", conversation, prefix, caller, hash_ids: hashIds } = fields;
  if (typeof account !== "string") return fail("account must be a string.");
  for (const [name, value] of Object.entries({ conversation, prefix, caller }))
    if (value !== undefined && typeof value !== "string") return fail(`${name} must be a string.`);
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
  } else {
    const prefixTokens = prefix === undefined ? 0 : Math.round(count("prefix_length", 1));
    if (prefixTokens >= tokens) return fail("prefix_length must be below input_length.");
    if (prefixTokens > 0) segments.push({ id: conversationId(`prefix ${prefix}`), tokens: prefixTokens });
    segments.push({ id: conversationId(String(conversation ?? `line ${number}`)), tokens: tokens - prefixTokens });
  }
  return {
    atMs: count("timestamp", 0),
    account,
    segments,
    outputTokens,
    ...(caller === undefined ? {} : { caller: String(caller) }),
    thinkMs: fields["think"] === undefined ? 0 : count("think", 0),
  };
}

/** Sends each request at its time, whether or not earlier ones have ended; those of a caller one after the other. Ends the run after the last response. */
export function replay({ fleet }: World, requests: readonly TraceRequest[]): void {
  let left = requests.length;
  const ended = () => {
    left -= 1;
    if (left === 0) fleet.timeline.stop();
  };
  const byCaller = new Map<string, TraceRequest[]>();
  const lines: TraceRequest[][] = [];
  const free: TraceRequest[] = [];
  for (const request of requests) {
    if (request.caller === undefined) {
      free.push(request);
      continue;
    }
    const line = byCaller.get(request.caller);
    if (line) line.push(request);
    else {
      const own = [request];
      byCaller.set(request.caller, own);
      lines.push(own);
    }
  }
  if (free.length > 0)
    replayTimes(
      fleet,
      free.sort((one, other) => one.atMs - other.atMs),
      ended,
    );
  for (const line of lines) replayCaller(fleet, line, ended);
}

function replayTimes(fleet: Fleet, requests: readonly TraceRequest[], ended: () => void): void {
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
      fleet.ask({ account, segments, outputTokens, ended });
    },
  });
  schedule();
}

function replayCaller(fleet: Fleet, requests: readonly TraceRequest[], ended: () => void): void {
  let next = 0;
  const { timeline } = fleet;
  const id = timeline.add({
    act: () => {
      const { account, segments, outputTokens } = requests[next++] as TraceRequest;
      const goOn = (_isServed: boolean, nowMs: number) => {
        const following = requests[next];
        if (following) timeline.set(id, nowMs + following.thinkMs);
        ended();
      };
      fleet.ask({ account, segments, outputTokens, ended: goOn });
    },
  });
  timeline.set(id, (requests[0] as TraceRequest).atMs);
}
