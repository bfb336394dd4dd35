import type { AccountId } from "../../../proto/ids.ts";
import type { Trace } from "../../inference/completion.ts";
import type { RequestTally } from "../../series/request-tally.ts";
import { refusalOf } from "../errors/render-error.ts";

/** Statuses of work that waits and runs later. */
const waiting = new Set([402, 429, 503]);

/** Counts a request without a connection in the time series, once it ran or is refused for good. `error` undefined: it succeeded. */
export function noteBackground(
  tally: Pick<RequestTally, "note">,
  account: AccountId,
  trace: Trace,
  error?: unknown,
): void {
  const status = error === undefined ? 200 : refusalOf(error).status;
  if (!waiting.has(status)) tally.note(account, trace, status);
}
