import type { Ticket, TicketUnits } from "../../proto/ticket.ts";
import type { EndReason, UsageSource } from "../../proto/usage.ts";
import type { UsageRecord } from "../../proto/usage-record.ts";
import type { EngineFigures } from "./find-usage.ts";

/**
 * The record as it would stand if this agent died now: reason `lost`, no output. Its input counts only if the gateway delivered
 * something of the answer.
 */
export function startRecord(ticket: Ticket, nodeEpoch: bigint, nowMs: number, queueMs: number): UsageRecord {
  return {
    requestId: ticket.requestId,
    attempt: ticket.attempt,
    admittedAtMs: ticket.admittedAtMs,
    endedAtMs: notBefore(ticket.admittedAtMs, nowMs),
    instanceId: ticket.instanceId,
    deployId: ticket.deployId,
    nodeEpoch: nodeEpoch.toString(),
    accountId: ticket.account,
    keyId: ticket.keyId,
    replicaId: ticket.replicaId,
    model: ticket.model,
    leaseIds: ticket.leaseIds as string[],
    holdNanoUsd: ticket.hold,
    inputTokens: ticket.inputTokensEstimate,
    cachedInputTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    source: "estimated",
    endReason: "lost",
    priceVersion: ticket.priceVersion,
    discountId: ticket.discountId ?? "",
    inputRate: ticket.rates[0],
    cachedInputRate: ticket.rates[1],
    outputRate: ticket.rates[2],
    queueMs,
    firstByteMs: 0,
    totalMs: 0,
    ...(ticket.units && unitRates(ticket.units)),
  };
}

/** A control plane whose clock was stepped admits in a time that this host has not heard of yet: no interval is negative. */
const notBefore = (admittedAtMs: number, endedAtMs: number): number => Math.max(admittedAtMs, Math.round(endedAtMs));

const unitRates = ({ rates: [characterRate, audioRate, imageRate, imageUnit] }: TicketUnits) => ({
  characterRate,
  audioRate,
  imageRate,
  imageUnit,
});

export interface End {
  readonly figures: EngineFigures;
  readonly source: UsageSource;
  readonly endReason: EndReason;
  /** Control-plane time. */
  readonly endedAtMs: number;
  /** From the request's arrival; 0: no byte came. */
  readonly firstByteMs: number;
  readonly totalMs: number;
}

export function endRecord(start: UsageRecord, end: End): UsageRecord {
  return {
    ...start,
    endedAtMs: notBefore(Number(start.admittedAtMs), end.endedAtMs),
    inputTokens: end.figures.input,
    cachedInputTokens: end.figures.cachedInput,
    outputTokens: end.figures.output,
    reasoningTokens: end.figures.reasoning,
    source: end.source,
    endReason: end.endReason,
    firstByteMs: Math.round(end.firstByteMs),
    totalMs: Math.round(end.totalMs),
    ...end.figures.units,
  };
}
