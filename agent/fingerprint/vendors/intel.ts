// Intel GPUs by xpu-smi. Written from its documented output; no real device was met.
// https://github.com/intel/xpumanager/blob/master/doc/smi_user_guide.md
import { at, jsonIn, numberOf, plainGpu, type RunVendorTool, textOf, type Vendor, type VendorGpu } from "./vendor.ts";

const mib = 1024 * 1024;

/** `host`: its name; identifiers of the tool are those of PCI addresses, the same on every host. */
export function intelVendor(
  run: RunVendorTool,
  renderNodes: () => Promise<ReadonlyMap<string, string>>,
  host: string,
): Vendor {
  return {
    vendor: "intel",
    async read(signal) {
      const list = await run("xpu-smi", ["discovery", "-j"], signal);
      if (list.kind === "missing") return { kind: "none" };
      if (list.kind === "failed") return { kind: "broken", reason: `xpu-smi: ${list.reason}` };
      const devices = at(jsonIn(list.output), "device_list");
      if (!Array.isArray(devices)) return { kind: "broken", reason: "xpu-smi: its output is not the documented JSON" };
      const nodes = await renderNodes();
      const gpus: VendorGpu[] = [];
      for (const device of devices.filter((one) => textOf(at(one, "device_type")) !== "CPU")) {
        const id = String(numberOf(at(device, "device_id")) ?? 0);
        const more = await json(run, ["discovery", "-d", id, "-j"], signal);
        const health = await json(run, ["health", "-d", id, "-j"], signal);
        const stats = await json(run, ["stats", "-d", id, "-j"], signal);
        gpus.push(gpuOf({ ...(device as object), ...((more ?? {}) as object) }, health, stats, nodes, host));
      }
      const driverVersion = textOf(at(devices[0], "driver_version"));
      return gpus.length === 0 ? { kind: "none" } : { kind: "found", gpus, driverVersion };
    },
  };
}

async function json(run: RunVendorTool, args: readonly string[], signal: AbortSignal): Promise<unknown> {
  const end = await run("xpu-smi", args, signal);
  return end.kind === "ok" ? jsonIn(end.output) : undefined;
}

function gpuOf(
  device: object,
  health: unknown,
  stats: unknown,
  nodes: ReadonlyMap<string, string>,
  host: string,
): VendorGpu {
  const index = numberOf(at(device, "device_id")) ?? 0;
  const pciBusId = textOf(at(device, "pci_bdf_address")).toLowerCase();
  const memoryBytes =
    numberOf(at(device, "memory_physical_size_byte")) ?? (numberOf(at(device, "memory_physical_size")) ?? 0) * mib;
  const faults = ["memory", "core_temperature", "power", "xe_link_port"].filter((part) =>
    /^critical$/i.test(textOf(at(health, part, "status"))),
  );
  const node = nodes.get(pciBusId);
  const figure = (type: string): number | undefined => {
    const list = at(stats, "device_level");
    const one = Array.isArray(list) ? list.find((each) => at(each, "metrics_type") === type) : undefined;
    return numberOf(at(one, "value")) ?? numberOf(at(one, "avg"));
  };
  const used = figure("XPUM_STATS_MEMORY_USED");
  const usage = figure("XPUM_STATS_GPU_UTILIZATION");
  return {
    gpu: plainGpu({
      uuid: `XPU-${host}-${pciBusId || index}`,
      index,
      name: textOf(at(device, "device_name")) || "Intel GPU",
      memoryBytes,
      pciBusId,
      ...(faults.length > 0
        ? { healthy: false, unhealthyReason: `xpu-smi reports ${faults.join(", ")} as critical` }
        : {}),
    }),
    access: {
      vendor: "intel",
      // The specification of Intel's resource driver, and that of the generic generator.
      cdi: pciBusId === "" ? [] : [`intel.com/gpu=${pciBusId}`, `intel.com/gpu=${pciBusId.replaceAll(":", "-")}`],
      // The tool names the card's own file, which gives no access to compute: only the render node does.
      devices: node === undefined ? [] : [node],
      libraries: [],
      visible: { variable: "ZE_AFFINITY_MASK", value: String(index) },
    },
    load: {
      utilizationRatio: usage === undefined ? undefined : usage / 100,
      memoryUsedBytes: used === undefined ? undefined : used * mib,
      temperatureCelsius: figure("XPUM_STATS_GPU_CORE_TEMPERATURE"),
      powerWatts: figure("XPUM_STATS_POWER"),
    },
  };
}
