import { InvalidArgumentError } from "commander";
import { expect, test } from "vitest";
import { statusText } from "../../../cli/commands/deploy.ts";
import {
  atLeast,
  between,
  countOrDefault,
  counts,
  countsOrDefault,
  inputs,
  price,
  seconds,
} from "../../../cli/option-values.ts";

test("inputs read as JSON where they can, and text fields stay text", () => {
  const first = inputs("max_tokens=20");
  expect(inputs("prompt=42", first)).toEqual({ max_tokens: 20, prompt: "42" });
  expect(inputs('stop=["a","b"]')).toEqual({ stop: ["a", "b"] });
  expect(inputs("note=a=b")).toEqual({ note: "a=b" });
});

test("reports an input without a name or with an unreadable file as wrong usage", () => {
  expect(() => inputs("=x")).toThrow(InvalidArgumentError);
  expect(() => inputs("prompt=@/nowhere/at/all")).toThrow(InvalidArgumentError);
});

test("names the limits of a price", () => {
  expect(["0", "0.000000001", "1000000"].map(price(1e6))).toEqual([0, 1e-9, 1e6]);
  for (const text of ["1e-30", "1e12", "1000000.1", "0.0000000001", "-1", "x"])
    expect(() => price(1e6)(text)).toThrow("Must be 0, or from USD 0.000000001 to 1,000,000.");
});

test("times are taken in seconds, minutes, hours and days", () => {
  expect([seconds("90"), seconds("90s"), seconds("30m"), seconds("2h"), seconds("7d")]).toEqual([
    90, 90, 1800, 7200, 604_800,
  ]);
  expect(() => seconds("soon")).toThrow(InvalidArgumentError);
});

test("reports numbers below the minimum or above the maximum as wrong usage", () => {
  expect(atLeast(1)("3")).toBe(3);
  expect(() => atLeast(1)("0")).toThrow(InvalidArgumentError);
  expect(() => atLeast(0)("1.5")).toThrow(InvalidArgumentError);
  expect([between(1, 200)("1"), between(1, 200)("200")]).toEqual([1, 200]);
  for (const text of ["0", "201", "1.5", "many"]) expect(() => between(1, 200)(text)).toThrow(InvalidArgumentError);
});

test("shows how many instances of a deployment run", () => {
  const one = { deploy_id: "D", model_name: "m", status: "deployed", fail_reason: "", created_at: "" };
  expect(statusText({ ...one, instances: { running: 1, pending: 1, warming: 0 } })).toBe("deployed 1/2");
  const progress = { phase: "asleep", done_bytes: 0, total_bytes: 0, trouble: "" } as const;
  expect(statusText({ ...one, progress, instances: { running: 1, pending: 0, warming: 0 } })).toBe(
    "deployed 1/1, asleep",
  );
  expect(statusText({ ...one, status: "failed", instances: { running: 0, pending: 0, warming: 0 } })).toBe("failed");
});

test("merges numbers by GPU type over repeated flags, and accepts `default` only from operators", () => {
  expect(counts("L4-24GB=0", counts("H100-80GB=16"))).toEqual({ "H100-80GB": 16, "L4-24GB": 0 });
  expect(countsOrDefault("other=default", countsOrDefault("L4-24GB=2"))).toEqual({ other: null, "L4-24GB": 2 });
  expect([countOrDefault("default"), countOrDefault("7")]).toEqual(["default", 7]);
  for (const wrong of ["H100-80GB", "=3", "other=-1", "other=default"])
    expect(() => counts(wrong)).toThrow(InvalidArgumentError);
});
