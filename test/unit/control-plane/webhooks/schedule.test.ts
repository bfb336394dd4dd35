import { describe, expect, it } from "vitest";
import { HostCalls, maxPerHost } from "../../../../control-plane/webhooks/host-calls.ts";
import { makeWebhookId } from "../../../../control-plane/webhooks/run-jobs.ts";
import {
  attemptDelaysMs,
  nextDelayMs,
  outcomeOf,
  readRetryAfter,
} from "../../../../control-plane/webhooks/schedule.ts";

const middle = 0.5;

describe("the schedule of a call", () => {
  it("is eight attempts over about 18 hours", () => {
    expect(attemptDelaysMs).toHaveLength(8);
    const hours = attemptDelaysMs.reduce((sum, one) => sum + one, 0) / 3_600_000;
    expect(Math.round(hours)).toBe(18);
    expect([1, 2, 7].map((tries) => nextDelayMs(tries, {}, middle))).toEqual([5_000, 30_000, 36_000_000]);
    expect(nextDelayMs(8, {}, middle)).toBeUndefined();
  });

  it("varies by a fifth either way", () => {
    expect(nextDelayMs(1, {}, 0)).toBe(4_000);
    expect(nextDelayMs(1, {}, 0.999999)).toBeCloseTo(6_000, 0);
  });

  it("waits as long as a busy receiver asks, at most an hour, and never less than its own pause", () => {
    const pause = (status: number, retryAfterMs: number) => nextDelayMs(1, { status, retryAfterMs }, middle);
    expect([429, 502, 503, 504].map((status) => pause(status, 60_000))).toEqual([60_000, 60_000, 60_000, 60_000]);
    expect([pause(503, 1_000), pause(503, 9e9), pause(500, 60_000)]).toEqual([5_000, 3_600_000, 5_000]);
  });

  it("reads seconds and dates only", () => {
    const nowMs = Date.parse("2026-01-02T03:04:05Z");
    expect(readRetryAfter("120", nowMs)).toBe(120_000);
    expect(readRetryAfter("Fri, 02 Jan 2026 03:05:05 GMT", nowMs)).toBe(60_000);
    expect(readRetryAfter("Fri, 02 Jan 2026 03:00:00 GMT", nowMs)).toBe(0);
    expect([readRetryAfter("soon", nowMs), readRetryAfter(undefined, nowMs)]).toEqual([undefined, undefined]);
  });

  it("accepts only 2xx as success", () => {
    expect([200, 204, 301, 304, 410, 429, 500, 599].map(outcomeOf)).toEqual([
      ...["ok", "ok", "3xx", "3xx", "4xx", "4xx", "5xx", "5xx"],
    ]);
  });
});

describe("a receiver's host", () => {
  it("gets eight concurrent calls", () => {
    const calls = new HostCalls(() => 0);
    for (let i = 0; i < maxPerHost; i++) calls.started(`account-${i % 2}`, "a");
    calls.started("account-0", "b");
    expect([...calls.capacity()]).toEqual([
      ["a", 0],
      ["b", 7],
    ]);
    calls.ended("account-0", "a", true);
    expect([calls.capacity().get("a"), calls.silent()]).toEqual([1, []]);
  });

  it("that timed out five times for an account pauses for it, then gets one call, and all of them after a response", () => {
    let nowMs = 0;
    const calls = new HostCalls(() => nowMs);
    const call = (isAlive: boolean | undefined, account = "ada") => {
      calls.started(account, "a");
      calls.ended(account, "a", isAlive);
    };
    const rests = { account: "ada", host: "a", capacity: 0 };
    for (let i = 0; i < 4; i++) call(false);
    expect(calls.silent()).toEqual([]);
    call(false);
    call(true, "bob");
    expect(calls.silent()).toEqual([rests]);
    nowMs = 5_000;
    expect(calls.silent()).toEqual([{ ...rests, capacity: 1 }]);
    calls.started("ada", "a");
    expect(calls.silent()).toEqual([rests]);
    calls.ended("ada", "a", false);
    nowMs += 9_000;
    expect(calls.silent()).toEqual([rests]);
    nowMs += 1_000;
    call(undefined);
    expect(calls.silent()).toEqual([{ ...rests, capacity: 1 }]);
    call(true);
    expect([calls.silent(), calls.capacity().size]).toEqual([[], 0]);
  });

  it("with an unknown outcome does not count as silent", () => {
    const calls = new HostCalls(() => 0);
    for (let i = 0; i < 9; i++) {
      calls.started("ada", "a");
      calls.ended("ada", "a", undefined);
    }
    expect(calls.silent()).toEqual([]);
  });
});

it("ids of calls hold no dot and sort by time", () => {
  const ids = [1_000, 1_786_000_000_000, 1_786_000_000_001].map(makeWebhookId);
  expect(ids).toEqual(ids.toSorted());
  for (const id of ids) expect(id).toMatch(/^msg_[0-9A-HJKMNP-TV-Z]{26}$/);
  expect(makeWebhookId(1_786_000_000_000)).not.toBe(ids[1]);
});
