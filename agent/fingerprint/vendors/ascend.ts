// Ascend NPUs by npu-smi, which prints a table only. Written from its documented output; no real device was met.
import { plainGpu, type RunVendorTool, type Vendor, type VendorGpu } from "./vendor.ts";

const mib = 1024 * 1024;
/** Device files that every container with an NPU needs. */
const common = ["/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"];
const libraries = ["/usr/local/Ascend/driver", "/usr/local/dcmi", "/usr/local/bin/npu-smi", "/etc/ascend_install.info"];

/** `host`: its name; the tool lists no identifier that is the same after a restart and differs between hosts. */
export function ascendVendor(run: RunVendorTool, host: string): Vendor {
  return {
    vendor: "ascend",
    async read(signal) {
      const end = await run("npu-smi", ["info"], signal);
      if (end.kind === "missing") return { kind: "none" };
      if (end.kind === "failed") return { kind: "broken", reason: `npu-smi: ${end.reason}` };
      const gpus = npusIn(end.output, host);
      const driverVersion = /Version:\s*(\S+)/.exec(end.output)?.[1] ?? "";
      return gpus.length === 0 ? { kind: "none" } : { kind: "found", gpus, driverVersion };
    },
  };
}

const first = /^\|\s*(\d+)\s+(\S+)\s*\|\s*(\S+)\s*\|\s*([\d.-]+)\s+(\d+)/;
/** Chip, bus, use of the cores, memory, and memory of the accelerator: `2871 / 32768`. */
const second =
  /^\|\s*(\d+)[\s\d]*\|\s*([0-9A-Fa-f]{4}:[0-9A-Fa-f:.]+)\s*\|\s*(\d+)\s+(\d+)\s*\/\s*(\d+)(?:\s+(\d+)\s*\/\s*(\d+))?/;

/** Each NPU has a line of its own, and a line for each of its chips below. */
function npusIn(table: string, host: string): VendorGpu[] {
  const gpus: VendorGpu[] = [];
  let npu: RegExpExecArray | undefined;
  for (const line of table.split("\n")) {
    const chip = second.exec(line);
    if (!chip) {
      npu = first.exec(line) ?? npu;
      continue;
    }
    if (!npu) continue;
    const [, , name = "", health = "", power = "", temperature = ""] = npu;
    const [, , bus = "", use, ddrUsed, ddrTotal, hbmUsed, hbmTotal] = chip;
    // Chips without memory of their own have the other kind.
    const [used, total] = Number(hbmTotal ?? 0) > 0 ? [hbmUsed, hbmTotal] : [ddrUsed, ddrTotal];
    const index = gpus.length;
    gpus.push({
      gpu: plainGpu({
        uuid: `NPU-${host}-${bus.toLowerCase()}`,
        index,
        name: `Ascend ${name}`,
        memoryBytes: Number(total) * mib,
        pciBusId: bus.toLowerCase(),
        ...(/^(OK|Warning)$/i.test(health) ? {} : { healthy: false, unhealthyReason: `npu-smi reports ${health}` }),
      }),
      access: {
        vendor: "ascend",
        cdi: [`huawei.com/npu=${index}`, `huawei.com/Ascend910=${index}`],
        devices: [...common, `/dev/davinci${index}`],
        libraries,
        visible: { variable: "ASCEND_RT_VISIBLE_DEVICES", value: String(index) },
      },
      load: {
        utilizationRatio: Number(use) / 100,
        memoryUsedBytes: Number(used) * mib,
        temperatureCelsius: Number(temperature),
        powerWatts: Number.isFinite(Number(power)) ? Number(power) : undefined,
      },
    });
  }
  return gpus;
}
