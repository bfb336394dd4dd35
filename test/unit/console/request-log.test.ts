import { describe, expect, it } from "vitest";
import { adviceOf, outcomeQuery, outputRate, slowPhase } from "../../../console/domain/request-log.ts";
import { firstTokenMs, inputText, type LoggedRequest, outputText } from "../../../console/domain/request-phases.ts";

const request: LoggedRequest = {
  request_id: "r",
  attempt: 1,
  counts: true,
  model: "org/a",
  token_id: "k",
  service_tier: "default",
  user: null,
  end_reason: "stop",
  created_at: 0,
  ended_at: 0,
  queue_ms: 100,
  first_byte_ms: 500,
  total_ms: 2500,
  http_status: 200,
  input_tokens: 1,
  cached_input_tokens: 0,
  output_tokens: 101,
  reasoning_tokens: 0,
  characters: 0,
  audio_ms: 0,
  images: 0,
  cost: 1,
};

describe("an ended request", () => {
  it("says what to change by its HTTP status", () => {
    expect(adviceOf({ ...request, end_reason: "refused", http_status: 429 })).toContain("Retry-After");
    expect(adviceOf({ ...request, end_reason: "refused", http_status: 418 })).toContain("rejected the request");
    // It began with 200 and failed later.
    expect(adviceOf({ ...request, end_reason: "engine_error" })).toContain("The model server failed");
    expect(adviceOf(request)).toBe("The response was sent completely.");
  });

  it("tells prefill and decode apart only where the answer was streamed", () => {
    const whole = { ...request, first_byte_ms: 2498 };
    expect(slowPhase(whole)).toBeUndefined();
    expect(slowPhase({ ...whole, queue_ms: 2000 })).toBe("queue");
    expect(outputRate(whole)).toBeUndefined();
  });

  it("names the phase that took most of a long request", () => {
    expect(slowPhase(request)).toBe("decode");
    expect(slowPhase({ ...request, queue_ms: 2000, first_byte_ms: 2100 })).toBe("queue");
    expect(slowPhase({ ...request, total_ms: 900, first_byte_ms: 100, queue_ms: 0 })).toBeUndefined();
  });

  it("has a rate of output after its first token", () => {
    expect(outputRate(request)).toBe(50);
    expect(outputRate({ ...request, output_tokens: 1 })).toBeUndefined();
  });
});

describe("figures of the request log", () => {
  it("have a first token only for a streamed answer", () => {
    expect(firstTokenMs(request)).toBe(500);
    expect(firstTokenMs({ ...request, first_byte_ms: 2498 })).toBeNull();
    expect(firstTokenMs({ ...request, output_tokens: 0 })).toBeNull();
  });

  it("name what a task counts where it has no tokens", () => {
    const none = { ...request, input_tokens: 0, output_tokens: 0 };
    expect(inputText({ ...none, characters: 1200 })).toBe("1,200 characters");
    expect(inputText({ ...none, audio_ms: 12_340 })).toBe("12.3 s of audio");
    expect(outputText({ ...none, images: 2 })).toBe("2 images");
    expect([inputText(request), outputText(request)]).toEqual(["1", "101"]);
  });
});

it("filters by failure, status or end reason", () => {
  expect(["", "failed", "4xx", "429", "client_gone"].map(outcomeQuery)).toEqual([
    {},
    { failed: "true" },
    { status: "4xx" },
    { status: "429" },
    { end_reason: "client_gone" },
  ]);
});
