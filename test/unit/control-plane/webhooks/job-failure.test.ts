import { describe, expect, it } from "vitest";
import {
  coldStartsFull,
  InstancesUnreachable,
  UnusableAnswer,
  upstreamBroken,
} from "../../../../control-plane/inference/errors.ts";
import { RateLimited } from "../../../../control-plane/quotas/errors.ts";
import { failureOf } from "../../../../control-plane/webhooks/job-failure.ts";

describe("a failed run", () => {
  it.each([coldStartsFull("org/model", 5), new InstancesUnreachable({}), RateLimited.byConcurrency(8)])(
    "because others are served goes on waiting, however often: $code",
    (error) => {
      const failure = failureOf(error, { claims: 1_000, faults: 99 });
      expect(failure).toEqual({ kind: "again", afterMs: 60_000, isFault: false });
    },
  );

  it("waits as long as the response requires", () => {
    const failure = failureOf(coldStartsFull("org/model", 5), { claims: 1, faults: 0 });
    expect(failure).toMatchObject({ afterMs: 5_000 });
  });

  it("is retried a few times if the connection broke", () => {
    const again = (faults: number) => failureOf(upstreamBroken(), { claims: 1, faults }).kind;
    expect([again(0), again(3), again(4)]).toEqual(["again", "again", "over"]);
  });

  it("is not retried if the response was billed and cannot be used", () => {
    const failure = failureOf(new UnusableAnswer(new Error("not JSON")), { claims: 1, faults: 0 });
    expect(failure).toMatchObject({ kind: "over", error: { code: "upstream_error" } });
  });
});
