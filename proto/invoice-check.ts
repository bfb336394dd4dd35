// Verifies an invoice file (proto/invoice-file.ts) line by line, in memory that does not grow with the number of records except for eight
// bytes each. Everything in the file is untrusted: values are checked before use, and every table has a maximum.

import { createHash } from "node:crypto";
import {
  correctionFields,
  digestBytes,
  digestOf,
  firstHash,
  hashOfDigests,
  type InvoicePublicKey,
  invoiceFileType,
  invoiceFileVersion,
  isSignedBy,
  maxSegmentItems,
  RatesHash,
  readInvoiceKey,
  recordFields,
  type SealedValues,
  sealedText,
  segmentHash,
  signedTexts,
} from "./invoice-file.ts";
import { scanJson } from "./json-scan.ts";
import { costOf, pricedPixels, type TokenRates } from "./money.ts";
import {
  discountedRate,
  discountedRates,
  gpuCost,
  surchargedRates,
  tierRates,
  withBatchDiscount,
} from "./price-rules.ts";
import { maxIds, SeenIds } from "./seen-ids.ts";

/** Bytes of a line; the digests of the largest segment have 854 kB. */
export const maxLineBytes = 1024 * 1024;
const maxProblems = 20;
/** Maximum of each kind that a file names before its segments, and of the lines of an invoice. */
const maxNamed = 200_000;
/** Maximum length of a text that names something. */
const maxTextLength = 1_000;
/** Characters of texts that are kept until the end. */
const maxKeptLength = 16 * 1024 * 1024;
/** Time after the end of a month in which it may still be open: it is closed some hours after its end. */
const openAfterEndMs = 3 * 24 * 3_600_000;
/** Records whose corrections are followed. */
const maxCorrected = 200_000;

export interface InvoiceVerdict {
  readonly account: string;
  /** `2026.11` */
  readonly month: string;
  /** Undefined: the month is not closed, or had nothing to pay. */
  readonly invoice: string | undefined;
  readonly isClosed: boolean;
  /** Time of the export of a month that was not closed, in milliseconds since 1970. */
  readonly exportedMs: number | undefined;
  /** Time up to which such a file has what was settled. */
  readonly throughMs: number | undefined;
  readonly segments: number;
  readonly records: number;
  readonly corrections: number;
  /** Nano-USD, recomputed. */
  readonly total: bigint;
  /** Recomputed, by key, model, price version and discount; without those of 0. */
  readonly lines: readonly InvoiceLineSum[];
  /** As they are on the invoice of a closed month. */
  readonly invoiceLines: readonly FileLine[];
  /** Everything that the costs were recomputed from, to compare with what the server published. */
  readonly prices: readonly FilePrice[];
  readonly adapters: readonly { readonly model: string; readonly subject: string }[];
  readonly discounts: readonly { readonly id: string; readonly basisPoints: number }[];
  /** Surcharge of an adapter over its base, in per cent. */
  readonly adapterPercent: number;
  /** Hash of the last segment. */
  readonly head: string;
  /** Public key that vouches for the whole file; undefined: none. */
  readonly key: string | undefined;
  /** The key is one of those given, or signed by one. */
  readonly isKeyTrusted: boolean;
  /** Records that the server no longer has. */
  readonly expired: number;
  /** Sentences in the order of the file, each naming its place; empty: everything is as it was billed. At most 20. */
  readonly problems: readonly string[];
  readonly problemCount: number;
  /** Sentences about what is unusual and not wrong. */
  readonly notes: readonly string[];
}

interface InvoiceLineSum {
  readonly key: string;
  readonly model: string;
  readonly priceVersion: bigint;
  readonly discount: string;
  readonly cost: bigint;
}

interface FileLine extends InvoiceLineSum {
  readonly pricingType: string;
}

export interface CheckOptions {
  /** Public keys that the customer trusts; empty: none is known. */
  readonly keys?: readonly string[];
  /** Accepts a month that ended long ago and was not closed when it was exported. */
  readonly isOpenAllowed?: boolean;
  readonly unixMs?: () => number;
}

export interface FilePrice {
  readonly version: string;
  readonly kind: string;
  readonly subject: string;
  readonly rates: TokenRates;
  readonly hour: bigint;
  readonly priority: number;
  readonly flex: number;
  readonly fromUs: number;
  /** When the next version took effect; Infinity: none. */
  readonly untilUs: number;
}

interface Item {
  readonly digest: Buffer | undefined;
  readonly kind: "record" | "correction";
  readonly values: SealedValues;
}

interface Segment {
  readonly number: number;
  /** Position of its first item in the file, from 1. */
  readonly first: number;
  readonly records: number;
  readonly corrections: number;
  readonly charged: bigint;
  readonly digests: Buffer;
  /** Position after the last item that was found. */
  next: number;
  /** Items that match no digest, since the last that did. */
  unmatched: string[];
  /** Positions that were passed over. */
  readonly skipped: Set<number>;
  index: Map<string, number> | undefined;
  /** At most as many as are named. */
  readonly found: { readonly at: number; readonly problem: string }[];
  foundCount: number;
  sum: bigint;
  expired: number;
}

/** A line or value that no server writes. */
class Unreadable extends Error {}

export class InvoiceCheck {
  readonly #given: ReadonlySet<string>;
  readonly #options: CheckOptions;
  readonly #problems: string[] = [];
  #problemCount = 0;
  readonly #notes = new Map<string, number>();
  readonly #keys = new Map<number, InvoicePublicKey & { readonly isTrusted: boolean }>();
  readonly #prices = new Map<string, FilePrice>();
  readonly #adapters = new Map<string, { readonly model: string; readonly subject: string }>();
  readonly #discounts = new Map<string, number>();
  readonly #sums = new Map<string, InvoiceLineSum>();
  readonly #corrected = new Map<string, { charged: bigint; readonly cost: bigint }>();
  readonly #seen = new SeenIds();
  #header: { readonly account: string; readonly month: string; readonly adapterPercent: number } | undefined;
  #segment: Segment | undefined;
  #lastSegment = 0;
  #hash = firstHash;
  #key: (InvoicePublicKey & { readonly isTrusted: boolean }) | undefined;
  #records = 0;
  #corrections = 0;
  #expired = 0;
  /** Records are missing, or were altered. */
  #hasGaps = false;
  #total = 0n;
  /** Costs of the lines of the invoice. */
  readonly #lines = new Map<string, FileLine>();
  readonly #linesHash = createHash("sha256");
  #rates: RatesHash | undefined;
  #hasSegments = false;
  #keptLength = 0;
  #end:
    | (Pick<InvoiceVerdict, "invoice" | "isClosed"> & Partial<Pick<InvoiceVerdict, "exportedMs" | "throughMs">>)
    | undefined;
  #lineCount = 0;

  constructor(options: CheckOptions = {}) {
    this.#options = options;
    this.#given = new Set(options.keys);
  }

  /** Without its line feed. */
  push(line: Buffer): void {
    this.#lineCount += 1;
    if (line.length === 0) return;
    try {
      this.#read(line);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      this.#problem(`Line ${this.#lineCount} ${error.message}.`);
    }
  }

  /** A line that is longer than `maxLineBytes`, and was skipped. */
  pushTooLong(): void {
    this.#lineCount += 1;
    this.#problem(`Line ${this.#lineCount} is longer than ${maxLineBytes} bytes, which no line of an invoice file is.`);
  }

  end(): InvoiceVerdict {
    this.#endSegment();
    if (!this.#header) this.#problem("This is not an invoice file: its first line is missing.");
    else if (!this.#end) this.#problem("The last line is missing: records at the end may be missing too.");
    const key = this.#key;
    const isKeyTrusted = key?.isTrusted === true;
    if (this.#given.size > 0 && !isKeyTrusted)
      this.#problem(
        key
          ? `The file is signed by key ${key.version}, which is none of the given ones and not signed by them.`
          : "The file is signed by none of the given keys.",
      );
    if (this.#expired > 0)
      this.#notes.set("Records removed by the server's retention, whose prices cannot be recomputed", this.#expired);
    if (this.#seen.isFull)
      this.#notes.set("Records after which it was not checked whether another one is billed twice", maxIds);
    return {
      account: this.#header?.account ?? "",
      month: this.#header?.month ?? "",
      invoice: this.#end?.invoice,
      isClosed: this.#end?.isClosed ?? false,
      exportedMs: this.#end?.exportedMs,
      throughMs: this.#end?.throughMs,
      segments: this.#lastSegment,
      records: this.#records,
      corrections: this.#corrections,
      total: this.#total,
      lines: [...this.#sums.values()].filter(({ cost }) => cost !== 0n),
      invoiceLines: [...this.#lines.values()],
      prices: [...this.#prices.values()],
      adapters: [...this.#adapters.values()],
      discounts: [...this.#discounts].map(([id, basisPoints]) => ({ id, basisPoints })),
      adapterPercent: this.#header?.adapterPercent ?? 0,
      head: this.#hash,
      key: key?.publicKey,
      isKeyTrusted,
      expired: this.#expired,
      problems: this.#problems,
      problemCount: this.#problemCount,
      notes: [...this.#notes].map(([note, count]) => `${note}: ${count}.`),
    };
  }

  #problem(problem: string): void {
    this.#problemCount += 1;
    if (this.#problems.length < maxProblems) this.#problems.push(problem);
  }

  #found(segment: Segment, at: number, problem: string): void {
    segment.foundCount += 1;
    if (segment.found.length < maxProblems) segment.found.push({ at, problem });
  }

  /** Counts what stays in memory until the end. */
  #keep(text: string): string {
    this.#keptLength += text.length;
    if (this.#keptLength > maxKeptLength) throw new Unreadable("is one of too many different names");
    return text;
  }

  #note(note: string): void {
    this.#notes.set(note, (this.#notes.get(note) ?? 0) + 1);
  }

  #read(line: Buffer): void {
    const values = objectOf(line);
    const type = values["type"];
    if (type === "record" || type === "correction") {
      this.#item(type, values);
      return;
    }
    this.#endSegment();
    if (type === invoiceFileType) this.#readHeader(values);
    else if (!this.#header) throw new Unreadable("comes before the first line of an invoice file");
    else if (this.#end) throw new Unreadable("comes after the last line of the invoice file");
    else if (type === "key" || type === "price" || type === "adapter" || type === "discount") {
      // One definition holds for every record.
      if (this.#hasSegments) throw new Unreadable(`has a ${type} after the first segment`);
      if (type === "key") this.#readKey(values);
      else if (type === "price") this.#readPrice(values);
      else if (type === "adapter") this.#readAdapter(values);
      else this.#readDiscount(values);
      if (type !== "key") this.#rates?.add(type, values);
    } else if (type === "segment") this.#readSegment(values);
    else if (type === "line") this.#readLine(line, values);
    else if (type === "statement") this.#readStatement(values);
    else if (type === "open") this.#readOpen(values);
    else throw new Unreadable("is not a line of an invoice file");
  }

  #readHeader(values: SealedValues): void {
    if (this.#header) throw new Unreadable("begins a second file");
    if (values["version"] !== invoiceFileVersion)
      throw new Unreadable(
        `is of version ${shown(values["version"])}; this program reads version ${invoiceFileVersion}`,
      );
    const header = {
      account: textOf(values, "account"),
      month: textOf(values, "month"),
      adapterPercent: numberOf(values, "adapter_percent"),
    };
    if (!/^[\x21-\x7e]{1,200}$/.test(header.account)) throw new Unreadable("has an account that is not one");
    if (!/^\d{4}\.(0[1-9]|1[0-2])$/.test(header.month)) throw new Unreadable("has a month that is not one");
    this.#header = header;
    this.#rates = new RatesHash(header.adapterPercent);
  }

  #readKey(values: SealedValues): void {
    bounded(this.#keys, "keys");
    const key: InvoicePublicKey = {
      version: numberOf(values, "version"),
      publicKey: textOf(values, "public_key"),
      createdUs: numberOf(values, "created_us"),
      signature: textOf(values, "signature"),
    };
    if (!readInvoiceKey(key.publicKey)) throw new Unreadable("has a public key that is not one");
    if (this.#keys.has(key.version)) throw new Unreadable(`has a second definition of key ${key.version}`);
    const before = this.#keys.get(key.version - 1);
    const signer = before && readInvoiceKey(before.publicKey);
    const text = signedTexts.key(key.version, key.publicKey, key.createdUs);
    const isSigned = signer !== undefined && isSignedBy(text, key.signature, signer);
    if (signer && !isSigned)
      this.#problem(`Key ${key.version} is not signed by key ${key.version - 1}, so one of them was altered.`);
    const isTrusted = this.#given.has(key.publicKey) || (isSigned && before?.isTrusted === true);
    this.#keep(key.publicKey + key.signature);
    this.#keys.set(key.version, { ...key, isTrusted });
  }

  #readPrice(values: SealedValues): void {
    bounded(this.#prices, "prices");
    const amount = (name: string) => amountOf(values, name, 0n);
    const version = String(amountOf(values, "price_version"));
    if (this.#prices.has(version)) throw new Unreadable(`has a second definition of price version ${version}`);
    const steps = amount("image_steps");
    const tokens = { input: amount("input"), cachedInput: amount("cached_input"), output: amount("output") };
    const units = { characters: amount("characters"), audio: amount("audio"), images: amount("images") };
    this.#prices.set(version, {
      version,
      kind: this.#keep(textOf(values, "kind")),
      subject: this.#keep(textOf(values, "subject")),
      rates: { ...tokens, units: { ...units, imageUnit: steps * BigInt(pricedPixels) } },
      hour: amount("hour"),
      priority: numberOf(values, "priority_percent", 100),
      flex: numberOf(values, "flex_percent", 100),
      fromUs: numberOf(values, "effective_from_us"),
      untilUs: numberOf(values, "effective_until_us", Number.POSITIVE_INFINITY),
    });
  }

  #readAdapter(values: SealedValues): void {
    bounded(this.#adapters, "adapters");
    const [model, subject] = [textOf(values, "model"), textOf(values, "subject")];
    this.#adapters.set(this.#keep(adapterName(model, subject)), { model, subject });
  }

  #readDiscount(values: SealedValues): void {
    bounded(this.#discounts, "discounts");
    const basisPoints = numberOf(values, "basis_points");
    if (basisPoints > 10_000) throw new Unreadable("has a discount of more than 100 per cent");
    const id = textOf(values, "discount_id");
    if (this.#discounts.has(id)) throw new Unreadable(`has a second definition of discount ${shown(id)}`);
    this.#discounts.set(this.#keep(id), basisPoints);
  }

  #readSegment(values: SealedValues): void {
    this.#hasSegments = true;
    const { account, month } = this.#header as { account: string; month: string };
    const number = numberOf(values, "segment");
    const records = numberOf(values, "records");
    const corrections = numberOf(values, "corrections");
    const digests = Buffer.from(textOf(values, "digests", undefined, maxLineBytes), "base64");
    if (records + corrections > maxSegmentItems || digests.length !== (records + corrections) * digestBytes)
      throw new Unreadable("is a segment whose digests do not match its number of records");
    const charged = amountOf(values, "charged");
    const first = this.#records + this.#corrections + 1;
    const count = records + corrections;
    const named = `Segment ${number} (${count} ${count === 1 ? "record" : "records"} from ${first} on)`;
    if (number !== this.#lastSegment + 1)
      this.#problem(
        number <= this.#lastSegment
          ? `${named} is repeated or out of order: it stands after segment ${this.#lastSegment}.`
          : `Segments ${this.#lastSegment + 1} to ${number - 1} are missing.`,
      );
    const throughUs = numberOf(values, "through_us");
    const facts = { account, month, segment: number, records, corrections, charged, throughUs };
    const computed = segmentHash(this.#hash, { ...facts, digestsHash: hashOfDigests(digests) });
    const stated = textOf(values, "hash");
    if (computed !== stated && number === this.#lastSegment + 1)
      this.#problem(`${named} does not match its hash: it, or the one before it, was altered.`);
    const key = this.#keys.get(numberOf(values, "key"));
    const publicKey = key && readInvoiceKey(key.publicKey);
    if (!publicKey || !isSignedBy(signedTexts.segment(stated), textOf(values, "signature"), publicKey))
      this.#problem(`${named} has no valid signature: its hash was altered, or it was not sealed by this server.`);
    this.#key = key;
    this.#lastSegment = Math.max(this.#lastSegment, number);
    this.#hash = stated;
    this.#segment = {
      ...{ number, first, records, corrections, charged, digests },
      next: 0,
      unmatched: [],
      skipped: new Set(),
      index: undefined,
      found: [],
      foundCount: 0,
      sum: 0n,
      expired: 0,
    };
  }

  #item(kind: Item["kind"], values: SealedValues): void {
    const segment = this.#segment;
    if (!segment) throw new Unreadable("is not within a segment");
    if (values["expired"] === true) {
      // The server has only its digest. Positions are skipped, and known to be.
      segment.expired += 1;
      return;
    }
    const text = sealedText(kind === "record" ? recordFields : correctionFields, values);
    const item: Item = { kind, values, digest: text === undefined ? undefined : digestOf(text) };
    const at = this.#placeOf(segment, item);
    if (at === undefined) return;
    const place = segment.first + at;
    if (kind === "record") this.#record(segment, place, values);
    else this.#correction(segment, place, values);
  }

  /** Position within the segment; undefined: it was altered, or is not of this segment, or was there before. */
  #placeOf(segment: Segment, { kind, values, digest }: Item): number | undefined {
    const name = itemName(kind, values);
    const at = digest && positionOf(segment, digest);
    if (at === undefined) {
      segment.unmatched.push(name);
      if (segment.unmatched.length > maxSegmentItems)
        throw new Unreadable("is one of too many that are not in the segment");
      return undefined;
    }
    if (at < segment.next) {
      const problem = segment.skipped.delete(at) ? "is out of order" : "is repeated";
      this.#found(segment, at, `${name} (record ${segment.first + at}) ${problem}.`);
      return problem === "is repeated" ? undefined : at;
    }
    this.#skipTo(segment, at);
    segment.next = at + 1;
    return at;
  }

  /** Positions up to `at` were altered, as far as there are unmatched items, or are missing. */
  #skipTo(segment: Segment, at: number): void {
    const { unmatched, next } = segment;
    for (let position = next; position < at; position++) {
      const name = unmatched.shift();
      if (name === undefined) segment.skipped.add(position);
      else
        this.#found(
          segment,
          position,
          `${name} (record ${segment.first + position}) does not match its digest: it was altered.`,
        );
    }
    for (const name of unmatched)
      this.#found(
        segment,
        at,
        `${name} (before record ${segment.first + at}) is not among the sealed records: it was added.`,
      );
    segment.unmatched = [];
  }

  #endSegment(): void {
    const segment = this.#segment;
    if (!segment) return;
    this.#segment = undefined;
    const count = segment.records + segment.corrections;
    this.#skipTo(segment, count);
    const missing = [...segment.skipped].sort((a, b) => a - b);
    // Which of the gaps are expired is the server's word: it is said, and nothing counts as verified.
    const expired = Math.min(segment.expired, missing.length);
    this.#expired += expired;
    for (const at of missing.slice(expired))
      this.#found(segment, at, `Record ${segment.first + at} (segment ${segment.number}) is missing.`);
    this.#hasGaps ||= segment.foundCount > 0;
    for (const { problem } of segment.found.sort((a, b) => a.at - b.at)) this.#problem(problem);
    this.#problemCount += segment.foundCount - segment.found.length;
    if (segment.foundCount === 0 && expired === 0 && segment.sum !== segment.charged)
      this.#problem(
        `The records of segment ${segment.number} add up to ${segment.sum}, not to ${segment.charged} as the segment says.`,
      );
    // A removed record was charged 0 or more.
    if (segment.foundCount === 0 && expired > 0 && segment.sum > segment.charged)
      this.#problem(
        `The records of segment ${segment.number} that are left add up to ${segment.sum}, to more than ${segment.charged} as the segment says.`,
      );
    this.#records += segment.records;
    this.#corrections += segment.corrections;
    this.#total += segment.charged;
  }

  #record(segment: Segment, place: number, values: SealedValues): void {
    const name = `${itemName("record", values)} (record ${place})`;
    const id = attemptOf(values);
    if (!this.#seen.add(id)) this.#problem(`${name} is billed twice: the same attempt stands before.`);
    const charge = amountOf(values, "charge", 0n);
    const cost = amountOf(values, "cost", 0n);
    segment.sum += charge;
    if (values["corrected"] === true && this.#corrected.size < maxCorrected)
      this.#corrected.set(this.#keep(id), { charged: charge, cost });
    this.#addTo(values, charge);
    const problem = this.#priceProblem(values);
    if (problem !== undefined) this.#problem(`${name} ${problem}.`);
    if (charge < 0n || charge > cost)
      this.#problem(`${name} was charged ${charge}, which is not between 0 and ${cost}.`);
    else if (charge < cost) this.#note("Records charged less than their price");
  }

  #correction(segment: Segment, place: number, values: SealedValues): void {
    const name = `${itemName("correction", values)} (record ${place})`;
    const id = attemptOf(values);
    const amount = amountOf(values, "amount");
    segment.sum += amount;
    this.#addTo(values, amount);
    const known = this.#corrected.get(id);
    if (!known) {
      // Otherwise its record is of an earlier month, or was removed by the server.
      if (this.#seen.has(id) && this.#corrected.size < maxCorrected)
        this.#problem(`${name} corrects a record of this month that is not marked as corrected.`);
      return;
    }
    known.charged += amount;
    if (known.charged < 0n || known.charged > known.cost)
      this.#problem(`${name} leaves ${known.charged} charged, which is not between 0 and ${known.cost}.`);
  }

  #addTo(values: SealedValues, amount: bigint): void {
    const of = [textOf(values, "key_id", ""), textOf(values, "model", ""), textOf(values, "discount_id", "")] as const;
    const priceVersion = amountOf(values, "price_version", 0n);
    const name = lineName(of[0], of[1], priceVersion, of[2]);
    const known = this.#sums.get(name);
    if (!known) {
      bounded(this.#sums, "lines");
      this.#keep(name);
    }
    const [key, model, discount] = of;
    this.#sums.set(name, { key, model, priceVersion, discount, cost: (known?.cost ?? 0n) + amount });
  }

  /** Undefined: the cost is what price version, tier and discount give. */
  #priceProblem(values: SealedValues): string | undefined {
    const cost = amountOf(values, "cost", 0n);
    const version = amountOf(values, "price_version", 0n);
    if (version === 0n) return cost === 0n ? undefined : `costs ${cost} without a price`;
    const price = this.#prices.get(String(version));
    if (!price) return `names price version ${version}, which is not in the file`;
    const admittedUs = numberOf(values, "admitted_us", 0);
    // Prices reach every control plane within seconds, or after an outage of its database.
    if (admittedUs < price.fromUs - 60e6 || admittedUs > price.untilUs + 60e6)
      this.#note("Records with a price version that was not in effect when they were admitted");
    const computed = this.#costsOf(values, price);
    if (typeof computed === "string") return computed;
    return computed.includes(cost) ? undefined : `costs ${cost}, but price version ${version} gives ${computed[0]}`;
  }

  /** With units and, if it has some, without: a request of text to a model that also speaks is billed by its tokens. */
  #costsOf(values: SealedValues, price: FilePrice): readonly bigint[] | string {
    const discount = textOf(values, "discount_id", "");
    const tier = textOf(values, "service_tier", "");
    const isBatch = tier === "batch" || discount === "batch";
    const own = tierNames.has(discount) || discount === "" ? 0 : this.#discounts.get(discount);
    if (own === undefined) return `names discount ${discount}, which is not in the file`;
    const basisPoints = isBatch ? withBatchDiscount(own) : own;
    const count = (name: string) => numberOf(values, name, 0);
    if (price.kind !== "model") return [gpuCost(count("gpu_ms"), discountedRate(price.hour, basisPoints))];
    const model = textOf(values, "model", "");
    const isAdapter = model !== price.subject;
    if (isAdapter && !this.#adapters.has(adapterName(model, price.subject)))
      return `is of ${shown(model)}, but price version ${price.version} is of ${shown(price.subject)}`;
    const rates = this.#ratesOf(price, isAdapter ? (this.#header?.adapterPercent ?? 0) : 0, tier, basisPoints);
    const units = {
      characters: count("characters"),
      audioMs: count("audio_ms"),
      images: count("images"),
      imagePixelSteps: count("image_pixel_steps"),
      items: 0,
    };
    const tokens = {
      input: count("input_tokens"),
      cachedInput: count("cached_input_tokens"),
      output: count("output_tokens"),
    };
    const whole = costOf({ ...tokens, units }, rates);
    return units.characters + units.audioMs + units.images === 0 ? [whole] : [whole, costOf(tokens, rates)];
  }

  readonly #computedRates = new Map<string, TokenRates>();

  #ratesOf(price: FilePrice, surcharge: number, tier: string, basisPoints: number): TokenRates {
    const percent = tier === "priority" ? price.priority : tier === "flex" ? price.flex : 100;
    const name = `${surcharge} ${percent} ${basisPoints} ${price.version}`;
    const known = this.#computedRates.get(name);
    if (known) return known;
    const own = surcharge === 0 ? price.rates : surchargedRates(price.rates, surcharge);
    const rates = basisPoints === 0 ? tierRates(own, percent) : discountedRates(tierRates(own, percent), basisPoints);
    if (this.#computedRates.size < 10_000) this.#computedRates.set(name, rates);
    return rates;
  }

  #readLine(line: Buffer, values: SealedValues): void {
    bounded(this.#lines, "lines of the invoice");
    const [key, model] = [textOf(values, "key_id", ""), textOf(values, "model", "")];
    const discount = textOf(values, "discount_id", "");
    const priceVersion = amountOf(values, "price_version", 0n);
    const name = lineName(key, model, priceVersion, discount);
    if (this.#lines.size > 0) this.#linesHash.update("\n");
    this.#linesHash.update(line);
    if (this.#lines.has(name)) throw new Unreadable("repeats a line of the invoice");
    const pricingType = this.#keep(textOf(values, "pricing_type", ""));
    this.#lines.set(this.#keep(name), {
      key,
      model,
      priceVersion,
      discount,
      pricingType,
      cost: amountOf(values, "cost"),
    });
  }

  /** Values of a text that the server signed; undefined: it did not. */
  #signed(kind: "statement" | "open", values: SealedValues): SealedValues | undefined {
    const text = textOf(values, "text", undefined, maxLineBytes);
    const signer = this.#keys.get(numberOf(values, "key"));
    const publicKey = signer && readInvoiceKey(signer.publicKey);
    if (!publicKey || !isSignedBy(signedTexts[kind](text), textOf(values, "signature"), publicKey)) return undefined;
    // It vouches for the chain up to its head, whichever keys signed the segments.
    this.#key = signer;
    return objectOf(Buffer.from(text));
  }

  /** Compares what the server signed at the end with what the file has. `where`: the start of a sentence. */
  #compareSigned(stated: SealedValues, where: string): void {
    const { account, month } = this.#header as { account: string; month: string };
    for (const [name, found] of [
      ["account", account],
      ["month", month],
      ["segments", this.#lastSegment],
      ["records", this.#records],
      ["corrections", this.#corrections],
      ["head", this.#hash],
    ] as const)
      if (stated[name] !== found) this.#problem(`${where} says ${name} ${shown(stated[name])}; the file has ${found}.`);
    if (stated["rates"] !== this.#rates?.digest())
      this.#problem(`${where} is signed for other prices, adapters or discounts than those of the file.`);
  }

  /** What the server signed when the month was closed. */
  #readStatement(values: SealedValues): void {
    const stated = this.#signed("statement", values);
    if (!stated) {
      this.#problem("The statement of the month has no valid signature.");
      return;
    }
    const invoice = textOf(stated, "invoice", "");
    this.#end = { invoice: invoice === "" ? undefined : invoice, isClosed: true };
    this.#compareSigned(stated, "The statement of the month");
    const total = amountOf(stated, "total");
    if (total !== this.#total) this.#problem(`The invoice is over ${total}, but its records add up to ${this.#total}.`);
    if (textOf(stated, "lines") !== this.#linesHash.copy().digest("hex"))
      this.#problem("The lines of the invoice were altered.");
    else if (invoice !== "") this.#compareLines();
  }

  #compareLines(): void {
    // Sums of what was found would differ for that reason alone.
    if (this.#hasGaps) return;
    let billed = 0n;
    for (const [name, { model, cost }] of this.#lines) {
      const sum = this.#sums.get(name)?.cost ?? 0n;
      billed += cost;
      // Removed records were charged 0 or more.
      if (this.#expired > 0 ? cost < sum : cost !== sum)
        this.#problem(`The invoice has ${cost} for ${shown(model)}, but its records add up to ${sum}.`);
    }
    if (billed !== this.#total)
      this.#problem(`The lines of the invoice add up to ${billed}, but its records to ${this.#total}.`);
    for (const [name, { cost }] of this.#sums)
      if (!this.#lines.has(name) && (this.#expired > 0 ? cost > 0n : cost !== 0n))
        this.#problem(`${cost} of ${shown(name)} are on no line of the invoice.`);
  }

  /** What the server signed when it wrote the file of a month without a statement. */
  #readOpen(values: SealedValues): void {
    const stated = this.#signed("open", values);
    if (!stated) {
      this.#problem("The last line has no valid signature.");
      return;
    }
    const exportedMs = Math.floor(numberOf(stated, "exported_us") / 1_000);
    const throughMs = Math.floor(numberOf(stated, "through_us") / 1_000);
    const invoice = textOf(stated, "invoice", "");
    const isClosed = stated["closed"] === true;
    this.#end = { invoice: invoice === "" ? undefined : invoice, isClosed, exportedMs, throughMs };
    this.#compareSigned(stated, "The last line");
    if (isClosed) {
      this.#problem(
        `The server closed the month with an invoice over ${amountOf(stated, "total")}, but its sealed records add up to ${this.#total}.`,
      );
      return;
    }
    const endMs = monthEndMs(this.#header?.month ?? "");
    if (this.#options.isOpenAllowed !== true && (this.#options.unixMs ?? Date.now)() > endMs + openAfterEndMs)
      this.#problem(
        `The month has ended, but the file of ${timeOf(exportedMs)} says that it is not closed: records may be missing. Export it again.`,
      );
  }
}

/** They name tiers on bills. */
const tierNames = new Set(["priority", "flex", "batch"]);

const adapterName = (model: string, subject: string): string => JSON.stringify([model, subject]);

const attemptOf = (values: SealedValues): string =>
  `${textOf(values, "request_id", "")}/${numberOf(values, "attempt", 0)}`;

const lineName = (key: string, model: string, priceVersion: bigint, discount: string): string =>
  JSON.stringify([key, model, String(priceVersion), discount]);

/** In the order of the segment, except where somebody changed it. */
function positionOf(segment: Segment, digest: Buffer): number | undefined {
  const { digests, next } = segment;
  const at = next * digestBytes;
  if (at < digests.length && digests.compare(digest, 0, digestBytes, at, at + digestBytes) === 0) return next;
  segment.index ??= new Map(
    Array.from({ length: digests.length / digestBytes }, (_, i) => [
      digests.toString("latin1", i * digestBytes, (i + 1) * digestBytes),
      i,
    ]),
  );
  return segment.index.get(digest.toString("latin1"));
}

const itemName = (kind: Item["kind"], values: SealedValues): string =>
  `${kind === "record" ? "Request" : "Correction of request"} ${shown(values["request_id"])} attempt ${shown(values["attempt"])}`;

/** At most 100 characters, without what would change a terminal. */
export const shown = (value: unknown): string => {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "none");
  return text.slice(0, 100).replace(/[^\x20-\x7e]/g, "?");
};

function objectOf(line: Buffer): SealedValues {
  const scan = scanJson(line);
  if (typeof scan === "string") throw new Unreadable(`is ${scan.replaceAll("_", " ")}`);
  let value: unknown;
  try {
    value = JSON.parse(line.toString());
  } catch {
    throw new Unreadable("is not JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Unreadable("is not a JSON object");
  return value as SealedValues;
}

function textOf(values: SealedValues, name: string, missing?: string, maxLength = maxTextLength): string {
  const value = Object.hasOwn(values, name) ? values[name] : missing;
  if (typeof value !== "string") throw new Unreadable(`has no text \`${name}\``);
  if (value.length > maxLength) throw new Unreadable(`has a text \`${name}\` of more than ${maxLength} characters`);
  return value;
}

function numberOf(values: SealedValues, name: string, missing?: number): number {
  const value = Object.hasOwn(values, name) ? values[name] : missing;
  if (value === Number.POSITIVE_INFINITY && missing === value) return value;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0)
    throw new Unreadable(`has no whole number \`${name}\``);
  return value;
}

function amountOf(values: SealedValues, name: string, missing?: bigint): bigint {
  const value = Object.hasOwn(values, name) ? values[name] : undefined;
  if (value === undefined && missing !== undefined) return missing;
  if (typeof value !== "string" || !/^-?\d{1,30}$/.test(value)) throw new Unreadable(`has no amount \`${name}\``);
  return BigInt(value);
}

function bounded(of: { readonly size: number }, what: string): void {
  if (of.size >= maxNamed) throw new Unreadable(`is one of more than ${maxNamed} ${what}`);
}

/** First millisecond after a month. */
const monthEndMs = (month: string): number => Date.UTC(Number(month.slice(0, 4)), Number(month.slice(5)), 1);

/** Text of a time; a file may name any number. */
export const timeOf = (ms: number): string => {
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? "an unknown time" : `${at.toISOString().slice(0, 16).replace("T", " ")} UTC`;
};

/** Verifies a file that arrives in pieces. */
export async function checkInvoice(
  source: AsyncIterable<Uint8Array>,
  options: CheckOptions = {},
): Promise<InvoiceVerdict> {
  const check = new InvoiceCheck(options);
  let parts: Buffer[] = [];
  let length = 0;
  let isTooLong = false;
  const endLine = (): void => {
    if (isTooLong) check.pushTooLong();
    else check.push(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
    [parts, length, isTooLong] = [[], 0, false];
  };
  const add = (part: Buffer): void => {
    length += part.length;
    if (length > maxLineBytes) [parts, isTooLong] = [[], true];
    else if (part.length > 0) parts.push(part);
  };
  for await (const chunk of source) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let from = 0;
    for (let end = bytes.indexOf(lineFeed); end >= 0; end = bytes.indexOf(lineFeed, from)) {
      add(bytes.subarray(from, end));
      endLine();
      from = end + 1;
    }
    add(bytes.subarray(from));
  }
  if (length > 0) endLine();
  return check.end();
}

const lineFeed = 0x0a;
