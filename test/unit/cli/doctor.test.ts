import { describe, expect, it } from "vitest";
import { inspectionFindings, nodeFindings } from "../../../cli/doctor/agents.ts";
import { failure, findingsText, ok, warning } from "../../../cli/doctor/finding.ts";
import { checkDisk, checkMachine, type MachineFacts } from "../../../cli/doctor/machine.ts";
import { certificateFinding, clockFinding } from "../../../cli/doctor/server.ts";
import type { Inspection } from "../../../cli/local-agent.ts";
import type { Node } from "../../../cli/node.ts";

const gib = 1024 ** 3;
const noDocker = { dockerVersion: "", hasNvidiaRuntime: false, cdiDevices: [] };
const gpu = { type: "H100-80GB", uuid: "GPU-1", index: 0, unhealthyReason: "" };
const found = { kind: "found", gpus: [gpu], driverVersion: "570.1", cudaVersion: "12.8" };

const machine = (facts: object): MachineFacts =>
  ({
    nodeVersion: "v24.21.0",
    platform: "linux",
    system: async () => ({ os: "Debian 12" }),
    processor: async () => ({ cpuModel: "", cpuCores: 8, memoryBytes: 16 * gib }),
    gpus: async () => ({ kind: "none" }),
    nvidiaDevices: async () => 0,
    docker: async () => noDocker,
    isDockerDenied: async () => false,
    ...facts,
  }) as MachineFacts;

const statesOf = async (facts: object) =>
  (await checkMachine(machine(facts))).map(({ check, state }) => `${check} ${state}`);

describe("doctor on a machine", () => {
  it("finds nothing wrong without GPU and Docker", async () => {
    expect(await statesOf({})).toEqual(["host ok", "node ok", "gpu ok", "containers ok"]);
  });

  it.each([
    ["an old Node", { nodeVersion: "v22.1.0" }, "node failure"],
    ["Windows", { platform: "win32" }, "host failure"],
    ["NVIDIA devices without a driver", { nvidiaDevices: async () => 2 }, "driver failure"],
    ["a GPU that cannot be read", { gpus: async () => ({ kind: "broken", reason: "no devices" }) }, "gpu failure"],
    ["a probe of GPUs that fails", { gpus: () => Promise.reject(new Error("timeout")) }, "gpu failure"],
    ["a faulty GPU", { gpus: async () => ({ ...found, gpus: [{ ...gpu, unhealthyReason: "ecc" }] }) }, "gpu failure"],
    [
      "Docker without the NVIDIA runtime",
      { gpus: async () => found, docker: async () => ({ ...noDocker, dockerVersion: "28.1" }) },
      "containers failure",
    ],
    ["Docker that does not reply", { docker: () => Promise.reject(new Error("no reply")) }, "containers failure"],
    ["GPUs without Docker", { gpus: async () => found }, "containers warning"],
    ["Docker that the user may not use", { isDockerDenied: async () => true }, "containers warning"],
  ])("reports %s with a fix", async (_what, facts, expected) => {
    expect(await statesOf(facts)).toContain(expected);
    const bad = (await checkMachine(machine(facts))).filter(({ state }) => state !== "ok");
    for (const { fix } of bad) expect(fix).not.toBe("");
  });

  it("names type, number, driver and CUDA of the GPUs", async () => {
    const findings = await checkMachine(machine({ gpus: async () => found }));
    expect(findings).toContainEqual(ok("gpu", "1 x H100-80GB, driver 570.1, CUDA 12.8"));
  });

  it.each([
    [50 * gib, 100, "ok"],
    [9 * gib, 100, "warning"],
    [0.1 * gib, 100, "failure"],
    [50 * gib, 0, "failure"],
    [50 * gib, undefined, "ok"],
  ])("reports %d free bytes and %j free inodes as %s", (freeBytes, freeInodes, state) => {
    expect(checkDisk({ folder: "/data", totalBytes: 100 * gib, freeBytes, freeInodes }).state).toBe(state);
  });
});

it.each([
  [0, "ok"],
  [-2_900, "ok"],
  [4_000, "warning"],
  [-61_000, "failure"],
])("doctor reports a clock that is %d ms off as %s", (skewMs, state) => {
  expect(clockFinding(skewMs).state).toBe(state);
});

it.each([
  [20, "ok"],
  [13, "warning"],
  [-1, "failure"],
])("doctor reports a certificate with %d days left as %s", (days, state) => {
  expect(certificateFinding("example.com", days * 86_400_000, 14, "Renew it.").state).toBe(state);
});

describe("doctor on agents", () => {
  const inspection = (facts: object): Inspection =>
    ({
      name: "gpu-1",
      agent_version: "1.0.0",
      control: { addresses: ["10.0.0.1:9000"], connected: true, clock_skew_seconds: 0.1 },
      usage_spool: { records: 0, bytes: 0, oldest_age_seconds: 0 },
      warnings: [],
      gpus: [],
      ...facts,
    }) as unknown as Inspection;
  const control = { addresses: ["10.0.0.1:9000"], connected: true, clock_skew_seconds: 0 };

  it("finds nothing wrong with a connected one", () => {
    expect(inspectionFindings(inspection({}), "1.0.0")).toEqual([
      ok("agent", "gpu-1 1.0.0 is connected to 10.0.0.1:9000"),
    ]);
  });

  it.each([
    ["is not connected", { control: { ...control, connected: false } }, "agent failure"],
    ["is fenced", { control: { ...control, fenced_why: "its records are lost" } }, "agent failure"],
    ["has another version", { agent_version: "0.9.0" }, "version warning"],
    ["has a wrong clock", { control: { ...control, clock_skew_seconds: -3 } }, "clock warning"],
    ["keeps old records", { usage_spool: { records: 7, bytes: 1, oldest_age_seconds: 900 } }, "records warning"],
    [
      "has a faulty GPU",
      { gpus: [{ index: 0, uuid: "GPU-1", is_healthy: false, unhealthy_reason: "xid 79" }] },
      "gpu failure",
    ],
  ])("reports one that %s", (_what, facts, expected) => {
    const findings = inspectionFindings(inspection(facts), "1.0.0");
    expect(findings.map(({ check, state }) => `${check} ${state}`)).toContain(expected);
  });

  it("reports a host by the record of the control plane", () => {
    const node = {
      name: "gpu-1",
      state: "unreachable",
      silent_seconds: 95,
      condition: "cordoned: repair",
      os: "Debian 12",
      cpu_cores: 8,
      memory_bytes: 16 * gib,
      agent_version: "1.0.0",
      gpus: [],
      nvidia_driver_version: "",
      cuda_version: "",
      clock_skew_seconds: 5,
      usage_spool: null,
      load: { disk_free_bytes: gib, disk_total_bytes: 100 * gib },
      warnings: ["the Docker engine has no nvidia runtime"],
    } as unknown as Node;
    const bad = nodeFindings(node).filter(({ state }) => state !== "ok");
    expect(bad.map(({ check, state }) => `${check} ${state}`)).toEqual([
      "agent failure",
      "placement warning",
      "clock warning",
      "disk warning",
      "agent warning",
    ]);
  });
});

it("prints findings in lines of at most 80 columns and counts them", () => {
  const text = findingsText([
    ok("host", "Debian 12"),
    warning("disk", "Little is free. ".repeat(8).trim(), "Free space. ".repeat(8).trim()),
    failure("gpu", "No driver.", "Install it."),
  ]);
  const lines = text.split("\n");
  expect(lines[0]).toBe("ok    host        Debian 12");
  expect(lines.slice(-4)).toEqual([
    "FAIL  gpu         No driver.",
    "                  Fix: Install it.",
    "",
    "1 failure, 1 warning",
  ]);
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(80);
  expect(text).toMatch(/^ {18}Fix: Free space\./m);
});
