import { costUsd } from "../../../../proto/money.ts";
import type { Trace } from "../../../inference/completion.ts";

/** Fields of every native response. Call it at the end, when the figures are known. */
export function envelope({ requestId, startedMs, usage, rates }: Trace) {
  return {
    request_id: requestId,
    inference_status: {
      status: "succeeded",
      runtime_ms: Math.max(1, Math.round(performance.now() - startedMs)),
      cost: costUsd(usage, rates),
      tokens_generated: usage?.output ?? null,
      tokens_input: usage?.input ?? null,
    },
  };
}

/** Response to a request with a webhook. */
export const queued = (requestId: string) => ({
  request_id: requestId,
  inference_status: { status: "queued", runtime_ms: 0, cost: 0, tokens_generated: null, tokens_input: null },
});
