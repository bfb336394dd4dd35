// The usage record: its fields, and how agents write it down and send it: JSON, an array a batch. Decoding it as a protocol
// buffer costs three times as much on both sides. Fields are only ever added; one that is left out is 0 or empty.

import { scanJson } from "./json-scan.ts";
import type { UnitCounts } from "./money.ts";

/**
 * Type of a field: in memory, in JSON, in the table. `integer`: number, integer column. `count`: number, bigint column. `duration`: milliseconds, at most 24 days.
 * `time`: Unix ms, timestamptz column. `amount`: bigint, decimal text in JSON.
 */
type UsageType = "text" | "texts" | "integer" | "count" | "duration" | "time" | "amount" | "flag";

export interface UsageField {
  readonly column: string;
  readonly type: UsageType;
  /** `price`: computed when a record is read. `posting`: computed when it is settled. */
  readonly from: "host" | "ticket" | "price" | "posting";
  /** Absent: the field may be left out and its column has a default, as every later field must. */
  readonly isRequired?: true;
  /** Texts only: an empty one is stored as null. Numbers cannot be negative or null; use a text. */
  readonly isNullable?: true;
  /** Group that holds the value in memory. `tokens` and `units` are limited by the ticket. */
  readonly in?: "tokens" | "units" | "rates";
  /** Name of the value in its group or in the ticket, where it differs. */
  readonly key?: string;
  /** Maximum of a count that the ticket does not limit; maximum length of a text. */
  readonly max?: number;
  /**
   * Part of the text by which usage is sealed (proto/invoice-file.ts): what the bill depends on and what names the request. A new field is
   * not sealed, because the texts of older records must stay as they are.
   */
  readonly isSealed?: true;
  /** Description in the API, which shows the field under the name of its column; "": shown without one. Numbers only. */
  readonly shown?: string;
}

/**
 * All fields of a usage record, in the order of its JSON. The agent's writer, the settlement's reader, the columns of the usage
 * table and the API's request log follow from this list.
 */
export const usageFields = {
  requestId: { column: "request_id", type: "text", from: "ticket", isRequired: true, isSealed: true },
  attempt: { column: "attempt", type: "integer", from: "ticket", isRequired: true, isSealed: true },
  endedAtMs: { column: "ended_at", type: "time", from: "host", isRequired: true },
  nodeEpoch: { column: "node_epoch", type: "amount", from: "host", isRequired: true },
  inputTokens: {
    column: "input_tokens",
    type: "count",
    from: "host",
    in: "tokens",
    key: "input",
    shown: "Cached ones included",
    isSealed: true,
  },
  cachedInputTokens: {
    column: "cached_input_tokens",
    type: "count",
    from: "host",
    in: "tokens",
    key: "cachedInput",
    shown: "",
    isSealed: true,
  },
  outputTokens: {
    column: "output_tokens",
    type: "count",
    from: "host",
    in: "tokens",
    key: "output",
    shown: "Reasoning included",
    isSealed: true,
  },
  reasoningTokens: {
    column: "reasoning_tokens",
    type: "count",
    from: "host",
    in: "tokens",
    key: "reasoning",
    shown: "",
  },
  source: { column: "source", type: "text", from: "host", isRequired: true },
  endReason: { column: "end_reason", type: "text", from: "host", isRequired: true },
  queueMs: { column: "queue_ms", type: "duration", from: "host", shown: "Until a place was free at the model" },
  firstByteMs: {
    column: "first_byte_ms",
    type: "duration",
    from: "host",
    shown: "To the first byte, waiting included; 0: there was none",
  },
  totalMs: { column: "total_ms", type: "duration", from: "host", shown: "" },
  httpStatus: {
    column: "http_status",
    type: "integer",
    from: "host",
    max: 599,
    shown:
      "HTTP status of the host's response, 499: the client disconnected before; 0: unknown. A stream that fails later has 200",
  },
  // Units of tasks that are not billed by tokens only.
  /** Characters of spoken text. */
  characters: {
    column: "characters",
    type: "count",
    from: "host",
    in: "units",
    max: 1e9,
    isSealed: true,
    shown: "Characters of spoken text",
  },
  /** Milliseconds of audio that was transcribed. */
  audioMs: {
    column: "audio_ms",
    type: "count",
    from: "host",
    in: "units",
    max: 1e9,
    isSealed: true,
    shown: "Milliseconds of transcribed audio",
  },
  /** Images that were made, not those of a prompt. */
  images: {
    column: "images",
    type: "count",
    from: "host",
    in: "units",
    max: 1e9,
    isSealed: true,
    shown: "Generated images",
  },
  /** Width x height x steps, summed over the images; 0 if unknown. */
  imagePixelSteps: { column: "image_pixel_steps", type: "count", from: "host", in: "units", max: 1e12, isSealed: true },
  /** Inputs embedded, documents ranked, texts classified; shown, not billed. */
  items: { column: "items", type: "count", from: "host", in: "units", max: 1e9 },
  admittedAtMs: { column: "admitted_at", type: "time", from: "ticket", isRequired: true, isSealed: true },
  account: { column: "account_id", type: "text", from: "ticket", isRequired: true },
  key: { column: "key_id", type: "text", from: "ticket", isRequired: true, key: "keyId", isSealed: true },
  replica: { column: "replica_id", type: "text", from: "ticket", isRequired: true, key: "replicaId" },
  model: { column: "model", type: "text", from: "ticket", isRequired: true, isSealed: true },
  deployId: { column: "deploy_id", type: "text", from: "ticket", isRequired: true },
  instanceId: { column: "instance_id", type: "text", from: "ticket", isRequired: true },
  leaseIds: { column: "lease_ids", type: "texts", from: "ticket", isRequired: true },
  hold: { column: "hold", type: "amount", from: "ticket", isRequired: true },
  priceVersion: { column: "price_version", type: "amount", from: "ticket", isRequired: true, isSealed: true },
  inputRate: { column: "input_rate", type: "amount", from: "ticket", isRequired: true, in: "rates" },
  cachedInputRate: { column: "cached_input_rate", type: "amount", from: "ticket", isRequired: true, in: "rates" },
  outputRate: { column: "output_rate", type: "amount", from: "ticket", isRequired: true, in: "rates" },
  characterRate: { column: "character_rate", type: "amount", from: "ticket", in: "rates" },
  audioRate: { column: "audio_rate", type: "amount", from: "ticket", in: "rates" },
  imageRate: { column: "image_rate", type: "amount", from: "ticket", in: "rates" },
  /** Pixel steps of an image at that rate; 0: all images cost the same. */
  imageUnit: { column: "image_unit", type: "amount", from: "ticket", in: "rates" },
  /** Discount inside the rates. */
  discountId: {
    column: "discount_id",
    type: "text",
    from: "ticket",
    isRequired: true,
    isNullable: true,
    isSealed: true,
  },
  /** Name of the end user that the request was made for; the table holds the id of the name, so that it can be erased. */
  endUser: { column: "end_user", type: "text", from: "ticket", isNullable: true },
  /** Service tier; null: default. */
  tier: { column: "service_tier", type: "text", from: "ticket", isNullable: true, isSealed: true },
  /** Milliseconds times GPUs of a minute of GPU time. */
  gpuMs: { column: "gpu_ms", type: "count", from: "price", isSealed: true },
  cost: { column: "cost", type: "amount", from: "price", isRequired: true, isSealed: true },
  /** Amount that the customer pays: at most the hold; 0 when voided. */
  charge: { column: "charge", type: "amount", from: "posting", isRequired: true },
  /** A later attempt exists, so this one is not billed. */
  isVoided: { column: "voided", type: "flag", from: "posting" },
  /** Budget of the request's JWT: leases are deleted long before usage. Null: its token has no limit. */
  tokenBudget: { column: "token_budget", type: "text", from: "posting", isNullable: true },
} as const satisfies Readonly<Record<string, UsageField>>;

type Fields = typeof usageFields;
export type UsageName = keyof Fields;
/** Names of the fields that match `Condition`. */
export type UsageNames<Condition> = { [N in UsageName]: Fields[N] extends Condition ? N : never }[UsageName];

type ValueOf<F extends UsageField> =
  | (F extends { readonly type: "amount" }
      ? bigint
      : F extends { readonly type: "flag" }
        ? boolean
        : F extends { readonly type: "text" }
          ? string
          : F extends { readonly type: "texts" }
            ? readonly string[]
            : number)
  | (F extends { readonly isNullable: true } ? null : never);

/** Values of the fields in memory. */
export type UsageValues = { readonly [N in UsageName]: ValueOf<Fields[N]> };

export interface NamedUsageField extends UsageField {
  readonly name: UsageName;
}

export const usageFieldList: readonly NamedUsageField[] = Object.entries(usageFields).map(([name, field]) => ({
  name: name as UsageName,
  ...field,
}));

/** Fields whose value the API shows, durations first. */
export const shownFields = usageFieldList
  .filter((field) => field.shown !== undefined)
  .toSorted((a, b) => Number(b.type === "duration") - Number(a.type === "duration"));
export type ShownUsage = UsageNames<{ readonly shown: string }>;
export type ShownColumn = Fields[ShownUsage]["column"];

export const noTokens = defaultsOf(({ in: group }) => group === "tokens") as Pick<
  UsageValues,
  UsageNames<{ readonly in: "tokens" }>
>;

/** Values of the fields that a record may leave out: no usage. */
export const noUsage = defaultsOf(
  ({ from, in: group, isRequired }) => from !== "posting" && group !== "units" && group !== "rates" && !isRequired,
) as Pick<
  UsageValues,
  Exclude<
    UsageName,
    UsageNames<{ readonly isRequired: true } | { readonly from: "posting" } | { readonly in: "units" | "rates" }>
  >
>;

function defaultsOf(isWanted: (field: UsageField) => boolean): object {
  const byType = { text: "", texts: [], integer: 0, count: 0, duration: 0, time: 0, amount: 0n, flag: false };
  const fields = usageFieldList.filter(isWanted);
  return Object.fromEntries(fields.map(({ name, type, isNullable }) => [name, isNullable ? null : byType[type]]));
}

/** A whole number that is not negative; as text where an agent kept it so. */
type Count = number | string;

type HostName = UsageNames<{ readonly from: "host" }>;
type RequiredHostName = HostName & UsageNames<{ readonly isRequired: true }>;
type WireOf<F extends UsageField> = F extends { readonly type: "text" | "amount" }
  ? string
  : F extends { readonly type: "duration" }
    ? number
    : Count;

type HostFields = { readonly [N in RequiredHostName]: WireOf<Fields[N]> } & {
  readonly [N in Exclude<HostName, RequiredHostName>]?: WireOf<Fields[N]>;
};

/** Usage as an engine or a host reports it, not yet validated. */
export interface ReportedUsage {
  readonly input: number;
  readonly cachedInput: number;
  readonly output: number;
  readonly reasoning: number;
  readonly units?: UnitCounts | undefined;
}

/** Flat values as an agent writes them. */
export interface UsageRecord extends HostFields {
  /** For people and logs: the settlement reads the ticket. A minute of GPU time has no ticket and is named here. */
  readonly requestId: string;
  readonly attempt: number;
  /**
   * Sealed JSON of the ticket that the request came with (proto/ticket.ts), unchanged. It proves that this installation sent the
   * request to the host, and holds everything that the bill depends on beside the usage.
   */
  readonly ticket?: string;
  // A minute of GPU time instead of a request (proto/gpu-minute.ts). The control plane knows whose it is and what it costs.
  /** Start of the minute. */
  readonly admittedAtMs?: Count;
  readonly instanceId?: string;
  readonly deployId?: string;
  /** Time in the minute during which the instance was ready. */
  readonly readyMs?: number;
}

type Measured = Exclude<HostName, UsageNames<{ readonly in: "tokens" | "units" }>>;
/** Report of an agent about a request: `usage`, and every other field of the host, also those that are optional for readers. */
export type UsageReport = Pick<UsageValues, Measured> & { readonly usage: ReportedUsage };

type Values = Readonly<Record<string, string | number | bigint | null | undefined>>;

const writtenFields = usageFieldList
  .filter(({ from }) => from === "host")
  .map(({ name, type, in: group, key = name }) => ({ group, key, type, head: `,"${name}":` }));

/** JSON of the record of a request; faster than JSON.stringify of an object. `ticketJson`: its sealed ticket as a JSON string. */
export function writeUsageRecord(requestId: string, attempt: number, report: UsageReport, ticketJson: string): string {
  const own = report as unknown as Values;
  const tokens = report.usage as unknown as Values;
  const units = report.usage.units as unknown as Values | undefined;
  let text = `{"requestId":${JSON.stringify(requestId)},"attempt":${attempt}`;
  for (const { group, key, type, head } of writtenFields) {
    const value = (group === undefined ? own : group === "tokens" ? tokens : units)?.[key];
    if (value === undefined || value === null) continue;
    text += head;
    if (type === "text") text += JSON.stringify(value);
    else if (type === "amount") text += `"${value}"`;
    else text += Math.round(value as number);
  }
  return `${text},"ticket":${ticketJson}}`;
}

/** In an agent's spool: as the text it is kept as. */
export interface PendingRecord {
  /** Digits; acknowledged by this. */
  readonly spoolId: string;
  /** JSON of a UsageRecord. */
  readonly json: string;
}

/** As it comes out of a batch. */
export interface SpooledRecord extends UsageRecord {
  readonly spoolId: Count;
}

/**
 * How long an agent keeps acknowledged records, and a control plane whose database was restored waits for them: the highest
 * documented age of a backup of that database.
 */
export const acknowledgedKeptMs = 48 * 3_600_000;

export const maxBatchRecords = 500;
/** Bytes of a batch. 500 records of requests have less than 1 MiB. */
export const maxBatchBytes = 2 * 1024 * 1024;

/** The oldest records that fit into one batch; one record at least. */
export function firstBatch(records: readonly PendingRecord[]): readonly PendingRecord[] {
  let bytes = 2;
  const end = records.slice(0, maxBatchRecords).findIndex(({ spoolId, json }) => {
    bytes += Buffer.byteLength(json) + spoolId.length + `{"spoolId":,`.length;
    return bytes > maxBatchBytes;
  });
  return records.slice(0, end < 0 ? maxBatchRecords : Math.max(1, end));
}

/** Joins texts instead of serialising objects again. */
export const writeUsageBatch = (records: readonly PendingRecord[]): string =>
  `[${records.map(({ spoolId, json }) => `{"spoolId":${spoolId},${json.slice(1)}`).join()}]`;

/**
 * Returns the records of a batch, each with an id to acknowledge; what their fields hold is for the reader to check. Throws
 * SyntaxError for anything else, and for a batch beyond the limits before it is parsed.
 */
export function readUsageBatch(json: string): readonly SpooledRecord[] {
  if (json.length > maxBatchBytes) throw new SyntaxError(tooLarge);
  const bytes = Buffer.from(json);
  if (bytes.length > maxBatchBytes) throw new SyntaxError(tooLarge);
  const scan = scanJson(bytes);
  if (typeof scan === "string") throw new SyntaxError(`this batch of usage records is ${scan.replaceAll("_", " ")}`);
  const records = parsed(json);
  if (Array.isArray(records) && records.length > maxBatchRecords) throw new SyntaxError(tooLarge);
  if (!Array.isArray(records) || !records.every(hasSpoolId))
    throw new SyntaxError("this is not a batch of usage records");
  return records;
}

const tooLarge = `a batch of usage records has at most ${maxBatchRecords} records and ${maxBatchBytes} bytes`;

/** The error of JSON.parse quotes its input, which may be anything. */
function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

function hasSpoolId(record: unknown): record is SpooledRecord {
  return (
    typeof record === "object" && record !== null && "spoolId" in record && /^\d{1,19}$/.test(String(record.spoolId))
  );
}
