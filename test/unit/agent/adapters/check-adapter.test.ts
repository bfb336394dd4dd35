import { expect, it } from "vitest";
import { whyAdapterRefused } from "../../../../agent/adapters/check-adapter.ts";

const config = { peft_type: "LORA", r: 8, base_model_name_or_path: "org/Tiny-1B-Instruct" };
const why = (change: object, base = "org/Tiny-1B-Instruct", maxRank = 64) =>
  whyAdapterRefused(JSON.stringify({ ...config, ...change }), base, maxRank);

it("takes an adapter of the same model, also where that was quantised, converted or republished", () => {
  for (const base of ["org/Tiny-1B-Instruct", "other/tiny-1b-instruct-GGUF", "other/Meta-Tiny-1B-Instruct-AWQ", ""])
    expect(why({}, base)).toBeUndefined();
});

it("accepts a local path as the base, which the engine then checks", () => {
  expect(why({ base_model_name_or_path: "/home/ada/base" })).toBeUndefined();
  expect(why({ base_model_name_or_path: null })).toBeUndefined();
});

it.each([
  [{ base_model_name_or_path: "org/Other-7B" }, /it was made for org\/Other-7B/],
  [{ r: 65 }, /rank 65/],
  [{ rank_pattern: { "layers.0": 128 } }, /rank 128/],
  [{ r: 0 }, /rank 0/],
  [{ r: "8" }, /rank "8"/],
  [{ peft_type: "IA3" }, /"IA3" and not LORA/],
  [{ use_dora: true }, /DoRA/],
])("refuses %o", (change, reason) => {
  expect(why(change)).toMatch(reason);
});

it("refuses what is no JSON object", () => {
  for (const text of ["", "[]", "null", "{"]) expect(whyAdapterRefused(text, "org/x", 64)).toMatch(/not a JSON object/);
});
