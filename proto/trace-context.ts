// W3C Trace Context: the headers `traceparent` and `tracestate`, https://www.w3.org/TR/trace-context/.
import { randomFillSync } from "node:crypto";

/** A span as others refer to it. */
export interface TraceContext {
  /** 32 hexadecimal digits, not all 0. */
  readonly traceId: string;
  /** 16 hexadecimal digits, not all 0. */
  readonly spanId: string;
  readonly isSampled: boolean;
  /** `tracestate` as received; absent: none. */
  readonly state?: string;
}

const parentPattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const noTrace = "0".repeat(32);
const noSpan = "0".repeat(16);

/** Maximum characters of a `tracestate` that is passed on; the specification requires at least 512. */
const maxStateLength = 512;
const maxStateMembers = 32;
const memberPattern =
  /^(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

type Header = string | readonly string[] | undefined;

/** Undefined for an absent or invalid `traceparent`; an invalid `tracestate` is dropped alone. */
export function readTraceContext(parent: Header, state: Header): TraceContext | undefined {
  if (typeof parent !== "string") return undefined;
  const found = parentPattern.exec(parent.trim());
  if (!found) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", more] = found;
  if (version === "ff" || (version === "00" && more !== undefined)) return undefined;
  if (traceId === noTrace || spanId === noSpan) return undefined;
  const isSampled = (Number.parseInt(flags, 16) & 1) === 1;
  const kept = readState(state);
  return { traceId, spanId, isSampled, ...(kept === undefined ? {} : { state: kept }) };
}

function readState(header: Header): string | undefined {
  const text = typeof header === "string" ? header : header?.join(",");
  if (text === undefined || text.length > maxStateLength) return undefined;
  const members = text
    .split(",")
    .map((member) => member.trim())
    .filter((member) => member !== "");
  if (members.length === 0 || members.length > maxStateMembers) return undefined;
  const keys = new Set(members.map((member) => member.slice(0, member.indexOf("="))));
  return keys.size === members.length && members.every((member) => memberPattern.test(member))
    ? members.join(",")
    : undefined;
}

export const traceparent = ({ traceId, spanId, isSampled }: TraceContext): string =>
  `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;

/** Headers of a request within the trace: names and values, in turn. */
export const traceHeaders = (context: TraceContext): string[] =>
  context.state === undefined
    ? ["traceparent", traceparent(context)]
    : ["traceparent", traceparent(context), "tracestate", context.state];

const pool = Buffer.alloc(4096);
let next = pool.length;

function randomHex(bytes: number): string {
  if (next + bytes > pool.length) {
    randomFillSync(pool);
    next = 0;
  }
  next += bytes;
  const text = pool.toString("hex", next - bytes, next);
  return /^0+$/.test(text) ? randomHex(bytes) : text;
}

/** Context of a span that is not exported: in the trace of `parent`, otherwise in a new one. */
export const unsampledContext = (parent: TraceContext | undefined): TraceContext => ({
  traceId: parent?.traceId ?? randomHex(16),
  spanId: randomHex(8),
  isSampled: false,
  ...(parent?.state === undefined ? {} : { state: parent.state }),
});
