import { describe, expect, it } from "vitest";
import * as errors from "../../../../control-plane/quotas/errors.ts";
import { gpuLimits, maxGpus, requireGpus } from "../../../../control-plane/quotas/gpu-limits.ts";
import { fileGpuLimit, fileGpuRequest, type GpuLimitParams } from "../../../../control-plane/quotas/gpu-request.ts";
import { fileRateRequest } from "../../../../control-plane/quotas/limit-requests.ts";
import { defaultRateLimits } from "../../../../control-plane/quotas/rate-limits.ts";
import type { LimitRecord } from "../../../../control-plane/quotas/store.ts";
import { gpuRequest } from "../../../fakes/limits.ts";

const defaults = { perType: 8 };
const record: LimitRecord = {
  isAdmin: false,
  suspendReason: null,
  rate: { concurrent: null, tokensPerMinute: null, weight: 1 },
  max: { "H100-80GB": 4 },
  min: { "H100-80GB": 2 },
};

describe("GPU limits", () => {
  it("are the account's entry, else the default; the operator's own account has only its entries", () => {
    expect(gpuLimits(record, defaults)).toMatchObject({
      max: { "H100-80GB": 4, "L4-24GB": 8, other: 8 },
      min: { "H100-80GB": 2, other: 0 },
    });
    expect(gpuLimits({ ...record, isAdmin: true }, defaults).max).toMatchObject({ "H100-80GB": 4, other: maxGpus });
  });

  it("let a deployment use every remaining GPU", () => {
    const use = { isAdmin: false, max: {}, used: 6 };
    requireGpus(use, "other", 2, defaults);
    expect(() => requireGpus(use, "other", 3, defaults)).toThrow(
      /needs up to 3 other .* 6 of your limit of 8\. .*gpu_pool/,
    );
  });
});

describe("a request for another GPU pool", () => {
  const request = (change: Partial<GpuLimitParams>): GpuLimitParams => ({
    max: {},
    min: {},
    reason: "launch",
    expectedId: null,
    ...change,
  });
  const refused: readonly (readonly [string, Partial<GpuLimitParams>])[] = [
    ["nothing is asked for", {}],
    ["a type is unknown", { max: { H101: 1 } }],
    ["a name is one of the language's own", { max: { constructor: 1 } }],
    ["a number is negative", { max: { other: -1 } }],
    ["a number is out of all reason", { max: { other: maxGpus + 1 } }],
    ["the minimum is above the maximum asked for", { max: { other: 1 }, min: { other: 2 } }],
    ["the minimum is above the present maximum", { min: { "H100-80GB": 5 } }],
    ["the maximum falls below the present minimum", { max: { "H100-80GB": 1 } }],
    ["it asks for what the account has", { max: { "H100-80GB": 4, other: 8 }, min: { "H100-80GB": 2 } }],
  ];
  it.each(refused)("is refused when %s", (_why, change) => {
    expect(() => fileGpuRequest(request(change), record, undefined, defaults)).toThrow(errors.GpuRequestRefused);
  });

  it("may request less, and replaces everything in the open one", () => {
    const filing = fileGpuRequest(request({ max: { other: 0 }, expectedId: "gpr_01" }), record, gpuRequest, defaults);
    expect(filing).toEqual({ requested: { max: { other: 0 }, min: {} }, reason: "launch" });
  });

  it.each([
    ["null while one is open", null, gpuRequest],
    ["an id while none is open", "gpr_01", undefined],
    ["another id than the open one's", "gpr_02", gpuRequest],
  ])("conflicts with expected_request_id %s", (_case, expectedId, open) => {
    const file = () => fileGpuRequest(request({ max: { other: 9 }, expectedId }), record, open, defaults);
    expect(file).toThrow(expect.objectContaining({ code: "request_conflict" }));
  });

  it("for one type is added to the open one", () => {
    expect(fileGpuLimit("other", 9, "more", record, gpuRequest, defaults)).toEqual({
      requested: { max: { "H100-80GB": 16, other: 9 }, min: { "H100-80GB": 1 } },
      reason: "more",
    });
    expect(fileGpuLimit("other", 9, "more", record, undefined, defaults).requested.max).toEqual({ other: 9 });
  });
});

describe("a request for higher rate limits", () => {
  const request = { concurrent: 400, tokensPerMinute: null, reason: "evals" };
  const file = (change: object, of = record, open?: typeof gpuRequest) =>
    fileRateRequest({ ...request, ...change }, of, open, defaultRateLimits);

  it("must raise one of the two limits and lower neither", () => {
    expect(file({})).toEqual({ requested: { concurrent: 400, tokensPerMinute: null }, reason: "evals" });
    expect(file({ concurrent: 200, tokensPerMinute: 5_000_001 }).requested.tokensPerMinute).toBe(5_000_001);
    for (const change of [
      { concurrent: 200 },
      { concurrent: 100 },
      { tokensPerMinute: 1 },
      { concurrent: 199, tokensPerMinute: 6e6 },
    ])
      expect(() => file(change), JSON.stringify(change)).toThrow(expect.objectContaining({ code: "invalid_request" }));
    const raised = { ...record, rate: { concurrent: 400, tokensPerMinute: null, weight: 1 } };
    expect(() => file({}, raised)).toThrow(/400 concurrent requests and 5000000 tokens/);
  });

  it("is one at a time, and not for a suspended account", () => {
    expect(() => file({}, record, gpuRequest)).toThrow(expect.objectContaining({ code: "request_open" }));
    expect(() => file({}, { ...record, suspendReason: "balance" })).toThrow(
      expect.objectContaining({ code: "account_suspended" }),
    );
  });
});
