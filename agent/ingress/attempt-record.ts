// Usage record of an attempt that never reached its engine. A gateway that stops waiting cannot know whether the attempt ran,
// so it keeps the customer's hold until a record states the amount.
import type { Ticket } from "../../proto/ticket.ts";
import type { EndReason } from "../../proto/usage.ts";
import { noFigures } from "./find-usage.ts";
import type { Plane } from "./plane.ts";
import { RecordText } from "./record-text.ts";

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
  endedUnrun(endReason: EndReason): void {
    if (this.#isDecided) return;
    this.#isDecided = true;
    const { spool, log } = this.#plane;
    const nowMs = this.#plane.controlTimeMs();
    const waitedMs = this.#plane.clock() - this.#arrivedMs;
    const text = this.#recordText(Math.round(waitedMs));
    const end = { figures: noFigures, source: "counted", endReason, endedAtMs: nowMs, firstByteMs: 0 } as const;
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
