import { beforeEach, describe, expect, it } from "vitest";
import { writeRateHeaders } from "../../../../control-plane/http/core/rate-headers.ts";
import type { RateLimited } from "../../../../control-plane/quotas/errors.ts";
import type { KeyRates } from "../../../../control-plane/quotas/key-meter.ts";
import { RateMeters } from "../../../../control-plane/quotas/rate-limiter.ts";
import { type RateLink, SharedRates } from "../../../../control-plane/quotas/shared-rates.ts";
import type { AccountId, DeploymentId, KeyId } from "../../../../proto/ids.ts";

const ada = "u:ada" as AccountId;
const [one, other] = ["key-one" as KeyId, "key-other" as KeyId];
const [chat, speech] = ["chat" as DeploymentId, "speech" as DeploymentId];
const limits: KeyRates = { requestsPerMinute: 3, tokensPerMinute: 100 };

let nowMs: number;
beforeEach(() => {
  nowMs = 1_000_000;
});
const open = () =>
  new RateMeters({ defaults: { concurrent: 50, tokensPerMinute: 1_000, weight: 1 }, clock: () => nowMs });
const take = (rates: RateMeters, key: KeyId, change: Partial<KeyRates> = {}, model = chat, isCounted = false) =>
  rates.keyMeter(key, { ...limits, ...change }).takeWith(rates.meter(ada, model), isCounted);
const refusal = (attempt: () => unknown): RateLimited => {
  try {
    attempt();
  } catch (error) {
    return error as RateLimited;
  }
  throw new Error("it was admitted");
};

describe("requests per minute of a key", () => {
  it("count over all models, apart from other keys, and return after a minute", () => {
    const rates = open();
    for (const model of [chat, speech, chat]) take(rates, one, {}, model).end(0);
    expect(refusal(() => take(rates, one))).toMatchObject({
      code: "rate_limit_exceeded",
      params: { limit: "key_rpm" },
      retryAfterSeconds: 60,
      message: expect.stringContaining("this API key can send at most 3 requests per minute"),
    });
    take(rates, other);
    nowMs += 61_000;
    take(rates, one);
  });

  it("admit exactly the limit out of 50 that arrive at once, and count a refused one nowhere", () => {
    const rates = open();
    const change = { requestsPerMinute: 20 };
    const admitted = Array.from({ length: 50 }, () => {
      try {
        return [take(rates, one, change)];
      } catch {
        return [];
      }
    }).flat();
    expect(admitted).toHaveLength(20);
    expect(rates.meter(ada, chat).inFlight).toBe(20);
    for (const permit of admitted) permit.end(1);
    expect(rates.meter(ada, chat)).toMatchObject({ inFlight: 0, tokens: 20 });
  });

  it("count a request that waits for an instance once", () => {
    const rates = open();
    take(rates, one).end(0);
    for (let again = 0; again < 10; again++) take(rates, one, {}, chat, true).end(0);
    expect(rates.keyMeter(one, limits).requests).toBe(1);
  });

  it("do not count a request that the account's limit refuses", () => {
    const rates = new RateMeters({ defaults: { concurrent: 1, tokensPerMinute: 100, weight: 1 }, clock: () => nowMs });
    take(rates, one);
    expect(refusal(() => take(rates, one)).params.limit).toBe("concurrency");
    expect(rates.keyMeter(one, limits).requests).toBe(1);
  });
});

describe("tokens per minute of a key", () => {
  const tokensOnly = { requestsPerMinute: null };

  it("refuse from the limit on, with the time until enough are back", () => {
    const rates = open();
    take(rates, one, tokensOnly, chat).end(60);
    nowMs += 20_000;
    take(rates, one, tokensOnly, speech).end(40);
    expect(refusal(() => take(rates, one, tokensOnly))).toMatchObject({
      params: { limit: "key_tpm" },
      retryAfterSeconds: 41,
      message: expect.stringContaining("this API key can use at most 100 tokens per minute"),
    });
    nowMs += 41_000;
    take(rates, one, tokensOnly);
  });

  it("are the exact sum of 50 parallel requests, each ended once", () => {
    const rates = open();
    const permits = Array.from({ length: 50 }, () => take(rates, one, tokensOnly));
    permits.forEach((permit, tokens) => {
      permit.end(tokens);
      permit.end(tokens);
    });
    expect(rates.keyMeter(one, limits).tokens).toBe((49 * 50) / 2);
  });
});

it("shows the limit with less left, of the account or of the key", () => {
  const rates = open();
  const headers = () => {
    const list: string[] = [];
    const standing = rates.keyMeter(one, limits).standingWith(rates.meter(ada, chat)).standing();
    writeRateHeaders(list, standing);
    return Object.fromEntries(list.flatMap((name, i) => (i % 2 === 0 ? [[name.slice(12), list[i + 1]]] : [])));
  };
  const permits = [take(rates, one), take(rates, one)];
  expect(headers()).toMatchObject({
    "limit-requests": "3",
    "remaining-requests": "1",
    "reset-requests": "1m0s",
    "limit-tokens": "100",
    "remaining-tokens": "100",
  });
  for (const permit of permits) permit.end(30);
  expect(headers()).toMatchObject({ "limit-tokens": "100", "remaining-tokens": "40" });
  rates.setOwnLimits(new Map([[ada, { concurrent: 1, tokensPerMinute: 70, weight: 1 }]]));
  expect(headers()).toMatchObject({ "limit-requests": "1", "limit-tokens": "70", "remaining-tokens": "10" });
});

it("shares a key's use between control planes", () => {
  const handlers = new Map<string, (message: string, from: string) => void>();
  const replicas = ["a", "b"].map((id) => {
    const meters = open();
    const link: RateLink = {
      publish: (message) => {
        for (const [to, handler] of handlers) if (to !== id) handler(message, id);
      },
      on: (handler) => void handlers.set(id, handler),
    };
    return { meters, shared: new SharedRates({ meters, link, clock: () => nowMs }) };
  });
  const [a, b] = replicas as [(typeof replicas)[0], (typeof replicas)[0]];
  const exchange = () => {
    for (const { shared } of [...replicas, ...replicas]) shared.tick();
  };
  take(a.meters, one).end(0);
  take(a.meters, one).end(0);
  exchange();
  take(b.meters, one).end(0);
  exchange();
  for (const { meters } of replicas) expect(refusal(() => take(meters, one)).params.limit).toBe("key_rpm");
  nowMs += 62_000;
  exchange();
  take(a.meters, one).end(100);
  exchange();
  expect(refusal(() => take(b.meters, one)).params.limit).toBe("key_tpm");
});

it("forgets an idle key, and keeps one with running requests", () => {
  const rates = open();
  const permit = take(rates, one);
  nowMs += 120_000;
  rates.forgetIdle();
  permit.end(70);
  expect(rates.keyMeter(one, limits).tokens).toBe(70);
  nowMs += 120_000;
  const before = rates.keyMeter(one, limits);
  rates.forgetIdle();
  expect(rates.keyMeter(one, limits)).not.toBe(before);
});
