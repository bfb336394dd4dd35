// The ticket a gateway gives with each request on the data path: what the agent may do, for whom and at what rates.
// Header `x-stoker-ticket: <base64url HMAC-SHA256>.<JSON>`, keyed per node epoch. JSON in a header must be ASCII.
// The agent knows that key. The ticket of a request that is billed ends with a seal as well: a second HMAC, under a key that only
// control planes have. The agent returns the sealed text with the usage record, and the settlement takes every term from it.
import { hash, timingSafeEqual } from "node:crypto";
import type { UnitCounts } from "./money.ts";
import type { ServiceTier } from "./service-tier.ts";
import type { TraceContext } from "./trace-context.ts";

/**
 * Position of usage in a stream, as the client requested: merged into the last chunk, as an extra chunk, on every chunk (and, with
 * `continuous`, on an extra one as well), or nowhere.
 */
export type UsagePlacement = "merge" | "extra" | "continuous" | "continuous_merge" | "drop";

export interface Ticket {
  readonly requestId: string;
  readonly attempt: number;
  /** The host that the request is sent to: its usage record is accepted from that host only. */
  readonly hostId: string;
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
  /** Estimated tokens of the prompt: billed as the input of an answer that broke before the engine sent figures. */
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
  /** Share of a busy engine relative to other accounts, 1 to 100; absent: 1. */
  readonly weight?: number;
  /** Service tier; absent: default. */
  readonly tier?: ServiceTier;
  /** The end user that the caller named. */
  readonly endUser?: string;
  /** Place of the attempt in its trace; absent: traces are off, or an earlier version. Nothing depends on it. */
  readonly trace?: TraceContext;
  /** Set for a task that is not billed by tokens only. */
  readonly units?: TicketUnits;
  /** Set for a model whose provider is paid for the request. */
  readonly provider?: TicketProvider;
}

export interface TicketProvider {
  /** Number of `leaseIds`, from the end, that reserve the provider's cost. */
  readonly leases: number;
  /** Nano-USD, decimal texts: per million input, cached input and output tokens, and per request. */
  readonly rates: readonly [string, string, string, string];
}

export interface TicketUnits {
  /** Units counted by the gateway: billed if the engine sends no figures. */
  readonly asked: UnitCounts;
  /** Units that the hold covers: upper bounds of the engine's figures. Absent or 0: no bound. */
  readonly most?: UnitCounts;
  /** Nano-USD per million, decimal texts: characters, milliseconds of audio, images; then pixel steps per image (0: any). */
  readonly rates: readonly [string, string, string, string];
}

/** In place of a model's name, with no instance: the bearer may read the weights cache of the host that signed for. */
export const weightsPurpose = "weights";

/** The clocks of two control planes may differ by this much. A ticket ends as much before the lease of its hold. */
export const clockToleranceMs = 5_000;

export type TicketProblem = "malformed" | "bad_signature" | "expired";

/** An HMAC reads the low byte of each character: without this check another text could have the same one. */
const isAscii = (text: string): boolean => Buffer.byteLength(text) === text.length;

const del = "\u007f";

/** The ticket is a header: DEL is refused in one, although it is ASCII. */
const asAscii = (json: string): string =>
  isAscii(json) && !json.includes(del)
    ? json
    : json.replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

interface Pads {
  readonly inner: Buffer;
  /** With space for the inner digest behind it. */
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

export interface SealKey {
  /** 1 to 999,999,999; named in the seal, so that a rotation can replace the key. */
  readonly version: number;
  /** 32 bytes. */
  readonly bytes: Buffer;
}

/** `seal`: required for a request that is billed. */
export function signTicket(ticket: Ticket, key: Buffer, seal?: SealKey): string {
  const plain = asAscii(JSON.stringify(ticket));
  const json = seal ? sealed(plain, seal) : plain;
  return `${mac(key, json)}.${json}`;
}

/** The sealed JSON of a signed ticket: what an agent returns with its usage record. */
export const ticketText = (header: string): string => header.slice(macLength + 1);

function sealed(json: string, { version, bytes }: SealKey): string {
  const open = json.slice(0, -1);
  return `${open},"seal":"${version}.${mac(bytes, open)}"}`;
}

/** Longer than any seal. */
const maxSealLength = 72;
const sealPattern = /,"seal":"([1-9]\d{0,8})\.([\w-]{43})"\}$/;

/** `unknown_key`: `keyOf` returned undefined for the version that the seal names. */
export type SealProblem = "unsealed" | "bad_seal" | "unknown_key";

/**
 * The ticket of a text that this installation sealed. No time limit applies: an agent may keep a record for days. `keyOf` returns
 * the key of a version.
 */
export function openSealed(text: string, keyOf: (version: number) => Buffer | undefined): Ticket | SealProblem {
  const found = sealPattern.exec(text.slice(-maxSealLength));
  if (!found || !isAscii(text)) return "unsealed";
  const key = keyOf(Number(found[1]));
  if (!key) return "unknown_key";
  given.write(found[2] as string, "latin1");
  own.write(mac(key, text.slice(0, -found[0].length)), "latin1");
  return timingSafeEqual(given, own) ? (JSON.parse(text) as Ticket) : "bad_seal";
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
  if (!isAscii(json)) return "malformed";
  // As much of the header as fits: only the signature.
  given.write(header, "latin1");
  const genuine = keys.some((key) => own.write(mac(key, json), "latin1") === macLength && timingSafeEqual(given, own));
  if (!genuine) return "bad_signature";
  const parsed = JSON.parse(json) as Ticket;
  // A control plane of the version before this one, in a rollout, sends the bound alone.
  const ticket =
    parsed.inputTokensEstimate === undefined ? { ...parsed, inputTokensEstimate: parsed.inputTokensBound } : parsed;
  return ticket.expiresAtMs < nowMs ? "expired" : ticket;
}
