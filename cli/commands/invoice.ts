import { createReadStream, readFileSync } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as wait } from "node:timers/promises";
import type { Responses } from "../../proto/gen/responses.ts";
import { checkInvoice, type FilePrice, type InvoiceVerdict, shown, timeOf } from "../../proto/invoice-check.ts";
import { readInvoiceKey } from "../../proto/invoice-file.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { counted } from "../counted.ts";
import { invoiceProblems, usd } from "../invoice-match.ts";
import { streamToLocalFile, unreadable } from "../local-file.ts";
import type { Terminal } from "../terminal.ts";
import { wholeExport } from "../whole-export.ts";

export function addInvoice(program: Command): void {
  const invoice = program
    .command("invoice")
    .description("export a month with every usage record, and verify it without a server");
  invoice
    .command("export <month> [file]")
    .description(
      "write a month (YYYY.MM, current, current-1) to a file: prices, records, signatures (- for standard output)",
    )
    .example("stoker invoice export 2026.01 january.jsonl")
    .stream(exportMonth);
  invoice
    .command("verify <file>")
    .description("recompute an exported month: names records that were altered, are missing or cost something else")
    .example("stoker invoice verify january.jsonl --key keys.json")
    .option("--key <key>", "public key that you trust, or a JSON file of them from `stoker invoice keys --json`")
    .option("--invoice <file>", "JSON of the invoice, from `stoker billing invoice get ID --json` or the console")
    .option("--allow-open", "succeed although the month ended long ago and was not closed when it was exported")
    .option("--allow-expired", "succeed although the server has removed records, whose prices cannot be recomputed")
    .run(verifyFile);
  invoice
    .command("keys")
    .description("list the public keys that sign exports of this server")
    .example("stoker invoice keys --json")
    .run(async (terminal) => {
      const { keys } = await terminal.api.call<Keys>("GET", "/v1/invoice-keys");
      if (terminal.isStructured) return terminal.show(keys, String);
      terminal.rows(
        keys,
        {
          VERSION: (one) => String(one.version),
          CREATED: (one) => new Date(one.created_at * 1000).toISOString().slice(0, 10),
          KEY: "public_key",
        },
        { empty: "No keys: nothing was sealed yet." },
      );
    });
}

type Keys = Responses["GET /v1/invoice-keys"];

/** A month that was never exported is sealed in several requests. */
const maxRequests = 1_000;

async function exportMonth(terminal: Terminal, month: string, given: string | undefined): Promise<void> {
  const path = `/v1/invoice-exports/${encodeURIComponent(month)}`;
  const file = given ?? `invoice-${month.replace(/[^\w.-]/g, "")}.jsonl`;
  for (let request = 1; ; request++) {
    let body: Awaited<ReturnType<Terminal["api"]["download"]>>;
    try {
      body = await terminal.api.download(path);
    } catch (error) {
      if (!(error instanceof CliError) || error.code !== "usage_not_sealed" || request === maxRequests) throw error;
      if (request === 1) terminal.progress("the server seals the records of the month; waiting");
      await wait(500);
      continue;
    }
    const bytes = Readable.from(wholeExport(body));
    if (file === "-") await pipeline(bytes, process.stdout, { end: false });
    else {
      await streamToLocalFile(file, bytes);
      process.stderr.write(`${month} to ${file}\n`);
    }
    return;
  }
}

interface VerifyFlags {
  readonly key?: string;
  readonly invoice?: string;
  readonly allowOpen?: boolean;
  readonly allowExpired?: boolean;
}

async function verifyFile(terminal: Terminal, file: string, flags: VerifyFlags): Promise<void> {
  const keys = flags.key === undefined ? [] : keysOf(flags.key);
  const invoice = flags.invoice === undefined ? undefined : jsonOf(flags.invoice);
  let verdict: InvoiceVerdict;
  try {
    verdict = await checkInvoice(file === "-" ? process.stdin : createReadStream(file, { highWaterMark: 256 * 1024 }), {
      keys,
      isOpenAllowed: flags.allowOpen === true,
    });
  } catch (cause) {
    throw new CliError(unreadable(file, cause), exitCode.wrongUsage, { cause });
  }
  const problems = [...verdict.problems, ...(flags.invoice === undefined ? [] : invoiceProblems(verdict, invoice))];
  const count = problems.length + verdict.problemCount - verdict.problems.length;
  const isWhole = count === 0 && (verdict.expired === 0 || flags.allowExpired === true);
  terminal.show(resultOf(verdict, problems, isWhole), () => (isWhole ? summaryOf(verdict) : problems.join("\n")));
  for (const note of verdict.notes) process.stderr.write(`note: ${note}\n`);
  if (isWhole && keys.length === 0 && verdict.key !== undefined)
    process.stderr.write(
      `warning: the file itself names the key that signed it, ${verdict.key}. Compare it with \`stoker invoice keys\` or give it as --key.\n`,
    );
  if (isWhole) return;
  throw new CliError(
    count > 0
      ? `The file does not verify: ${counted(count, "problem")}.`
      : `The server removed ${counted(verdict.expired, "record")}, so the month cannot be recomputed. Signatures and totals are valid; --allow-expired accepts that.`,
    exitCode.failed,
  );
}

const resultOf = (verdict: InvoiceVerdict, problems: readonly string[], isWhole: boolean) => ({
  verified: isWhole,
  account: verdict.account,
  month: verdict.month,
  invoice: verdict.invoice ?? null,
  closed: verdict.isClosed,
  exported_at: verdict.exportedMs === undefined ? null : Math.floor(verdict.exportedMs / 1_000),
  segments: verdict.segments,
  records: verdict.records,
  corrections: verdict.corrections,
  total_nano_usd: String(verdict.total),
  lines: verdict.lines.map(({ key, model, priceVersion, discount, cost }) => ({
    key_id: key,
    model,
    discount_id: discount,
    price_version: String(priceVersion),
    cost_nano_usd: String(cost),
  })),
  prices: verdict.prices.map((price) => ({
    price_version: price.version,
    kind: price.kind,
    subject: price.subject,
    rates_nano_usd: Object.fromEntries(ratesOf(price).map(([name, rate]) => [name, String(rate)])),
    priority_percent: price.priority,
    flex_percent: price.flex,
    effective_from_us: price.fromUs,
    effective_until_us: Number.isFinite(price.untilUs) ? price.untilUs : null,
  })),
  adapters: verdict.adapters,
  adapter_percent: verdict.adapterPercent,
  discounts: verdict.discounts.map(({ id, basisPoints }) => ({ discount_id: id, basis_points: basisPoints })),
  head: verdict.head,
  public_key: verdict.key ?? null,
  key_trusted: verdict.isKeyTrusted,
  expired_records: verdict.expired,
  problems,
  notes: verdict.notes,
});

function summaryOf(verdict: InvoiceVerdict): string {
  const what = verdict.isClosed
    ? verdict.invoice === undefined
      ? "nothing to pay"
      : `invoice ${verdict.invoice}`
    : `not closed when it was exported at ${timeOf(verdict.exportedMs ?? 0)}: settled up to ${timeOf(verdict.throughMs ?? 0)}, more may follow`;
  return [
    `${verdict.month} of ${verdict.account}: ${what}`,
    `as sealed: ${counted(verdict.records, "record")}, ${counted(verdict.corrections, "correction")}, ${counted(verdict.segments, "segment")}; ${
      verdict.expired > 0 ? `the server removed ${counted(verdict.expired, "record")}` : "each record at its price"
    }`,
    `total USD ${usd(verdict.total)}`,
    ...rateLines(verdict),
    `head ${verdict.head}`,
    `key ${verdict.key ?? "none"}${verdict.isKeyTrusted ? " (trusted)" : ""}`,
  ].join("\n");
}

/** Maximum of lines about rates; `--json` shows all. */
const maxRateLines = 100;

/** Prices, adapters and discounts of the computation, to compare with the published ones. */
function rateLines({ prices, adapters, adapterPercent, discounts }: InvoiceVerdict): string[] {
  const lines = [
    ...prices.map(
      (price) =>
        `price version ${price.version} of ${shown(price.subject)}, USD per ${price.kind === "model" ? "million" : "GPU hour"}: ${ratesOf(
          price,
        )
          .map(([name, rate]) => `${name} ${usd(rate)}`)
          .join(", ")}${tiersOf(price)}; ${timeOf(price.fromUs / 1_000)} to ${
          Number.isFinite(price.untilUs) ? timeOf(price.untilUs / 1_000) : "now"
        }`,
    ),
    ...adapters.map(
      ({ model, subject }) => `adapter ${shown(model)}: price of ${shown(subject)} and ${adapterPercent} per cent`,
    ),
    ...discounts.map(({ id, basisPoints }) => `discount ${shown(id)}: ${basisPoints / 100} per cent`),
  ];
  if (lines.length <= maxRateLines) return lines;
  return [...lines.slice(0, maxRateLines), `and ${lines.length - maxRateLines} more, which --json shows`];
}

/** Rates other than 0: of a million units, or of a GPU hour. */
const ratesOf = ({ rates, hour }: FilePrice): readonly (readonly [string, bigint])[] =>
  (
    [
      ["input", rates.input],
      ["cached_input", rates.cachedInput],
      ["output", rates.output],
      ["characters", rates.units?.characters ?? 0n],
      ["audio", rates.units?.audio ?? 0n],
      ["images", rates.units?.images ?? 0n],
      ["hour", hour],
    ] as const
  ).filter(([, rate]) => rate !== 0n);

const tiersOf = ({ priority, flex }: FilePrice): string =>
  priority === 100 && flex === 100 ? "" : `, priority ${priority} per cent, flex ${flex} per cent`;

/** Throws CliError. */
function keysOf(given: string): readonly string[] {
  if (readInvoiceKey(given)) return [given];
  const parsed = jsonOf(given);
  const listed = Array.isArray(parsed) ? parsed : (parsed as { keys?: unknown } | null)?.keys;
  const keys = (Array.isArray(listed) ? listed : []).flatMap((one: { public_key?: unknown } | null) =>
    typeof one?.public_key === "string" && readInvoiceKey(one.public_key) ? [one.public_key] : [],
  );
  if (keys.length > 0) return keys;
  throw new CliError("--key must be a public key or a file from `stoker invoice keys --json`.", exitCode.wrongUsage);
}

/** Throws CliError. */
function jsonOf(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (cause) {
    throw new CliError(unreadable(file, cause), exitCode.wrongUsage, { cause });
  }
}
