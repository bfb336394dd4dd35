// The ticket a gateway gives with each request on the data path: what the agent may do, for whom and at what rates.
// Header `x-stoker-ticket: <base64url HMAC-SHA256>.<JSON>`, keyed per node epoch. JSON in a header must be ASCII.
import { hash, timingSafeEqual } from "node:crypto";
import type { UnitCounts } from "./money.ts";

/**
 * Where the client wants usage in a stream: merged into the last chunk, as an extra chunk, on every chunk (and, with
 * `continuous`, on an extra one as well), or nowhere.
 */
export type UsagePlacement = "merge" | "extra" | "continuous" | "continuous_merge" | "drop";

export interface Ticket {
  readonly requestId: string;
  readonly attempt: number;
  readonly instanceId: string;
  readonly deployId: string;
  /** Unix ms at admission, control-plane time: the usage table's partition key. */
  readonly admittedAtMs: number;
  /** Unix ms, control-plane time; at most 60 s after signing and never after the lease of the hold. */
  readonly expiresAtMs: number;
  readonly account: string;
  readonly keyId: string;
  readonly replicaId: string;
  /** Public model name, for the record and metrics. */
  readonly model: string;
  readonly leaseIds: readonly string[];
  /** Nano-USD, decimal text. */
  readonly hold: string;
  /** Sequences: a request with `n` takes n permits of the gate. */
  readonly permits: number;
  /** Upper bounds, used by the gate's fairness and by estimates. */
  readonly inputTokensBound: number;
  readonly maxTokens: number;
  /** What the prompt probably is: billed as the input of an answer that broke off before the engine gave figures. */
  readonly inputTokensEstimate: number;
  readonly stream: boolean;
  /** Refused as busy rather than kept waiting for a place. */
  readonly failFast?: true;
  readonly usage: UsagePlacement;
  /** Nano-USD per million tokens, decimal texts: input, cached input, output. */
  readonly rates: readonly [string, string, string];
  readonly priceVersion: number;
  /** The discount inside `rates`. */
  readonly discountId?: string;
  /** Of a task that is not billed by tokens alone. */
  readonly units?: TicketUnits;
}

export interface TicketUnits {
  /** What the gateway counted in the request: billed where the engine gives no figures of its own. */
  readonly asked: UnitCounts;
  /** Nano-USD per million, decimal texts: characters, milliseconds of audio, images; then pixel steps per image (0: any). */
  readonly rates: readonly [string, string, string, string];
}

/** In place of a model's name, with no instance: the bearer may read the weights cache of the host that signed for. */
export const weightsPurpose = "weights";

export type TicketProblem = "malformed" | "bad_signature" | "expired";

const asAscii = (json: string) =>
  json.replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

interface Pads {
  readonly inner: Buffer;
  /** With room for the inner digest behind it. */
  readonly outer: Buffer;
}
const padsOf = new WeakMap<Buffer, Pads>();
const blockBytes = 64;
let scratch = Buffer.alloc(4096);

/** The key's two HMAC blocks. */
function pads(key: Buffer): Pads {
  let found = padsOf.get(key);
  if (!found) {
    const inner = Buffer.alloc(blockBytes, 0x36);
    const outer = Buffer.alloc(blockBytes + 32, 0x5c);
    const short = key.length > blockBytes ? hash("sha256", key, "buffer") : key;
    for (const [i, byte] of short.entries()) {
      inner[i] = byte ^ 0x36;
      outer[i] = byte ^ 0x5c;
    }
    found = { inner, outer };
    padsOf.set(key, found);
  }
  return found;
}

/**
 * HMAC-SHA256, base64url, by one-shot hashes over kept buffers: an Hmac object per request was the dearest thing on the hot
 * path, the collector's work on it included.
 */
function mac(key: Buffer, json: string): string {
  const { inner, outer } = pads(key);
  const length = blockBytes + json.length;
  if (length > scratch.length) scratch = Buffer.alloc(length);
  inner.copy(scratch);
  // One byte per character: a ticket is ASCII.
  scratch.write(json, blockBytes, "latin1");
  outer.write(hash("sha256", scratch.subarray(0, length), "binary"), blockBytes, "latin1");
  return hash("sha256", outer, "base64url");
}

export function signTicket(ticket: Ticket, key: Buffer): string {
  const json = asAscii(JSON.stringify(ticket));
  return `${mac(key, json)}.${json}`;
}

/** Characters of a signature in base64url. */
const macLength = 43;
const given = Buffer.alloc(macLength);
const own = Buffer.alloc(macLength);

/** `nowMs` is control-plane time as the agent learned it over its session. */
export function verifyTicket(header: string, keys: readonly Buffer[], nowMs: number): Ticket | TicketProblem {
  const dot = header.indexOf(".");
  if (dot !== macLength) return "malformed";
  const json = header.slice(dot + 1);
  // As much of the header as there is room for: the signature alone.
  given.write(header, "latin1");
  const genuine = keys.some((key) => own.write(mac(key, json), "latin1") === macLength && timingSafeEqual(given, own));
  if (!genuine) return "bad_signature";
  const parsed = JSON.parse(json) as Ticket;
  // A control plane of the version before this one, in a rollout, sends the bound alone.
  const ticket =
    parsed.inputTokensEstimate === undefined ? { ...parsed, inputTokensEstimate: parsed.inputTokensBound } : parsed;
  return ticket.expiresAtMs < nowMs ? "expired" : ticket;
}
