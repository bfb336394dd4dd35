// AMD GPUs by amd-smi, and by rocm-smi where only that is installed. Written from the tools' documented output; no real device was
// met. https://rocm.docs.amd.com/projects/amdsmi/en/latest/how-to/amdsmi-cli-tool.html
import { at, jsonIn, numberOf, plainGpu, type RunVendorTool, textOf, type Vendor, type VendorGpu } from "./vendor.ts";

const mib = 1024 * 1024;

/** `renderNodes`: device files by PCI address, as the kernel lists them. */
export function amdVendor(run: RunVendorTool, renderNodes: () => Promise<ReadonlyMap<string, string>>): Vendor {
  return {
    vendor: "amd",
    async read(signal) {
      const list = await run("amd-smi", ["static", "--json"], signal);
      if (list.kind === "missing") return readRocm(run, renderNodes, signal);
      if (list.kind === "failed") return { kind: "broken", reason: `amd-smi: ${list.reason}` };
      const found = rowsOf(jsonIn(list.output));
      if (!found) return { kind: "broken", reason: "amd-smi: its output is not the documented JSON" };
      const metric = await run("amd-smi", ["metric", "--json"], signal);
      const figures = metric.kind === "ok" ? (rowsOf(jsonIn(metric.output)) ?? []) : [];
      const nodes = await renderNodes();
      const gpus = found.map((row) =>
        gpuOf(
          row,
          figures.find((one) => numberOf(at(one, "gpu")) === numberOf(at(row, "gpu"))),
          nodes,
        ),
      );
      const driverVersion = textOf(at(found[0], "driver", "version"));
      return gpus.length === 0 ? { kind: "none" } : { kind: "found", gpus, driverVersion };
    },
  };
}

/** A list, or an object with it under `gpu_data` from ROCm 6.4 on. */
function rowsOf(value: unknown): readonly unknown[] | undefined {
  const list = Array.isArray(value) ? value : at(value, "gpu_data");
  return Array.isArray(list) ? list : undefined;
}

function gpuOf(row: unknown, figures: unknown, nodes: ReadonlyMap<string, string>): VendorGpu {
  const index = numberOf(at(row, "gpu")) ?? 0;
  const pciBusId = textOf(at(row, "bus", "bdf")).toLowerCase();
  const serial = textOf(at(row, "asic", "asic_serial")).replace(/^0x/i, "");
  const memoryBytes = (numberOf(at(row, "vram", "size")) ?? 0) * mib;
  const uncorrected = numberOf(at(figures, "ecc", "total_uncorrectable_count")) ?? 0;
  const used = numberOf(at(figures, "mem_usage", "used_vram"));
  const usage = numberOf(at(figures, "usage", "gfx_activity"));
  return {
    gpu: plainGpu({
      uuid: `AMD-${serial || pciBusId}`,
      index,
      name: textOf(at(row, "asic", "market_name")) || "AMD GPU",
      memoryBytes,
      pciBusId,
      powerLimitWatts: numberOf(at(row, "limit", "max_power")) ?? 0,
      eccUncorrected: uncorrected,
      ...(uncorrected > 0
        ? { healthy: false, unhealthyReason: `${uncorrected} uncorrected memory errors: reset the GPU` }
        : {}),
    }),
    access: accessOf(index, nodes.get(pciBusId)),
    load: {
      utilizationRatio: usage === undefined ? undefined : usage / 100,
      memoryUsedBytes: used === undefined ? undefined : used * mib,
      temperatureCelsius:
        numberOf(at(figures, "temperature", "hotspot")) ?? numberOf(at(figures, "temperature", "edge")),
      powerWatts: numberOf(at(figures, "power", "socket_power")),
    },
  };
}

/** https://instinct.docs.amd.com/projects/container-toolkit/en/latest/ */
function accessOf(index: number, renderNode: string | undefined) {
  return {
    vendor: "amd" as const,
    cdi: [`amd.com/gpu=${index}`],
    // Without the device's own file a container would see every GPU or none.
    devices: renderNode === undefined ? [] : ["/dev/kfd", renderNode],
    libraries: [],
    visible: { variable: "HIP_VISIBLE_DEVICES", value: String(index) },
  };
}

async function readRocm(
  run: RunVendorTool,
  renderNodes: () => Promise<ReadonlyMap<string, string>>,
  signal: AbortSignal,
) {
  const args = ["--showproductname", "--showuniqueid", "--showbus", "--showmeminfo", "vram", "--showuse", "--json"];
  const end = await run("rocm-smi", args, signal);
  if (end.kind === "missing") return { kind: "none" } as const;
  if (end.kind === "failed") return { kind: "broken", reason: `rocm-smi: ${end.reason}` } as const;
  const value = jsonIn(end.output);
  const cards = Object.entries((value ?? {}) as Record<string, unknown>).filter(([key]) => /^card\d+$/.test(key));
  const nodes = await renderNodes();
  const gpus = cards.map(([key, card]): VendorGpu => {
    const index = Number(key.slice(4));
    const pciBusId = textOf(at(card, "PCI Bus")).toLowerCase();
    const unique = textOf(at(card, "Unique ID")).replace(/^0x/i, "");
    const usage = numberOf(at(card, "GPU use (%)"));
    return {
      gpu: plainGpu({
        uuid: `AMD-${unique || pciBusId}`,
        index,
        name: textOf(at(card, "Card Series")) || textOf(at(card, "Card series")) || "AMD GPU",
        memoryBytes: numberOf(at(card, "VRAM Total Memory (B)")) ?? 0,
        pciBusId,
      }),
      access: accessOf(index, nodes.get(pciBusId)),
      load: {
        utilizationRatio: usage === undefined ? undefined : usage / 100,
        memoryUsedBytes: numberOf(at(card, "VRAM Total Used Memory (B)")),
      },
    };
  });
  return gpus.length === 0 ? ({ kind: "none" } as const) : ({ kind: "found", gpus, driverVersion: "" } as const);
}
