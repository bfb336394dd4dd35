import { describe, expect, it } from "vitest";
import { changedLimits } from "../../../console/domain/limit-change.ts";

const now = {
  rate_limit: 10,
  tpm_rate_limit: 1000,
  weight: 1,
  gpu_max: { "H100-80GB": 4, "L4-24GB": 2 },
  gpu_min: { "H100-80GB": 1 },
};
const unchanged = {
  requests: "10",
  tokens: "1000",
  "max H100-80GB": "4",
  "min H100-80GB": "1",
  "max L4-24GB": "2",
  "min L4-24GB": "0",
};
const change = (fields: Record<string, string>) =>
  changedLimits({ ...unchanged, ...fields }, now, ["H100-80GB", "L4-24GB"]);

describe("changedLimits", () => {
  it("is empty when nothing differs", () => {
    expect(change({})).toEqual({});
  });

  it("contains only what differs, by GPU type", () => {
    expect(change({ weight: "2" })).toEqual({ weight: 2 });
    expect(change({ requests: "20", "max L4-24GB": "3", "min L4-24GB": "1" })).toEqual({
      rate_limit: 20,
      gpu_max: { "L4-24GB": 3 },
      gpu_min: { "L4-24GB": 1 },
    });
  });

  it("returns an emptied field to the default of the installation", () => {
    expect(change({ tokens: "", "max H100-80GB": "" })).toEqual({
      tpm_rate_limit: null,
      gpu_max: { "H100-80GB": null },
    });
  });
});
