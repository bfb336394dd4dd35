import { describe, expect, it } from "vitest";
import { resourcesOf } from "../../../../control-plane/deployments/resources.ts";
import { isProcessorSlot } from "../../../../proto/gpu-vendors.ts";
import { gib, gpu, inventory } from "../../../fakes/fleet-records.ts";

describe("resources of an instance", () => {
  it.each(["AMD-1", "XPU-box-0000:29:00.0", "NPU-box-1", "APPLE-mac-0", "GPU-1", "MIG-1"])(
    "with the GPU %s of a host without NVIDIA's driver are a share of the host, not the memory of the GPU",
    (uuid) => {
      const one = gpu(0, { uuid, memoryBytes: 192 * gib });
      const host = inventory({ gpus: [one], memoryBytes: 64 * gib, nvidiaDriverVersion: "" });
      expect(isProcessorSlot(one)).toBe(false);
      expect(resourcesOf([uuid], host).memoryBytes).toBe(Math.floor(64 * gib * 0.9));
    },
  );

  it("with a share of the host's memory are that share, also beside NVIDIA GPUs", () => {
    const one = gpu(0, { uuid: "cpu-box-0", memoryBytes: gib });
    expect(isProcessorSlot(one)).toBe(true);
    expect(resourcesOf([one.uuid], inventory({ gpus: [one], nvidiaDriverVersion: "580" })).memoryBytes).toBe(gib);
  });
});
