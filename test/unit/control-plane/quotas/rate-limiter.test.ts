import { beforeEach, describe, expect, it } from "vitest";
import { writeRateHeaders } from "../../../../control-plane/http/core/rate-headers.ts";
import type { RateLimited } from "../../../../control-plane/quotas/errors.ts";
import { RateMeters } from "../../../../control-plane/quotas/rate-limiter.ts";
import type { AccountId, DeploymentId } from "../../../../proto/ids.ts";

const ada = "u:ada" as AccountId;
const bob = "u:bob" as AccountId;
const model = "model" as DeploymentId;
const other = "other" as DeploymentId;

let nowMs: number;
let rates: RateMeters;
beforeEach(() => {
  nowMs = 1_000_000;
  rates = new RateMeters({ defaults: { concurrent: 2, tokensPerMinute: 100, weight: 1 }, clock: () => nowMs });
});

const refusal = (account = ada, of = model): RateLimited => {
  try {
    rates.meter(account, of).take();
  } catch (error) {
    return error as RateLimited;
  }
  throw new Error("it was admitted");
};
const headers = (account = ada): Record<string, string> => {
  const list: string[] = [];
  writeRateHeaders(list, rates.meter(account, model).standing());
  return Object.fromEntries(list.flatMap((name, i) => (i % 2 === 0 ? [[name, list[i + 1] as string]] : [])));
};

describe("concurrent requests", () => {
  it("are counted per account and model, and freed when a request ends", () => {
    const first = rates.meter(ada, model).take();
    rates.meter(ada, model).take();
    expect(refusal()).toMatchObject({
      params: { limit: "concurrency" },
      retryAfterSeconds: 1,
      code: "rate_limit_exceeded",
    });
    rates.meter(ada, other).take();
    rates.meter(bob, model).take();
    first.end(0);
    rates.meter(ada, model).take();
  });

  it("are freed once, however often a permit is released", () => {
    const permit = rates.meter(ada, model).take();
    rates.meter(ada, model).take();
    permit.end(10);
    permit.end(10);
    expect(rates.meter(ada, model)).toMatchObject({ inFlight: 1, tokens: 10 });
  });
});

describe("tokens per minute", () => {
  it("refuse when the last minute used all of them, with a retry time", () => {
    rates.meter(ada, model).take().end(60);
    nowMs += 20_000;
    rates.meter(ada, model).take().end(40);
    nowMs += 10_000;
    const refused = refusal();
    expect(refused).toMatchObject({ params: { limit: "tpm" }, retryAfterSeconds: 31 });
    expect(refused.message).toMatch(/^Rate limited: .*100 tokens per minute.*31 s/);
    nowMs += 31_000;
    rates.meter(ada, model).take().end(0);
    expect(headers()).toMatchObject({ "x-ratelimit-remaining-tokens": "60", "x-ratelimit-reset-tokens": "20s" });
  });

  it("are measured afterwards: a running request is never interrupted", () => {
    const permit = rates.meter(ada, model).take();
    permit.end(100_000);
    expect(refusal().params.limit).toBe("tpm");
    expect(headers()["x-ratelimit-remaining-tokens"]).toBe("0");
  });
});

describe("the headers", () => {
  it("give the limit, the rest and the time until it is fully restored", () => {
    expect(headers()).toEqual({
      "x-ratelimit-limit-requests": "2",
      "x-ratelimit-limit-tokens": "100",
      "x-ratelimit-remaining-requests": "2",
      "x-ratelimit-remaining-tokens": "100",
      "x-ratelimit-reset-requests": "1s",
      "x-ratelimit-reset-tokens": "0s",
    });
    rates.meter(ada, model).take().end(30);
    rates.meter(ada, model).take();
    expect(headers()).toMatchObject({
      "x-ratelimit-remaining-requests": "1",
      "x-ratelimit-remaining-tokens": "70",
      "x-ratelimit-reset-tokens": "1m0s",
    });
  });
});

describe("account-specific limits", () => {
  it("apply as soon as they are known, also to running requests; missing ones have the default", () => {
    rates.meter(ada, model).take();
    rates.setOwnLimits(new Map([[ada, { concurrent: 1, tokensPerMinute: null, weight: 1 }]]));
    expect(refusal().params.limit).toBe("concurrency");
    expect(headers()["x-ratelimit-limit-tokens"]).toBe("100");
    expect(headers(bob)["x-ratelimit-limit-requests"]).toBe("2");
    rates.setOwnLimits(new Map());
    rates.meter(ada, model).take();
  });
});

describe("other replicas", () => {
  it("count like local requests", () => {
    const meter = rates.meter(ada, model);
    meter.othersInFlight = 1;
    meter.take();
    expect(refusal().params.limit).toBe("concurrency");
    meter.othersInFlight = 0;
    meter.othersTokens = 100;
    expect(refusal()).toMatchObject({ params: { limit: "tpm" }, retryAfterSeconds: 10 });
  });
});

it("idle accounts take no memory; accounts with requests or recent tokens are retained", () => {
  const permit = rates.meter(ada, model).take();
  rates.meter(bob, model).take().end(5);
  rates.forgetIdle();
  expect([...rates.meters()]).toHaveLength(2);
  permit.end(0);
  nowMs += 61_000;
  rates.forgetIdle();
  expect([...rates.meters()]).toHaveLength(0);
});
