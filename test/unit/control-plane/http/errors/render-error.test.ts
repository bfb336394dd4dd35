import { describe, expect, it } from "vitest";
import { InvalidApiKey } from "../../../../../control-plane/accounts/errors.ts";
import { refusalOf, renderError } from "../../../../../control-plane/http/errors/render-error.ts";
import { ModelNotFound, ModelNotReady, upstreamBroken } from "../../../../../control-plane/inference/errors.ts";
import {
  DatabaseUnavailable,
  type ErrorFacts,
  type ErrorKind,
  ServiceError,
} from "../../../../../control-plane/service-error.ts";

const body = (error: unknown, dialect: "service" | "compat") =>
  JSON.parse(renderError(refusalOf(error), dialect, "r1").body);

describe("the dialects", () => {
  it("say one refusal in their own shapes", () => {
    const error = new ModelNotFound("a/b");
    expect(body(error, "service")).toEqual({
      error: error.message,
      detail: { error: error.message },
      code: "model_not_found",
      request_id: "r1",
    });
    expect(body(error, "compat")).toEqual({
      error: {
        message: error.message,
        type: "invalid_request_error",
        param: "model",
        code: "model_not_found",
        request_id: "r1",
      },
    });
  });

  it("give compatible clients the type that they map by", () => {
    expect(body(new InvalidApiKey(), "compat").error.type).toBe("authentication_error");
    expect(body(upstreamBroken(), "compat").error.type).toBe("server_error");
  });
});

it("an unknown error tells nothing but the request id, and its cause is kept for the log", () => {
  const bug = new Error("password=hunter2");
  const refusal = refusalOf(bug);
  expect(refusal.cause).toBe(bug);
  expect(renderError(refusal, "service", "r1").body).not.toContain("hunter2");
  expect(refusalOf(undefined).status).toBe(500);
});

it("a phase and the time to come back are headers", () => {
  const { headers } = renderError(refusalOf(new ModelNotReady("a/b", "downloading", 4.2)), "compat", "r1");
  expect(headers.join(" ")).toContain("retry-after 5");
  expect(headers.join(" ")).toContain("x-stoker-phase downloading");
});

describe("a kind of error", () => {
  it.each([
    ["bad_request", 400],
    ["unauthenticated", 401],
    ["payment_required", 402],
    ["forbidden", 403],
    ["not_found", 404],
    ["unsupported", 405],
    ["request_timeout", 408],
    ["conflict", 409],
    ["gone", 410],
    ["too_large", 413],
    ["invalid", 422],
    ["suspended", 423],
    ["rate_limited", 429],
    ["internal", 500],
    ["upstream_failed", 502],
    ["unavailable", 503],
    ["upstream_timeout", 504],
  ] as const)("%s has status %i", (kind, status) => {
    expect(refusalOf(new ServiceError(kind, "internal_error", "Some message.")).status).toBe(status);
  });

  it("advises a retry after a second where the error names no time", () => {
    const headers = (kind: ErrorKind, retryAfterSeconds?: number) =>
      renderError(
        refusalOf(
          new ServiceError(kind, "internal_error", "m", retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
        ),
        "service",
        "r1",
      ).headers.join(" ");
    expect(headers("unavailable")).toContain("retry-after 1");
    expect(headers("rate_limited")).toContain('retry-after 1 ratelimit "api";r=0;t=1');
    expect(headers("rate_limited", 7)).toContain("retry-after 7");
    expect(headers("not_found")).not.toContain("retry-after");
  });

  it("tells SDKs not to retry a conflict or missing funds", () => {
    const headers = (kind: ErrorKind) =>
      renderError(refusalOf(new ServiceError(kind, "internal_error", "m")), "compat", "r1").headers.join(" ");
    expect(headers("conflict")).toContain("x-should-retry false");
    expect(headers("payment_required")).toContain("x-should-retry false");
    expect(headers("rate_limited")).not.toContain("x-should-retry");
  });
});

describe("an invalid field", () => {
  const detail = (facts: ErrorFacts) =>
    refusalOf(new ServiceError("invalid", "validation_error", "Some message.", facts)).detail;

  it("is located in the part of the request that contains it", () => {
    expect(detail({ param: "a.b" })).toEqual([{ loc: ["body", "a", "b"], msg: "Some message.", type: "value_error" }]);
    expect(detail({ param: "from", in: "query" })?.[0]?.loc).toEqual(["query", "from"]);
  });

  it("is reported as missing with the words of a schema", () => {
    expect(detail({ param: "a", isMissing: true })).toEqual([
      { loc: ["body", "a"], msg: "Field required", type: "missing" },
    ]);
  });
});

describe("an outage of the database", () => {
  it("is one error, whose reason is for the log unless the disk is full", () => {
    const { status, code, retryAfterSeconds, message, cause } = refusalOf(new DatabaseUnavailable("no_answer"));
    expect({ status, code, retryAfterSeconds }).toEqual({ status: 503, code: "store_away", retryAfterSeconds: 2 });
    expect(message).not.toContain("answer");
    expect(cause).toMatchObject({
      params: { reason: "no_answer" },
      cause: { message: "the database does not respond" },
    });
    expect(refusalOf(new DatabaseUnavailable("disk_full")).message).toContain("disk is full");
  });
});
