import { noTokens } from "../../proto/usage-record.ts";
import type { End } from "./state-messages.ts";

/** A stored start row: the request was in flight. */
export interface StartRow {
  readonly request_id: string;
  readonly attempt: number;
  readonly lease_ids: string;
  readonly record: string;
}

/** The start row's estimate of the prompt stays: it is billed if the gateway delivered output, as without a start row. */
const { inputTokens: _, ...noOutput } = noTokens;

/** Returns the usage record of a request that the agent's end cut: its start row with reason `lost`. */
export function lostEnd(start: StartRow, endedAtMs: number): End {
  const record = {
    ...(JSON.parse(start.record) as object),
    endedAtMs: String(endedAtMs),
    ...noOutput,
    source: "estimated",
    endReason: "lost",
  };
  const { request_id: requestId, attempt, lease_ids: leaseIds } = start;
  return { requestId, attempt, leaseIds, record: JSON.stringify(record), hadStart: true };
}
