import type { AccountId, RequestId } from "../../../proto/ids.ts";
import type { TraceContext } from "../../../proto/trace-context.ts";
import type { Span } from "../../../proto/tracing.ts";
import type { Spine } from "../../inference/complete.ts";
import type { Trace } from "../../inference/completion.ts";
import type { RequestTally } from "../../series/request-tally.ts";
import { refusalOf } from "../errors/render-error.ts";

/** Statuses of work that waits and runs later. */
const waiting = new Set([402, 429, 503]);

/**
 * Span of work that runs later than the request that caused it: a trace of its own, with the id of its usage. `cause`: span of that
 * request, if it is exported; the work then is as well.
 */
export const backgroundSpan = (
  { tracing }: Pick<Spine, "tracing">,
  name: "webhook request" | "batch line" | "background response",
  requestId: RequestId,
  cause?: TraceContext,
): Span | undefined =>
  tracing?.start(name, undefined, {
    attributes: { "stoker.request_id": requestId },
    links: cause ? [cause] : undefined,
  });

/** Counts a request without a connection in the time series, once it ran or is refused for good. `error` undefined: it succeeded. */
export function noteBackground(
  tally: Pick<RequestTally, "note">,
  account: AccountId,
  trace: Trace,
  error?: unknown,
): void {
  const refusal = error === undefined ? undefined : refusalOf(error);
  const status = refusal?.status ?? 200;
  trace.span?.set({
    "gen_ai.operation.name": trace.operation,
    "gen_ai.provider.name": "stoker",
    "gen_ai.response.model": trace.model,
    "gen_ai.usage.input_tokens": trace.usage?.input,
    "gen_ai.usage.output_tokens": trace.usage?.output,
    "stoker.account": account,
  });
  trace.span?.end({ error: refusal?.code });
  if (!waiting.has(status)) tally.note(account, trace, status);
}
