import { describe, expect, it } from "vitest";
import { parseList, parseReport } from "../../../../agent/fingerprint/nvidia-report.ts";
import { numberIn, parseCsv } from "../../../../agent/fingerprint/nvidia-smi.ts";
import { parseXml, textAt } from "../../../../agent/fingerprint/xml.ts";
import { gpuTypeOf } from "../../../../proto/gpu.ts";

const mib = 1024 * 1024;

it.each([
  ["NVIDIA B300 SXM6 AC", 275_040, "B300-270GB"],
  ["NVIDIA B200", 183_359, "B200-180GB"],
  ["NVIDIA H200", 143_771, "H200-141GB"],
  ["NVIDIA H100 NVL", 95_830, "H100-80GB"],
  ["NVIDIA A100 80GB PCIe", 81_920, "A100-80GB"],
  ["NVIDIA A100-SXM4-40GB", 40_960, "A100-40GB"],
  ["NVIDIA L40S", 46_068, "L40S-48GB"],
  ["NVIDIA L40", 46_068, "L40-48GB"],
  ["NVIDIA L4", 23_034, "L4-24GB"],
  ["Tesla T4", 15_360, "T4-16GB"],
  ["NVIDIA GB200", 189_471, "B200-180GB"],
  ["NVIDIA A100X", 81_920, "other"],
  ["NVIDIA L4", 11_000, "other"],
])("recognises %s with %i MiB as a %s", (name, memoryMib, type) => {
  expect(gpuTypeOf({ uuid: "GPU-1", name, memoryBytes: memoryMib * mib })).toBe(type);
});

describe("a table of nvidia-smi", () => {
  it("leaves out fields that the driver does not report, in any notation", () => {
    const cells = "0, [N/A], [Not Supported], [Unknown Error], N/A, 12.5";
    const [row] = parseCsv(cells, ["index", "a", "b", "c", "d", "power.draw"]);
    expect(row).toEqual({ index: "0", "power.draw": "12.5" });
    expect(numberIn(row ?? {}, "power.draw")).toBe(12.5);
    expect(numberIn(row ?? {}, "a")).toBeUndefined();
  });

  it("keeps the commas of its last field and skips lines that are no row", () => {
    const text = "No devices were found\nGPU-1, 7, 100, python3, worker 0\n\n";
    expect(parseCsv(text, ["gpu_uuid", "pid", "used_memory", "process_name"])).toEqual([
      { gpu_uuid: "GPU-1", pid: "7", used_memory: "100", process_name: "python3,worker 0" },
    ]);
  });
});

describe("the XML of nvidia-smi", () => {
  it("is read with its attributes, entities and empty elements", () => {
    const root = parseXml(
      '<?xml version="1.0" ?>\n<!DOCTYPE a SYSTEM "b.dtd">\n<a><b id="x&amp;y"/><c> 1 &lt; 2 </c></a>',
    );
    expect(root?.children[0]).toMatchObject({ name: "b", attributes: { id: "x&y" } });
    expect(root && textAt(root, "c")).toBe("1 < 2");
    expect(root && textAt(root, "nothing", "here")).toBeUndefined();
  });

  it.each(["", "<a><b></a>", "<a>", "Segmentation fault"])("is no report if it is not one: %j", (text) => {
    expect(parseReport(text)).toBeUndefined();
  });

  // nvidia-smi prints bytes of other processes as names: https://github.com/common-workflow-language/cwltool/pull/1910
  it.each(["a&b", "\u0001\ufffd", "a]]>b", "a&#x0;b"])("keeps the slices beside a process named %j", (name) => {
    const process = `<process_info><pid>7</pid><process_name>${name}</process_name></process_info>`;
    const slice = "<mig_device><index>0</index><fb_memory_usage><total>5 MiB</total></fb_memory_usage></mig_device>";
    const gpu = `<gpu><uuid>GPU-a</uuid><mig_devices>${slice}</mig_devices><processes>${process}</processes></gpu>`;
    const devices = parseReport(`<nvidia_smi_log>${gpu}</nvidia_smi_log>`)?.migDevices.get("GPU-a");
    expect(devices).toMatchObject([{ index: 0, memoryBytes: 5 * mib, processes: [{ pid: 7, name }] }]);
  });
});

it("reads the slices of each GPU from the list of new and old drivers", () => {
  const text =
    "GPU 0: NVIDIA A100 (UUID: GPU-a)\n  MIG 3g.40gb     Device  0: (UUID: MIG-1)\nGPU 1: NVIDIA A100 (UUID: GPU-b)\n" +
    "  MIG 1g.5gb Device  3: (UUID: MIG-GPU-b/7/0)\n";
  expect([...parseList(text)]).toEqual([
    ["GPU-a", [{ profile: "3g.40gb", index: 0, uuid: "MIG-1" }]],
    ["GPU-b", [{ profile: "1g.5gb", index: 3, uuid: "MIG-GPU-b/7/0" }]],
  ]);
});
