// The bytes a receiver gets: as the interface has them, without a wrapper, serialised once. Pure.
import type { RequestId } from "../../proto/ids.ts";
import type { JobAnswer } from "./job.ts";

/** Above it the call holds a link instead of the results. */
const mostCallBytes = 5 * 1024 * 1024;

export interface Callback {
  readonly body: Buffer;
  /** What the link in the body leads to. */
  readonly results: Buffer | undefined;
}

export function callbackOf(requestId: RequestId, answer: JobAnswer | undefined, linkOf: () => string): Callback {
  const status = answer ? "succeeded" : "failed";
  const inference_status = { status, runtime_ms: answer?.runtimeMs ?? 0, cost: answer?.cost ?? 0 };
  const told = (results?: object) => Buffer.from(JSON.stringify({ request_id: requestId, inference_status, results }));
  if (!answer) return { body: told(), results: undefined };
  const whole = told(answer.results);
  if (whole.length <= mostCallBytes) return { body: whole, results: undefined };
  return { body: told({ results_url: linkOf() }), results: Buffer.from(JSON.stringify(answer.results)) };
}
