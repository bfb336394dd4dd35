// Turns what a host sent into a record that can be billed. The ticket is verified first; account, rates, hold, attempt and
// instance come from it. The host reports only the usage, within the bounds of the ticket.
import type {
  AccountId,
  DeploymentId,
  HostId,
  InstanceId,
  KeyId,
  LeaseId,
  ReplicaId,
  RequestId,
} from "../../proto/ids.ts";
import {
  costOf,
  type NanoUsd,
  nano,
  type ProviderRates,
  type TokenRates,
  type UnitCounts,
  type UnitRates,
} from "../../proto/money.ts";
import { openSealed, type SealKey, type Ticket, type TicketProvider } from "../../proto/ticket.ts";
import { unreachable } from "../../proto/unreachable.ts";
import { isEndReason, isUsageSource, type UsageSource } from "../../proto/usage.ts";
import { isAllowedUsage } from "../../proto/usage-bounds.ts";
import {
  type NamedUsageField,
  type ReportedUsage,
  type UsageField,
  type UsageName,
  type UsageNames,
  type UsageRecord,
  type UsageValues,
  usageFieldList,
} from "../../proto/usage-record.ts";

import { type ProviderCharge, providerCharge } from "./provider-cost.ts";

type Grouped = UsageNames<{ readonly in: "units" | "rates" }>;
type Posted = UsageNames<{ readonly from: "posting" }>;

/** A usage record as it is billed. Figures are whole and not negative. */
export interface SettledRecord extends Omit<UsageValues, Grouped | Posted> {
  readonly requestId: RequestId;
  readonly account: AccountId;
  readonly key: KeyId;
  readonly replica: ReplicaId;
  readonly deployId: DeploymentId;
  readonly instanceId: InstanceId;
  readonly leaseIds: readonly LeaseId[];
  readonly hold: NanoUsd;
  readonly cost: NanoUsd;
  readonly rates: TokenRates;
  /** For a task that is not billed by tokens only. */
  readonly units?: UnitCounts | undefined;
  /** Cost of the attempt at the model's provider. */
  readonly provider?: ProviderCharge | undefined;
  /** It has no valid figures: the gateway's delivered count bills it. */
  readonly isUnmeasured?: boolean;
}

export const recordKey = ({ requestId, attempt }: { readonly requestId: string; readonly attempt: number }): string =>
  `${requestId}/${attempt}`;

/**
 * The ticket of a record, once its seal shows that this installation sent the request to `host`. Throws RefusedRecord; undefined
 * when the key of the seal has not reached this control plane yet.
 */
export function provenTicket(wire: UsageRecord, host: HostId, seals: TicketSeals): Ticket | undefined {
  let isNewer = false;
  const ticket = openSealed(ticketOf(wire), (version) => {
    const key = seals.find(version);
    isNewer = key === "newer";
    return typeof key === "string" ? undefined : key;
  });
  if (isNewer) return undefined;
  if (typeof ticket === "string") throw new RefusedRecord(ticket, whyRefused[ticket]);
  if (ticket.hostId !== host) throw new RefusedRecord("other_host", "the request was sent to another host");
  return ticket;
}

export const whyRefused = {
  unsealed: "the record has no sealed ticket: an agent of an earlier version wrote it, or the request was never sent",
  bad_seal: "the seal does not match the ticket",
  unknown_key: "the key of the seal is no longer among the secrets",
} as const satisfies Partial<Record<QuarantineProblem, string>>;

export const ticketOf = ({ ticket }: UsageRecord): string => {
  if (typeof ticket !== "string") throw new RefusedRecord("unsealed", whyRefused.unsealed);
  return ticket;
};

/** Throws RangeError for a record that no honest agent writes. */
export function readRecord(wire: UsageRecord, ticket: Ticket): SettledRecord {
  const { source, endReason } = wire;
  if (!isUsageSource(source)) throw invalid("source", source);
  if (!isEndReason(endReason)) throw invalid("endReason", endReason);
  const rates: TokenRates = {
    input: amount(ticket.rates[0], "input rate"),
    cachedInput: amount(ticket.rates[1], "cached input rate"),
    output: amount(ticket.rates[2], "output rate"),
    units: unitRatesOf(ticket),
  };
  const reported = reportedUsage(wire);
  const isAllowed = isAllowedUsage(reported, ticket);
  const isUnmeasured = !isAllowed || endReason === "lost";
  const usage = isUnmeasured ? { ...nothing, input: count(ticket.inputTokensEstimate, "estimate") } : reported;
  const terms = readFields({ ...noFields }, ticketFields, ticket);
  const { requestId, account, attempt, admittedAtMs } = terms;
  if (requestId === "" || account === "" || attempt === 0) throw invalid("request", requestId);
  const values = readFields(terms, hostFields, wire);
  const named = values as typeof values & Pick<SettledRecord, keyof typeof terms>;
  const { leaseIds, provider } = splitLeases(named.leaseIds, ticket.provider);
  return {
    ...named,
    leaseIds,
    provider: provider && providerCharge(provider, named, usage),
    endedAtMs: Math.min(Math.max(admittedAtMs, values.endedAtMs), admittedAtMs + longestRequestMs),
    inputTokens: usage.input,
    cachedInputTokens: usage.cachedInput,
    outputTokens: usage.output,
    reasoningTokens: usage.reasoning,
    units: usage.units,
    gpuMs: 0,
    source: isAllowed ? source : ("engine_usage_rejected" satisfies UsageSource),
    endReason,
    isUnmeasured,
    rates,
    cost: costOf(usage, rates),
  };
}

/** Leases of the provider are last. */
function splitLeases(all: readonly LeaseId[], terms: TicketProvider | undefined) {
  if (!terms) return { leaseIds: all, provider: undefined };
  const [input, cachedInput, output, request] = terms.rates;
  const ownCount = Math.max(0, all.length - count(terms.leases, "provider leases"));
  const rates: ProviderRates = {
    input: amount(input, "provider input rate"),
    cachedInput: amount(cachedInput, "provider cached input rate"),
    output: amount(output, "provider output rate"),
    request: amount(request, "provider request price"),
  };
  return { leaseIds: all.slice(0, ownCount), provider: { rates, leaseIds: all.slice(ownCount) } };
}

const isGrouped = ({ in: group }: UsageField): boolean => group !== undefined;
/** Terms of the bill, except rates. */
const ticketFields = usageFieldList.filter((field) => field.from === "ticket" && !isGrouped(field)) as Readable<
  Exclude<UsageNames<{ readonly from: "ticket" }>, Grouped>
>;
/** Measurements of the host, except tokens and units, which the ticket limits. */
const hostFields = usageFieldList.filter((field) => field.from === "host" && !isGrouped(field)) as Readable<
  Exclude<UsageNames<{ readonly from: "host" }>, UsageNames<{ readonly in: "tokens" | "units" }>>
>;

type Readable<Name extends UsageName> = readonly (NamedUsageField & { readonly name: Name })[];

/** Copied for each record: adding the fields to an empty object one by one is slower. */
const noFields: object = Object.fromEntries([...ticketFields, ...hostFields].map(({ name }) => [name, undefined]));

/** Adds the fields to `into`. Throws RangeError. */
function readFields<Into extends object, Name extends UsageName>(
  into: Into,
  fields: Readable<Name>,
  from: object,
): Into & Pick<UsageValues, Name> {
  const values = into as Partial<Record<UsageName, unknown>>;
  for (const field of fields)
    values[field.name] = readValue(field, (from as Readonly<Record<string, Wire>>)[field.key ?? field.name]);
  return into as Into & Pick<UsageValues, Name>;
}

type Wire = number | string | undefined;

function readValue({ name, type, max, isNullable }: NamedUsageField, value: Wire): unknown {
  switch (type) {
    case "text":
      return text(value, name, max) || (isNullable ? null : "");
    case "texts":
      return leases(value);
    case "integer":
    case "count":
      return count(value, name, max);
    case "duration":
      return Math.min(count(value, name), maxDurationMs);
    case "time":
      return count(value, name, lastMs);
    case "amount":
      return amount(value, name);
    case "flag":
      return Boolean(value);
    default:
      return unreachable(type);
  }
}

/**
 * Bills an attempt without figures by the tokens that the gateway delivered. Without any, the prompt is free too, as for every
 * failure before the first output.
 */
export function asDelivered(record: SettledRecord, deliveredTokens: number): SettledRecord {
  const inputTokens = deliveredTokens > 0 ? record.inputTokens : 0;
  const cachedInputTokens = Math.min(record.cachedInputTokens, inputTokens);
  const tokens = { input: inputTokens, cachedInput: cachedInputTokens, output: deliveredTokens };
  return {
    ...record,
    inputTokens,
    cachedInputTokens,
    outputTokens: deliveredTokens,
    units: undefined,
    source: record.source === "engine_usage_rejected" ? record.source : "counted",
    cost: costOf(tokens, record.rates),
    provider: record.provider && providerCharge(record.provider, record, tokens),
  };
}

const nothing: ReportedUsage = { input: 0, cachedInput: 0, output: 0, reasoning: 0 };

/** Usage as the host reports it, not validated: any field may hold any value. */
function reportedUsage(wire: UsageRecord): ReportedUsage {
  return {
    input: Number(wire.inputTokens ?? 0),
    cachedInput: Number(wire.cachedInputTokens ?? 0),
    output: Number(wire.outputTokens ?? 0),
    reasoning: Number(wire.reasoningTokens ?? 0),
    units: reportedUnits(wire),
  };
}

/** Undefined for the record of a text task. */
function reportedUnits(wire: UsageRecord): UnitCounts | undefined {
  if (unitNames.every((name) => !isSome(wire[name]))) return undefined;
  return Object.fromEntries(unitNames.map((name) => [name, Number(wire[name] ?? 0)])) as unknown as UnitCounts;
}

const unitNames = usageFieldList.filter((field) => field.in === "units").map(({ name }) => name as keyof UnitCounts);

function unitRatesOf({ units }: Ticket): UnitRates | undefined {
  if (!units) return undefined;
  const [characters, audio, images, imageUnit] = units.rates;
  return {
    characters: amount(characters, "character rate"),
    audio: amount(audio, "audio rate"),
    images: amount(images, "image rate"),
    imageUnit: amount(imageUnit, "image unit"),
  };
}

const isSome = (value: unknown): boolean => value !== undefined && value !== 0 && value !== "0";

const invalid = (field: string, value: unknown) =>
  new RangeError(`usage record with ${field} ${String(value).slice(0, 100)}`);

function text(value: unknown, field: string, maxLength = Number.POSITIVE_INFINITY): string {
  if (value === undefined) return "";
  if (typeof value !== "string" || value.length > maxLength) throw invalid(field, value);
  return value;
}

function leases(ids: unknown): LeaseId[] {
  if (!Array.isArray(ids) || !ids.every((id) => typeof id === "string")) throw invalid("leaseIds", ids);
  return ids as LeaseId[];
}

function count(value: Wire, field: string, max = Number.MAX_SAFE_INTEGER): number {
  if (value === undefined) return 0;
  const whole = typeof value === "number" ? value : Number(value);
  if (!Number.isSafeInteger(whole) || whole < 0 || whole > max) throw invalid(field, value);
  return whole;
}

/** Maximum of a 32-bit column: 24 days. */
const maxDurationMs = 2 ** 31 - 1;
const longestRequestMs = 7 * 86_400_000;

/** End of the year 9999: later months have no name. */
const lastMs = Date.UTC(10_000, 0) - 1;

function amount(value: number | string | undefined, field: string): NanoUsd {
  if (value === undefined || value === "0" || value === 0) return nano(0n);
  if (!/^\d{1,18}$/.test(String(value))) throw invalid(field, value);
  return nano(BigInt(value));
}

/** Reason why a usage record is in quarantine. */
export type QuarantineProblem =
  /** It carries no sealed ticket. */
  | "unsealed"
  | "bad_seal"
  /** The key of the seal is no longer among the secrets. */
  | "unknown_key"
  /** The request was sent to another host. */
  | "other_host"
  /** A field holds what no honest agent writes. */
  | "malformed"
  /** PostgreSQL refuses a value of it. */
  | "refused_value"
  /** Retention has removed the records of its time, so nothing shows whether it was billed. */
  | "expired"
  /** GPU time of an instance that never ran on the host that sent it. */
  | "unknown_instance"
  /** GPU time that lies in the future, or before or after the life of its instance. */
  | "outside_life";

/** A usage record that cannot be billed without an operator. */
export class RefusedRecord extends Error {
  override readonly name = "RefusedRecord";
  readonly problem: QuarantineProblem;
  constructor(problem: QuarantineProblem, message: string) {
    super(message);
    this.problem = problem;
  }
}

/** Keys that seal tickets. All control planes of an installation have the same; no host has any. */
export interface TicketSeals {
  /** Seals new tickets. */
  newest(): SealKey;
  /** `newer`: made by a rotation that has not reached this control plane yet. `removed`: no longer among the secrets. */
  find(version: number): Buffer | "newer" | "removed";
}
