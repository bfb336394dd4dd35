// The GPU of a Mac with Apple silicon, which shares the memory of the machine. Written from the tool's documented output; no real
// device was met. Containers on macOS run in a virtual machine without the GPU: only processes use it.
import { at, jsonIn, plainGpu, type RunVendorTool, textOf, type Vendor } from "./vendor.ts";

/** Share of the memory that Metal gives to the GPU by default (recommendedMaxWorkingSetSize). */
const shareOfMemory = 0.75;

export function appleVendor(run: RunVendorTool, host: string, totalBytes: number, platform: string): Vendor {
  return {
    vendor: "apple",
    async read(signal) {
      if (platform !== "darwin") return { kind: "none" };
      const end = await run("/usr/sbin/system_profiler", ["SPDisplaysDataType", "-json"], signal);
      if (end.kind === "missing") return { kind: "none" };
      if (end.kind === "failed") return { kind: "broken", reason: `system_profiler: ${end.reason}` };
      const displays = at(jsonIn(end.output), "SPDisplaysDataType");
      const chips = Array.isArray(displays) ? displays : [];
      const own = chips.filter((one) => /apple/i.test(textOf(at(one, "spdisplays_vendor"))));
      const gpus = own.map((one, index) => ({
        gpu: plainGpu({
          uuid: `APPLE-${host}-${index}`,
          index,
          name: textOf(at(one, "sppci_model")) || "Apple GPU",
          memoryBytes: Math.floor(totalBytes * shareOfMemory),
        }),
        access: { vendor: "apple" as const, cdi: [], devices: [], libraries: [], visible: { variable: "", value: "" } },
      }));
      return gpus.length === 0 ? { kind: "none" } : { kind: "found", gpus, driverVersion: "" };
    },
  };
}
