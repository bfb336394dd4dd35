import { costOf, nano, toUsd } from "../../../proto/money.ts";
import type { Trace } from "../../inference/completion.ts";

/** What every native answer carries. Read when the answer is whole: the figures are then known. */
export function envelope({ requestId, startedMs, usage, rates }: Trace) {
  return {
    request_id: requestId,
    inference_status: {
      status: "succeeded",
      runtime_ms: Math.max(1, Math.round(performance.now() - startedMs)),
      cost: toUsd(usage && rates ? costOf(usage, rates) : nano(0n)),
      tokens_generated: usage?.output ?? null,
      tokens_input: usage?.input ?? null,
    },
  };
}
