// A request's usage record, as the text that the spool keeps and the control plane reads (proto/usage-record.ts). Written
// field by field: building an object of thirty fields twice and stringifying it costs three times as much.
import type { UnitCounts } from "../../proto/money.ts";
import type { Ticket, TicketUnits } from "../../proto/ticket.ts";
import type { EndReason, UsageSource } from "../../proto/usage.ts";
import { type EngineFigures, noFigures } from "./find-usage.ts";
import type { RecordRow } from "./spool.ts";

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

export class RecordText {
  readonly #ticket: Ticket;
  readonly #nodeEpoch: bigint;
  readonly #startedMs: number;
  readonly #queueMs: number;

  /** `startedMs`: control-plane time. */
  constructor(ticket: Ticket, nodeEpoch: bigint, startedMs: number, queueMs: number) {
    this.#ticket = ticket;
    this.#nodeEpoch = nodeEpoch;
    this.#startedMs = startedMs;
    this.#queueMs = queueMs;
  }

  /**
   * The record as it would stand if this agent died now: reason `lost`, no output. Its input counts only if the gateway
   * delivered something of the answer.
   */
  started(): RecordRow {
    const { requestId, attempt, leaseIds, inputTokensEstimate } = this.#ticket;
    const json = () =>
      this.#write({
        figures: { ...noFigures, input: inputTokensEstimate },
        source: "estimated",
        endReason: "lost",
        endedAtMs: this.#startedMs,
        firstByteMs: 0,
        totalMs: 0,
      });
    return { requestId, attempt, leaseIds, json };
  }

  ended(end: End): RecordRow {
    const { requestId, attempt, leaseIds } = this.#ticket;
    return { requestId, attempt, leaseIds, json: this.#write(end) };
  }

  #write({ figures, source, endReason, endedAtMs, firstByteMs, totalMs }: End): string {
    const { requestId, attempt, admittedAtMs, hold, units } = this.#ticket;
    // A control plane whose clock was stepped admits in a time that this host has not heard of yet: no interval is negative.
    const ended = Math.max(admittedAtMs, Math.round(endedAtMs));
    return (
      `{"requestId":${JSON.stringify(requestId)},"attempt":${attempt},"admittedAtMs":${admittedAtMs},"endedAtMs":${ended},` +
      `${sharedText(this.#ticket, this.#nodeEpoch)},"holdNanoUsd":"${hold}","inputTokens":${figures.input},` +
      `"cachedInputTokens":${figures.cachedInput},"outputTokens":${figures.output},"reasoningTokens":${figures.reasoning},` +
      `"source":"${source}","endReason":"${endReason}","queueMs":${this.#queueMs},"firstByteMs":${Math.round(firstByteMs)},` +
      `"totalMs":${Math.round(totalMs)}${units ? unitText(units, figures.units) : ""}}`
    );
  }
}

/** Most requests to a host are of the payer, model and price of one shortly before. */
let last: { readonly ticket: Ticket; readonly nodeEpoch: bigint; readonly text: string } | undefined;

function sharedText(ticket: Ticket, nodeEpoch: bigint): string {
  if (!last || last.nodeEpoch !== nodeEpoch || !sharesAll(last.ticket, ticket)) {
    const { instanceId, deployId, account, keyId, replicaId, model, leaseIds, priceVersion, discountId, rates } =
      ticket;
    const [inputRate, cachedInputRate, outputRate] = rates;
    const shared = {
      ...{ instanceId, deployId, nodeEpoch: `${nodeEpoch}`, accountId: account, keyId, replicaId, model, leaseIds },
      ...{ priceVersion, discountId: discountId ?? "", inputRate, cachedInputRate, outputRate },
    };
    last = { ticket, nodeEpoch, text: JSON.stringify(shared).slice(1, -1) };
  }
  return last.text;
}

function sharesAll(a: Ticket, b: Ticket): boolean {
  return (
    a.account === b.account &&
    a.keyId === b.keyId &&
    a.model === b.model &&
    a.instanceId === b.instanceId &&
    a.deployId === b.deployId &&
    a.replicaId === b.replicaId &&
    a.priceVersion === b.priceVersion &&
    a.discountId === b.discountId &&
    isSame(a.leaseIds, b.leaseIds) &&
    isSame(a.rates, b.rates)
  );
}

const isSame = (a: readonly string[], b: readonly string[]) => a.length === b.length && a.every((id, i) => id === b[i]);

function unitText({ rates }: TicketUnits, counts: UnitCounts | undefined): string {
  const [characterRate, audioRate, imageRate, imageUnit] = rates;
  return `,${JSON.stringify({ characterRate, audioRate, imageRate, imageUnit, ...counts }).slice(1, -1)}`;
}
