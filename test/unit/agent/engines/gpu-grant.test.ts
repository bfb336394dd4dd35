import { describe, expect, it } from "vitest";
import { gpuDevices } from "../../../../agent/docker/gpu-devices.ts";
import type { HostFacts } from "../../../../agent/engines/host-facts.ts";
import { planInstance } from "../../../../agent/engines/plan-instance.ts";
import type { GpuAccess } from "../../../../proto/gpu-vendors.ts";
import { instanceSpec } from "../../../fakes/instance-spec.ts";

const digest = `sha256:${"a".repeat(64)}`;
const folder = "/cache/models--o--m/snapshots/c0ffee";
const amd = (index: number): GpuAccess => ({
  vendor: "amd",
  cdi: [`amd.com/gpu=${index}`],
  devices: ["/dev/kfd", `/dev/dri/renderD${128 + index}`],
  groups: [44, 109],
  libraries: [],
  visible: { variable: "HIP_VISIBLE_DEVICES", value: String(index) },
});
const nvidia: GpuAccess = {
  vendor: "nvidia",
  cdi: ["nvidia.com/gpu=GPU-1"],
  devices: [],
  groups: [],
  libraries: [],
  visible: { variable: "CUDA_VISIBLE_DEVICES", value: "GPU-1" },
};
const access: Readonly<Record<string, GpuAccess>> = { "AMD-0": amd(0), "AMD-1": amd(1), "GPU-1": nvidia };
const host: HostFacts = {
  driver: "docker",
  runtimeImage: "runtime:1",
  engineImages: { vllm: `vllm/vllm-openai:v0.18.0@${digest}` },
  vendorImages: { amd: { vllm: `rocm/vllm:v0.18.0@${digest}` } },
  gpuAccess: (uuid) => access[uuid],
  cdiDevices: () => new Set(),
  allowedImages: [],
  filesDir: "/data/files",
  logLevel: "info",
};
const two = { engine: "vllm", gpuUuids: ["AMD-0", "AMD-1"], extraArgs: [] };
const plan = (spec: Parameters<typeof instanceSpec>[0], facts: HostFacts = host) =>
  planInstance(instanceSpec(spec), folder, facts);
const planned = (spec: Parameters<typeof instanceSpec>[0], facts: HostFacts = host) => {
  const outcome = plan(spec, facts);
  if (!outcome.ok) throw new Error(outcome.message);
  return outcome.plan;
};

describe("an instance on GPUs of another maker", () => {
  it("runs the maker's image with its device files where the engine has no CDI", () => {
    const found = planned(two);
    expect(found.image).toBe(`rocm/vllm:v0.18.0@${digest}`);
    expect(found.entrypoint?.join(" ")).toContain("--tensor-parallel-size 2");
    const files = ["/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"];
    expect(gpuDevices(found)).toEqual({
      Devices: files.map((path) => ({ PathOnHost: path, PathInContainer: path, CgroupPermissions: "rw" })),
      GroupAdd: ["44", "109"],
    });
  });

  it("gets them by CDI where the engine lists all of them", () => {
    const listed = { ...host, cdiDevices: () => new Set(["amd.com/gpu=0", "amd.com/gpu=1"]) };
    expect(gpuDevices(planned(two, listed))).toEqual({
      DeviceRequests: [{ Driver: "cdi", DeviceIDs: ["amd.com/gpu=0", "amd.com/gpu=1"] }],
    });
    const partly = { ...host, cdiDevices: () => new Set(["amd.com/gpu=0"]) };
    expect(gpuDevices(planned(two, partly))).toHaveProperty("Devices");
  });

  it("is refused with the setting when no image is named for the maker", () => {
    const { vendorImages: _, ...bare } = host;
    expect(plan(two, bare)).toMatchObject({
      ok: false,
      code: "engine_unavailable",
      message: expect.stringContaining("STOKER_VLLM_IMAGE_AMD"),
    });
    expect(plan({ ...two, engine: "stoker" })).toMatchObject({
      ok: false,
      message: expect.stringContaining("STOKER_RUNTIME_IMAGE_AMD"),
    });
  });

  it("is refused on GPUs of two makers, and on one whose device was not found", () => {
    expect(plan({ ...two, gpuUuids: ["AMD-0", "GPU-1"] })).toMatchObject({ ok: false, code: "bad_spec" });
    expect(plan({ ...two, gpuUuids: ["AMD-7"] })).toMatchObject({ ok: false, code: "gpu_unavailable" });
  });

  it("is limited to them by the maker's variable as a process", () => {
    const enginePrograms = { vllm: { path: "/opt/vllm", version: undefined } };
    const { env } = planned(two, { ...host, driver: "process", enginePrograms });
    expect(env).toMatchObject({ HIP_VISIBLE_DEVICES: "0,1" });
    expect(env).not.toHaveProperty("CUDA_VISIBLE_DEVICES");
  });
});

describe("an instance on NVIDIA GPUs", () => {
  const one = { engine: "vllm", gpuUuids: ["GPU-1"], extraArgs: [] };

  it("gets them by NVIDIA's runtime, and by CDI where the engine lists them", () => {
    expect(gpuDevices(planned(one))).toEqual({
      DeviceRequests: [{ Driver: "nvidia", DeviceIDs: ["GPU-1"], Capabilities: [["gpu"]] }],
    });
    const listed = { ...host, cdiDevices: () => new Set(["nvidia.com/gpu=GPU-1"]) };
    expect(gpuDevices(planned(one, listed))).toEqual({
      DeviceRequests: [{ Driver: "cdi", DeviceIDs: ["nvidia.com/gpu=GPU-1"] }],
    });
  });
});
