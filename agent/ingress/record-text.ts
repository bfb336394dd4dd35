// A request's usage record, as the text that the spool keeps and the control plane reads (proto/usage-record.ts).
import type { Ticket } from "../../proto/ticket.ts";
import type { EndReason, UsageSource } from "../../proto/usage.ts";
import { type UsageReport, writeUsageRecord } from "../../proto/usage-record.ts";
import { type EngineFigures, noFigures } from "./find-usage.ts";
import type { RecordRow } from "./spool.ts";

/** Usage of a request and the reason it ended. */
export interface Settled {
  readonly figures: EngineFigures;
  readonly source: UsageSource;
  readonly endReason: EndReason;
}

export interface End extends Settled, Omit<UsageReport, "usage" | "nodeEpoch" | "queueMs" | keyof Settled> {
  /** Control-plane time. */
  readonly endedAtMs: number;
  /** From the request's arrival; 0: no byte arrived. */
  readonly firstByteMs: number;
  readonly totalMs: number;
}

export class RecordText {
  readonly #ticket: Ticket;
  /** Sealed text, unchanged: the settlement verifies its bytes. */
  readonly #ticketJson: string;
  readonly #nodeEpoch: bigint;
  readonly #startedMs: number;
  readonly #queueMs: number;

  /** `ticketText`: the sealed JSON of `ticket`. `startedMs`: control-plane time. */
  constructor(ticket: Ticket, ticketText: string, nodeEpoch: bigint, startedMs: number, queueMs: number) {
    this.#ticket = ticket;
    this.#ticketJson = JSON.stringify(ticketText);
    this.#nodeEpoch = nodeEpoch;
    this.#startedMs = startedMs;
    this.#queueMs = queueMs;
  }

  /**
   * The record that counts if this agent dies now: reason `lost`, no output. Its input counts only if the gateway delivered
   * something of the answer.
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

  #write({ figures, ...end }: End): string {
    const { requestId, attempt, admittedAtMs } = this.#ticket;
    // A control plane whose clock was stepped admits in a time that this host has not received yet: no interval is negative.
    const endedAtMs = Math.max(admittedAtMs, end.endedAtMs);
    const report = { ...end, usage: figures, endedAtMs, nodeEpoch: this.#nodeEpoch, queueMs: this.#queueMs };
    return writeUsageRecord(requestId, attempt, report, this.#ticketJson);
  }
}
