// Invoice files as a server writes them, of any size, without a server.
import {
  digestOf,
  firstHash,
  hashOfDigests,
  invoiceFileType,
  invoiceFileVersion,
  itemLine,
  linesHash,
  makeInvoiceKey,
  openInvoiceKey,
  type RateLine,
  RatesHash,
  recordFields,
  sealedText,
  segmentHash,
  signedTexts,
  signInvoiceText,
} from "../../proto/invoice-file.ts";

export interface FileOptions {
  readonly records: number;
  readonly perSegment?: number;
  /** Changes the lines of a segment, its own first, before they are written; the seals stay as they were. */
  readonly alter?: (segment: number, lines: string[]) => string[];
  /** Fields of a record before it is sealed. */
  readonly record?: (n: number) => Readonly<Record<string, unknown>>;
  /** Lines of further prices, adapters and discounts. */
  readonly rates?: readonly (readonly [RateLine, Readonly<Record<string, unknown>>])[];
  /** Segments after which the month was exported before it was closed; without it there is a statement. */
  readonly openAfter?: number;
  /** Cost on the line of the invoice, instead of the sum of its records. */
  readonly lineCost?: (total: bigint) => bigint;
  /** Facts of an open month besides those of its chain. */
  readonly openFacts?: object;
}

export const account = "u:1";
export const month = "2026.01";
const monthUs = Date.UTC(2026, 0, 1) * 1_000;
/** When an open month is exported. */
export const exportedMs = Date.UTC(2026, 0, 15, 12);
const json = (type: string, values: object) => `${JSON.stringify({ type, ...values })}\n`;

export const usualPrice = {
  price_version: "7",
  kind: "model",
  subject: "acme/model",
  input: "20000000",
  cached_input: "10000000",
  output: "40000000",
  effective_from_us: 0,
};

/** 1000 tokens at 20 and 40 nano-USD. */
const usualRecord = (n: number) => ({
  request_id: `request-${n}`,
  attempt: 1,
  input_tokens: 600 + (n % 7),
  output_tokens: 400,
  admitted_us: monthUs + n * 1_000,
  key_id: "key-1",
  model: "acme/model",
  price_version: "7",
  cost: String((600 + (n % 7)) * 20 + 400 * 40),
  charge: String((600 + (n % 7)) * 20 + 400 * 40),
  settled_us: monthUs + n * 1_000 + 500,
});

export function makeInvoiceFile(options: FileOptions) {
  const { publicKey, privateKey } = makeInvoiceKey();
  const key = openInvoiceKey(privateKey);
  const { records: count, perSegment = 1_000, alter = (_, lines) => lines, record = usualRecord } = options;

  function* lines(): Generator<string> {
    yield json(invoiceFileType, { version: invoiceFileVersion, account, month, currency: "USD", adapter_percent: 50 });
    yield json("key", { version: 1, public_key: publicKey, created_us: monthUs, signature: "" });
    const rates = new RatesHash(50);
    for (const [type, values] of [["price", usualPrice] as const, ...(options.rates ?? [])]) {
      rates.add(type, values);
      yield json(type, values);
    }
    let [head, total, segment] = [firstHash, 0n, 0];
    for (let from = 1; from <= count && segment !== options.openAfter; from += perSegment) {
      segment += 1;
      const texts = Array.from({ length: Math.min(perSegment, count - from + 1) }, (_, i) => {
        const values: Readonly<Record<string, unknown>> = record(from + i);
        return { text: sealedText(recordFields, values) ?? "", charge: BigInt(String(values["charge"] ?? "0")) };
      });
      const charged = texts.reduce((sum, { charge }) => sum + charge, 0n);
      const digests = Buffer.concat(texts.map(({ text }) => digestOf(text)));
      const throughUs = monthUs + (from + texts.length) * 1_000;
      const digestsHash = hashOfDigests(digests);
      const facts = { account, month, segment, records: texts.length, corrections: 0, charged, throughUs, digestsHash };
      head = segmentHash(head, facts);
      total += charged;
      const first = json("segment", {
        ...{ segment, records: texts.length, corrections: 0, charged: String(charged), through_us: throughUs },
        ...{ hash: head, key: 1, signature: signInvoiceText(signedTexts.segment(head), key) },
        digests: digests.toString("base64"),
      });
      yield* alter(segment, [first, ...texts.map(({ text }) => itemLine("record", recordFields, text))]);
    }
    const records = Math.min(count, segment * perSegment);
    const facts = { account, month, segments: segment, records, corrections: 0, head, rates: rates.digest() };
    if (options.openAfter !== undefined) {
      const times = { exported_us: exportedMs * 1_000, through_us: exportedMs * 1_000 };
      const text = JSON.stringify({ ...facts, ...times, closed: false, ...options.openFacts });
      yield json("open", { text, key: 1, signature: signInvoiceText(signedTexts.open(text), key) });
      return;
    }
    const line = JSON.stringify({
      ...{ type: "line", key_id: "key-1", model: "acme/model", price_version: "7", pricing_type: "tokens" },
      ...{ milli_units: "0", cost: String(options.lineCost?.(total) ?? total) },
    });
    yield `${line}\n`;
    const text = JSON.stringify({
      ...facts,
      ...{ invoice: "inv_1", currency: "USD", total: String(total), lines: linesHash([line]) },
    });
    yield json("statement", { text, key: 1, signature: signInvoiceText(signedTexts.statement(text), key) });
  }
  return { lines, publicKey };
}

/** In pieces of some hundred lines, as a file is read. */
export async function* inPieces(lines: Iterable<string>): AsyncGenerator<Buffer> {
  let text = "";
  for (const line of lines) {
    text += line;
    if (text.length < 64 * 1_024) continue;
    yield Buffer.from(text);
    text = "";
  }
  yield Buffer.from(text);
}
