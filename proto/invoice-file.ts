// Sealed usage of an account in a month, and the file that a customer verifies without a connection: one JSON object per line, whose `type`
// comes first. The control plane writes these texts, proto/invoice-check.ts reads them. docs/adr/0023-usage-is-sealed-by-account-and-month.md
//   stoker.invoice   account, month, currency
//   key              a public key; every version but the first is signed by the one before
//   price, adapter, discount  what the records name; only before the first segment, each once
//   segment          digests of the records and corrections that follow it, chained and signed
//   record, correction
//   line, statement  of a closed month; otherwise `open`. Both are signed, with the head of the chain and the hash of the rates
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hash,
  type KeyObject,
  sign,
  verify,
} from "node:crypto";
import { type UsageField, usageFieldList } from "./usage-record.ts";

export const invoiceFileType = "stoker.invoice";
export const invoiceFileVersion = 1;

/** Bytes of a digest. */
export const digestBytes = 32;
/** Maximum number of records of a segment, and of its corrections, except that those of one moment stay together. */
export const segmentItems = 8_000;
/** Maximum number of records and corrections of a segment in a file. */
export const maxSegmentItems = 20_000;

/** `time`: microseconds since 1970. */
type SealedType = UsageField["type"];

export interface SealedField {
  /** In files. */
  readonly name: string;
  readonly type: SealedType;
  /** Column of the usage table, or of the ledger entry of a correction. */
  readonly column: string;
}

const fieldOf = ({ column, type }: UsageField): SealedField => ({
  name: type === "time" ? column.replace(/_at$/, "_us") : column,
  type,
  column,
});

/** Fields of a record in the order of its text. `charge`: as it was captured, without later corrections. */
export const recordFields: readonly SealedField[] = [
  ...usageFieldList.filter(({ isSealed }) => isSealed).map(fieldOf),
  { name: "settled_us", type: "time", column: "settled_at" },
  { name: "charge", type: "amount", column: "charge" },
];

/** Fields of a correction: those of its entry in the ledger, because retention removes its record. */
export const correctionFields: readonly SealedField[] = [
  { name: "entry", type: "amount", column: "entry_id" },
  { name: "posted_us", type: "time", column: "posted_at" },
  { name: "request_id", type: "text", column: "request_id" },
  { name: "attempt", type: "integer", column: "attempt" },
  { name: "key_id", type: "text", column: "key_id" },
  { name: "model", type: "text", column: "model" },
  { name: "price_version", type: "amount", column: "price_version" },
  { name: "discount_id", type: "text", column: "discount_id" },
  { name: "amount", type: "amount", column: "amount" },
];

export type SealedValues = Readonly<Record<string, unknown>>;

/**
 * Returns the text whose digest is sealed, as PostgreSQL writes a row: `(request-1,1,600,…)`. Absent texts are null, and absent numbers 0. A
 * count of 0 is written as null, because most are. Undefined: a value is of another type.
 */
export function sealedText(fields: readonly SealedField[], values: SealedValues): string | undefined {
  let text = "";
  for (const field of fields) {
    const { name, type } = field;
    const value = Object.hasOwn(values, name) ? values[name] : type === "text" ? null : type === "amount" ? "0" : 0;
    if (!isValue(field, value)) return undefined;
    text += `${text === "" ? "(" : ","}${isNull(type, value) ? "" : type === "text" ? quoted(value as string) : value}`;
  }
  return `${text})`;
}

const isNull = (type: SealedType, value: unknown): boolean => value === null || (type === "count" && value === 0);

const needsQuotes = /^$|["\\(), \t\n\v\f\r]/;
const quoted = (text: string): string => (needsQuotes.test(text) ? `"${text.replace(/["\\]/g, "$&$&")}"` : text);

const amountPattern = /^(?:0|-?[1-9]\d{0,18})$/;

function isValue({ type }: SealedField, value: unknown): value is string | number | null {
  if (type === "text") return value === null || typeof value === "string";
  if (type === "amount") return typeof value === "string" && amountPattern.test(value);
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

const valuePattern = /(?:"((?:[^"\\]|""|\\\\)*)"|([^,"\\)]*))([,)])/gy;

/** Returns the line of the file for a sealed text; texts that are null, and numbers that are 0, are left out. */
export function itemLine(
  kind: "record" | "correction",
  fields: readonly SealedField[],
  text: string,
  isCorrected = false,
): string {
  let line = `{"type":"${kind}"`;
  valuePattern.lastIndex = 1;
  for (const { name, type } of fields) {
    const [, inQuotes, plain = ""] = valuePattern.exec(text) ?? [];
    if (type === "text") {
      if (inQuotes !== undefined)
        line += `,"${name}":${JSON.stringify(inQuotes.replace(/""|\\\\/g, (two) => two.charAt(0)))}`;
      else if (plain !== "") line += `,"${name}":${JSON.stringify(plain)}`;
    } else if (plain !== "0" && plain !== "") line += `,"${name}":${type === "amount" ? `"${plain}"` : plain}`;
  }
  // Not sealed: it lets a reader notice a correction without a memory of every record.
  return `${line}${isCorrected ? ',"corrected":true' : ""}}\n`;
}

export const digestOf = (text: string): Buffer => hash("sha256", text, "buffer");

export interface SegmentFacts {
  readonly account: string;
  /** `2026.11` */
  readonly month: string;
  /** From 1. */
  readonly segment: number;
  readonly records: number;
  readonly corrections: number;
  /** Nano-USD: captured by the records, and moved by the corrections. */
  readonly charged: bigint;
  /** Last time of settlement, in microseconds since 1970. */
  readonly throughUs: number;
  /** SHA-256 of the digests of the records, then of the corrections. */
  readonly digestsHash: string;
}

export const hashOfDigests = (digests: Buffer): string => hash("sha256", digests);

/** Hash before the first segment. */
export const firstHash = "0".repeat(64);

export const segmentHash = (previous: string, of: SegmentFacts): string =>
  hash(
    "sha256",
    [
      `${invoiceFileType}.segment ${invoiceFileVersion}`,
      ...[previous, of.account, of.month, of.segment, of.records, of.corrections, of.charged, of.throughUs],
      of.digestsHash,
    ].join("\n"),
  );

/** Texts that are signed. Each begins with what it is, so that no signature is valid for another. */
export const signedTexts = {
  segment: (ofSegment: string): string => `${invoiceFileType}.segment ${invoiceFileVersion}\n${ofSegment}`,
  statement: (text: string): string => `${invoiceFileType}.statement ${invoiceFileVersion}\n${text}`,
  open: (text: string): string => `${invoiceFileType}.open ${invoiceFileVersion}\n${text}`,
  key: (version: number, publicKey: string, createdUs: number): string =>
    `${invoiceFileType}.key ${invoiceFileVersion}\n${version}\n${publicKey}\n${createdUs}`,
};

export interface InvoicePublicKey {
  readonly version: number;
  /** Ed25519, base64 of 32 bytes. */
  readonly publicKey: string;
  readonly createdUs: number;
  /** Signature of the version before; empty: the first. */
  readonly signature: string;
}

export function makeInvoiceKey(): { readonly publicKey: string; readonly privateKey: Buffer } {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const { x = "" } = publicKey.export({ format: "jwk" });
  return {
    publicKey: Buffer.from(x, "base64url").toString("base64"),
    privateKey: privateKey.export({ type: "pkcs8", format: "der" }),
  };
}

export const openInvoiceKey = (pkcs8: Buffer): KeyObject =>
  createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" });

export const signInvoiceText = (text: string, key: KeyObject): string =>
  sign(null, Buffer.from(text), key).toString("base64");

/** Undefined: not an Ed25519 key. */
export function readInvoiceKey(publicKey: string): KeyObject | undefined {
  const bytes = Buffer.from(publicKey, "base64");
  if (bytes.length !== 32 || bytes.toString("base64") !== publicKey) return undefined;
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: bytes.toString("base64url") }, format: "jwk" });
}

export const isSignedBy = (text: string, signature: string, key: KeyObject): boolean =>
  verify(null, Buffer.from(text), key, Buffer.from(signature, "base64"));

/** Returns the hash of the lines of an invoice, as they are in the file without their line feeds. */
export const linesHash = (lines: readonly string[]): string => hash("sha256", lines.join("\n"));

/** Fields that the cost of a record depends on. The end of a price is not one: a later version sets it. */
const rateFields = {
  price: [
    ...["price_version", "kind", "subject", "input", "cached_input", "output", "characters", "audio", "images"],
    ...["image_steps", "hour", "priority_percent", "flex_percent", "effective_from_us"],
  ],
  adapter: ["model", "subject"],
  discount: ["discount_id", "basis_points"],
} as const;
export type RateLine = keyof typeof rateFields;

/** Hash of the surcharge and of the lines that name rates, in their order. A statement and an open file are signed with it. */
export class RatesHash {
  readonly #hash = createHash("sha256");

  constructor(adapterPercent: number) {
    this.#hash.update(`${invoiceFileType}.rates ${invoiceFileVersion}\n${adapterPercent}`);
  }

  add(type: RateLine, values: SealedValues): void {
    this.#hash.update(`\n${JSON.stringify([type, ...rateFields[type].map((name) => values[name] ?? null)])}`);
  }

  digest(): string {
    return this.#hash.copy().digest("hex");
  }
}
