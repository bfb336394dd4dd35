import { describe, expect, it } from "vitest";
import {
  commandOf,
  formOf,
  type Key,
  newKey,
  previewOf,
  rulesOf,
  scopeOf,
  spentRatio,
  withLimits,
} from "../../../console/domain/key-rules.ts";

const nowMs = Date.UTC(2026, 0, 1);
const nowSeconds = nowMs / 1000;
const key: Key = {
  token: "stk_…abc",
  created_at: nowSeconds,
  name: "ci",
  token_id: "k1",
  allowed_ips: ["192.0.2.0/24"],
  allowed_models: ["org/a"],
  expires_at: nowSeconds + 60,
  requests_per_minute: 60,
  tokens_per_minute: null,
  role: "inference",
  trusts_user_headers: false,
  monthly_limit: 5,
  member_id: null,
  project_id: null,
  fragment: "abc",
  last_used_at: null,
};

describe("a key's rules", () => {
  it("become a body without limits where the form has none", () => {
    expect(rulesOf(newKey, nowMs)).toEqual({
      role: "inference",
      allowed_models: null,
      allowed_ips: null,
      requests_per_minute: null,
      tokens_per_minute: null,
      trusts_user_headers: false,
      monthly_limit: null,
      expires_at: null,
    });
  });

  it("are unchanged by a form that nobody touched", () => {
    const [row] = withLimits([key], [{ token_id: "k1", name: "ci", limit: 5, spend: 1 }]);
    const form = formOf(row as NonNullable<typeof row>);
    expect(form.budget).toBe(5);
    const { expires_at: _kept, ...same } = {
      role: key.role,
      allowed_models: key.allowed_models,
      allowed_ips: key.allowed_ips,
      requests_per_minute: 60,
      tokens_per_minute: null,
      trusts_user_headers: false,
      monthly_limit: 5,
      expires_at: undefined,
    };
    expect(rulesOf(form, nowMs)).toEqual(same);
  });

  it("expire days after now", () => {
    expect(rulesOf({ ...newKey, lifetime: "7" }, nowMs)).toMatchObject({ expires_at: nowSeconds + 7 * 86_400 });
  });

  it("are said in sentences", () => {
    const form = {
      ...newKey,
      models: ["org/a"],
      budget: 5,
      lifetime: "1",
      addresses: "192.0.2.1, ::1",
      requests: 60,
    } as const;
    expect(previewOf(form, nowMs)).toEqual([
      "Calls models and lists them. Changes nothing else.",
      "Only these models: org/a.",
      "At most $5.00 a month. Then its requests are refused until the next month (UTC).",
      "Only from 192.0.2.1, ::1.",
      "At most 60 requests per minute.",
      "Until 2026-01-02 00:00:00 UTC.",
    ]);
    expect(previewOf({ ...newKey, role: "read", budget: 0 }, nowMs)).toContain(
      "Blocked: a budget of 0 refuses every request.",
    );
  });

  it("are listed in one line", () => {
    expect(scopeOf(key)).toBe("Inference · models: org/a · from 192.0.2.0/24 · 60 requests/min");
  });

  it("are options of the command", () => {
    expect(commandOf({ ...newKey, name: "a b", models: ["org/a"], lifetime: "30", tokens: 100 })).toBe(
      "stoker token create 'a b' --role inference --model org/a --expires 30d --tpm 100",
    );
    expect(commandOf({ ...newKey, role: "admin" })).toBe("stoker token create 'NAME'");
  });

  it("count as spent up to their limit", () => {
    expect(spentRatio({ limit: null, spend: 3 })).toBeUndefined();
    expect(spentRatio({ limit: 0, spend: 0 })).toBe(1);
    expect(spentRatio({ limit: 4, spend: 1 })).toBe(0.25);
    expect(spentRatio({ limit: 4, spend: 5 })).toBe(1);
  });
});
