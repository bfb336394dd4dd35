import type { AccountId, DeploymentId, InstanceId, KeyId, LeaseId, ReplicaId, RequestId } from "../../proto/ids.ts";
import { costOf, type NanoUsd, nano, type TokenRates, type UnitCounts, type UnitRates } from "../../proto/money.ts";
import type { UsageRecord } from "../../proto/usage-record.ts";

/** A usage record as the ledger sees it. Figures are whole and not negative. */
export interface SettledRecord {
  readonly requestId: RequestId;
  readonly attempt: number;
  readonly admittedAtMs: number;
  readonly endedAtMs: number;
  readonly account: AccountId;
  readonly key: KeyId;
  readonly replica: ReplicaId;
  readonly model: string;
  readonly deployId: DeploymentId;
  readonly instanceId: InstanceId;
  readonly nodeEpoch: bigint;
  readonly leaseIds: readonly LeaseId[];
  readonly hold: NanoUsd;
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  /** Of a task that is not billed by tokens alone. */
  readonly units?: UnitCounts | undefined;
  /** Milliseconds times GPUs, of a minute of GPU time. */
  readonly gpuMs: number;
  readonly source: string;
  readonly endReason: string;
  readonly priceVersion: bigint;
  readonly rates: TokenRates;
  /** The discount inside the rates; null: none. */
  readonly discountId: string | null;
  /** What the tokens and units cost at these rates; the customer may pay less. */
  readonly cost: NanoUsd;
  readonly queueMs: number;
  readonly firstByteMs: number;
  readonly totalMs: number;
}

export const recordKey = (requestId: string, attempt: number): string => `${requestId}/${attempt}`;

/** Throws RangeError for a record that no honest agent writes. */
export function readRecord(wire: UsageRecord): SettledRecord {
  const rates: TokenRates = {
    input: amount(wire.inputRate, "inputRate"),
    cachedInput: amount(wire.cachedInputRate, "cachedInputRate"),
    output: amount(wire.outputRate, "outputRate"),
    units: readUnitRates(wire),
  };
  const units = readUnitCounts(wire);
  const inputTokens = count(wire.inputTokens, "inputTokens");
  const cachedInputTokens = count(wire.cachedInputTokens, "cachedInputTokens");
  const outputTokens = count(wire.outputTokens, "outputTokens");
  const requestId = text(wire.requestId, "requestId");
  const account = text(wire.accountId, "accountId");
  if (requestId === "" || account === "") throw new RangeError("a usage record without request or account");
  if (!(wire.attempt >= 1)) throw new RangeError(`usage record with attempt ${wire.attempt}`);
  return {
    requestId: requestId as RequestId,
    attempt: count(wire.attempt, "attempt"),
    admittedAtMs: time(wire.admittedAtMs, "admittedAtMs"),
    endedAtMs: time(wire.endedAtMs, "endedAtMs"),
    account: account as AccountId,
    key: text(wire.keyId, "keyId") as KeyId,
    replica: text(wire.replicaId, "replicaId") as ReplicaId,
    model: text(wire.model, "model"),
    deployId: text(wire.deployId, "deployId") as DeploymentId,
    instanceId: text(wire.instanceId, "instanceId") as InstanceId,
    nodeEpoch: amount(wire.nodeEpoch, "nodeEpoch"),
    leaseIds: leases(wire.leaseIds),
    hold: amount(wire.holdNanoUsd, "holdNanoUsd"),
    inputTokens,
    cachedInputTokens,
    outputTokens,
    reasoningTokens: count(wire.reasoningTokens, "reasoningTokens"),
    units,
    gpuMs: 0,
    source: text(wire.source, "source"),
    endReason: text(wire.endReason, "endReason"),
    priceVersion: amount(wire.priceVersion, "priceVersion"),
    rates,
    discountId: text(wire.discountId, "discountId") || null,
    cost: costOf({ input: inputTokens, cachedInput: cachedInputTokens, output: outputTokens, units }, rates),
    queueMs: count(wire.queueMs, "queueMs"),
    firstByteMs: count(wire.firstByteMs, "firstByteMs"),
    totalMs: count(wire.totalMs, "totalMs"),
  };
}

/**
 * What a `lost` attempt is billed as: the tokens the gateway delivered. Nothing delivered is nothing billed, the prompt
 * included, as for every failure before the first output.
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
    source: "counted",
    cost: costOf(tokens, record.rates),
  };
}

/** Undefined for the record of a text task. */
function readUnitCounts(wire: UsageRecord): UnitCounts | undefined {
  const { characters, audioMs, images, imagePixelSteps, items } = wire;
  if (!isSome(characters) && !isSome(audioMs) && !isSome(images) && !isSome(imagePixelSteps) && !isSome(items))
    return undefined;
  return {
    characters: count(characters, "characters"),
    audioMs: count(audioMs, "audioMs"),
    images: count(images, "images"),
    imagePixelSteps: count(imagePixelSteps, "imagePixelSteps"),
    items: count(items, "items"),
  };
}

function readUnitRates(wire: UsageRecord): UnitRates | undefined {
  if (!wire.characterRate && !wire.audioRate && !wire.imageRate) return undefined;
  return {
    characters: amount(wire.characterRate, "characterRate"),
    audio: amount(wire.audioRate, "audioRate"),
    images: amount(wire.imageRate, "imageRate"),
    imageUnit: amount(wire.imageUnit, "imageUnit"),
  };
}

const isSome = (value: unknown): boolean => value !== undefined && value !== 0 && value !== "0";

function text(value: unknown, field: string): string {
  if (value === undefined) return "";
  if (typeof value !== "string") throw new RangeError(`usage record with ${field} ${value}`);
  return value;
}

function leases(ids: unknown): LeaseId[] {
  if (!Array.isArray(ids) || !ids.every((id) => typeof id === "string"))
    throw new RangeError(`usage record with leaseIds ${ids}`);
  return ids as LeaseId[];
}

function count(value: number | string | undefined, field: string): number {
  if (value === undefined) return 0;
  const whole = typeof value === "number" ? value : Number(value);
  if (!Number.isSafeInteger(whole) || whole < 0) throw new RangeError(`usage record with ${field} ${value}`);
  return whole;
}

/** End of the year 9999: beyond it a month has no name. */
const lastMs = Date.UTC(10_000, 0) - 1;

function time(value: number | string | undefined, field: string): number {
  const unixMs = count(value, field);
  if (unixMs > lastMs) throw new RangeError(`usage record with ${field} ${value}`);
  return unixMs;
}

function amount(value: number | string | undefined, field: string): NanoUsd {
  if (value === undefined || value === "0" || value === 0) return nano(0n);
  if (!/^\d{1,18}$/.test(String(value))) throw new RangeError(`usage record with ${field} ${value}`);
  return nano(BigInt(value));
}
