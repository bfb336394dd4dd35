import { expect, it } from "vitest";
import { gpuLimit } from "../../../../control-plane/quotas/gpu-limits.ts";

it("counts a type outside the contract as other where it has no entry", () => {
  const record = { isAdmin: false, max: { other: 0, "MI300X-192GB": 2 } };
  const limit = (gpu: string) => gpuLimit(record, gpu, { perType: 8 });
  expect(["other", "MI300X-192GB", "MI325X-256GB", "H100-80GB"].map(limit)).toEqual([0, 2, 0, 8]);
});
