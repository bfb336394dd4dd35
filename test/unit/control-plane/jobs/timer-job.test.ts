import { describe, expect, it } from "vitest";
import type { Timer } from "../../../../control-plane/deployments/timers.ts";
import { timerJob } from "../../../../control-plane/jobs/deployment-timers.ts";
import type { DeploymentId } from "../../../../proto/ids.ts";

const nowMs = 1_786_000_000_000;
const timer = (over: Partial<Timer>): Timer => ({ id: "d1" as DeploymentId, kind: "due", atMs: nowMs, ...over });
const idOf = (over: Partial<Timer>) => timerJob(timer(over), nowMs).opts.jobId;

describe("the job of a timer", () => {
  it("is never early, and late by a quarter of a second at most", () => {
    for (let ms = 0; ms < 600; ms++) {
      const late = timerJob(timer({ atMs: nowMs + ms }), nowMs).opts.delay - ms;
      expect(late).toBeGreaterThan(0);
      expect(late).toBeLessThanOrEqual(270);
    }
    expect(timerJob(timer({ atMs: nowMs - 5_000 }), nowMs).opts.delay).toBe(0);
  });

  it("is one job for looks whose clocks differ a little, and another for another time or deployment", () => {
    expect(idOf({ atMs: nowMs + 101 })).toBe(idOf({ atMs: nowMs + 104 }));
    expect(idOf({ atMs: nowMs + 101 })).not.toBe(idOf({ atMs: nowMs + 1_101 }));
    expect(idOf({})).not.toBe(idOf({ id: "d2" as DeploymentId }));
  });

  it("is one series of retries for a deployment in a minute, beside what comes due", () => {
    const retry = (atMs: number) => idOf({ kind: "retry", atMs });
    const minute = Math.ceil(nowMs / 60_000) * 60_000;
    expect(retry(minute)).toBe(retry(minute + 59_999));
    expect(retry(minute)).not.toBe(retry(minute + 60_000));
    expect(retry(minute)).not.toBe(idOf({ atMs: minute }));
  });

  it("has an id that BullMQ takes: with no colon, and no bare number", () => {
    for (const id of [idOf({}), idOf({ kind: "retry" })]) expect(id).toMatch(/^[^:]*[^:\d][^:]*$/);
  });

  it("carries the deployment's id and nothing else", () => {
    expect(timerJob(timer({}), nowMs).data).toEqual({ id: "d1" });
  });
});
