import { expect, it } from "vitest";
import { endingOf, phasesOf } from "../../../console/request-log.ts";

const request = {
  request_id: "r",
  attempt: 1,
  counts: true,
  model: "m",
  token_id: "k",
  end_reason: "stop",
  created_at: 0,
  ended_at: 1,
  queue_ms: 30,
  first_byte_ms: 100,
  total_ms: 400,
  input_tokens: 1,
  cached_input_tokens: 0,
  output_tokens: 1,
  reasoning_tokens: 0,
  cost: 0,
};

it("a request's time is split into waiting, the first byte and the rest, which add up to all of it", () => {
  expect(phasesOf(request)).toEqual({ queue: 30, prefill: 70, decode: 300 });
});

it("the time of a request without a first byte is none of decoding", () => {
  expect(phasesOf({ ...request, first_byte_ms: 0 })).toEqual({ queue: 30, prefill: 370, decode: 0 });
  expect(phasesOf({ ...request, first_byte_ms: 0, queue_ms: 500 })).toEqual({ queue: 400, prefill: 0, decode: 0 });
});

it("every reason for an end says what it means, and one that is not known yet is shown as it is", () => {
  for (const reason of ["stop", "client_gone", "refused", "engine_error", "engine_timeout", "drained", "lost"])
    expect(endingOf(reason).means, reason).toMatch(/\.$/);
  expect(endingOf("stop").isFailure).toBe(false);
  expect(endingOf("melted")).toEqual({ is: "melted", isFailure: true, means: "melted" });
});
