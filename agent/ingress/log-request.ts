// Logs one line per request, never its body. The fields are the same for every outcome, so that chaos tests can sum them.
import type { Logger } from "pino";
import type { Ticket } from "../../proto/ticket.ts";
import type { EngineFigures } from "./find-usage.ts";
import type { Outcome } from "./ingress-metrics.ts";

export interface RequestLine {
  readonly outcome: Outcome;
  readonly status: number;
  readonly queueMs: number;
  readonly firstByteMs: number;
  readonly totalMs: number;
  readonly figures: EngineFigures;
  /** Undefined, and not in the line, when the request never reached the engine. */
  readonly source: string | undefined;
  readonly endReason: string | undefined;
}

export function logRequest(log: Logger, ticket: Ticket, line: RequestLine): void {
  const { figures } = line;
  log.info(
    {
      requestId: ticket.requestId,
      attempt: ticket.attempt,
      instance: ticket.instanceId,
      account: ticket.account,
      model: ticket.model,
      outcome: line.outcome,
      status: line.status,
      queueMs: line.queueMs,
      firstByteMs: line.firstByteMs,
      totalMs: line.totalMs,
      source: line.source,
      endReason: line.endReason,
      inputTokens: figures.input,
      cachedInputTokens: figures.cachedInput,
      outputTokens: figures.output,
      ...figures.units,
    },
    "request",
  );
}
