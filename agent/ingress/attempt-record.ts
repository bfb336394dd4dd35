// Writes the usage records of an attempt: when it starts, when it ends, and when it never reached its engine. A gateway that stops waiting cannot know whether the attempt ran,
// so it keeps the customer's hold until a record states the amount.
import type { Ticket } from "../../proto/ticket.ts";
import type { EndReason, UsageSource } from "../../proto/usage.ts";
import { type UsageReport, writeUsageRecord } from "../../proto/usage-record.ts";
import { type EngineFigures, noFigures } from "./find-usage.ts";
import type { Plane } from "./plane.ts";
import type { RecordRow } from "./spool.ts";

export class AttemptRecord {
  readonly #plane: Plane;
  readonly #ticket: Ticket;
  readonly #ticketText: string;
  readonly #arrivedMs: number;
  #isDecided = false;

  /** `ticketText`: the sealed JSON of the ticket. `arrivedMs`: monotonic. */
  constructor(plane: Plane, ticket: Ticket, ticketText: string, arrivedMs: number) {
    this.#plane = plane;
    this.#ticket = ticket;
    this.#ticketText = ticketText;
    this.#arrivedMs = arrivedMs;
  }

  /** The engine receives the request: the returned record is to be written when it ends. */
  engineStarted(queueMs: number): RecordText {
    this.#isDecided = true;
    return this.#recordText(queueMs);
  }

  /** Writes a record of nothing, once. Does nothing after `engineStarted`. */
  endedUnrun(endReason: EndReason, httpStatus: number): void {
    if (this.#isDecided) return;
    this.#isDecided = true;
    const { spool, log } = this.#plane;
    const nowMs = this.#plane.controlTimeMs();
    const waitedMs = this.#plane.clock() - this.#arrivedMs;
    const text = this.#recordText(Math.round(waitedMs));
    const end = {
      figures: noFigures,
      source: "counted",
      endReason,
      httpStatus,
      endedAtMs: nowMs,
      firstByteMs: 0,
    } as const;
    spool.end(text.ended({ ...end, totalMs: waitedMs })).catch((error: unknown) => {
      log.warn(
        { err: error, requestId: this.#ticket.requestId },
        "could not write the record of a request that did not run",
      );
    });
  }

  #recordText(queueMs: number): RecordText {
    const { nodeEpoch, controlTimeMs } = this.#plane;
    return new RecordText(this.#ticket, this.#ticketText, nodeEpoch(), controlTimeMs(), queueMs);
  }
}

export interface Settled {
  readonly figures: EngineFigures;
  readonly source: UsageSource;
  readonly endReason: EndReason;
  /** As in the usage record. */
  readonly httpStatus: number;
}

interface End extends Settled, Omit<UsageReport, "usage" | "nodeEpoch" | "queueMs" | keyof Settled> {
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
        httpStatus: 0,
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
