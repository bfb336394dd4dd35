// Body of a webhook call: the interface's format without a wrapper, serialised once. Pure.
import type { RequestId } from "../../proto/ids.ts";
import type { JobAnswer } from "./job.ts";

/** Larger calls carry a link instead of the results. */
const maxCallBytes = 5 * 1024 * 1024;

export interface Callback {
  readonly body: Buffer;
  /** Content behind the link in the body. */
  readonly results: Buffer | undefined;
}

export function callbackOf(requestId: RequestId, answer: JobAnswer | undefined, linkOf: () => string): Callback {
  const status = answer ? "succeeded" : "failed";
  const inference_status = { status, runtime_ms: answer?.runtimeMs ?? 0, cost: answer?.cost ?? 0 };
  const serialise = (results?: object) =>
    Buffer.from(JSON.stringify({ request_id: requestId, inference_status, results }));
  if (!answer) return { body: serialise(), results: undefined };
  const full = serialise(answer.results);
  if (full.length <= maxCallBytes) return { body: full, results: undefined };
  return { body: serialise({ results_url: linkOf() }), results: Buffer.from(JSON.stringify(answer.results)) };
}
