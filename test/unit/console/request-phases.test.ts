import { expect, it } from "vitest";
import { endingOf, phasesOf } from "../../../console/domain/request-phases.ts";

const request = { queue_ms: 30, first_byte_ms: 100, total_ms: 400 };

it("splits the time of a request into queue, first byte and rest", () => {
  expect(phasesOf(request)).toEqual({ queue: 30, prefill: 70, decode: 300 });
});

it("has no decode time without a first byte", () => {
  expect(phasesOf({ ...request, first_byte_ms: 0 })).toEqual({ queue: 30, prefill: 370, decode: 0 });
  expect(phasesOf({ ...request, first_byte_ms: 0, queue_ms: 500 })).toEqual({ queue: 400, prefill: 0, decode: 0 });
});

it("describes every end reason and shows unknown ones unchanged", () => {
  for (const reason of ["stop", "client_gone", "refused", "engine_error", "engine_timeout", "drained", "lost"])
    expect(endingOf(reason).means, reason).toMatch(/\.$/);
  expect(endingOf("stop").isFailure).toBe(false);
  expect(endingOf("melted")).toEqual({ label: "melted", isFailure: true, means: "melted" });
});
