// Hosts whose model servers are Pods, as they report themselves and as they are planned and placed.
import pino from "pino";
import { expect, it } from "vitest";
import { readConfig } from "../../../../agent/config.ts";
import { planInstance } from "../../../../agent/engines/plan-instance.ts";
import { HostInventory } from "../../../../agent/fingerprint/inventory.ts";
import { containerRules, engineNames, hostOptionsOf } from "../../../../agent/wiring/drivers.ts";
import { place } from "../../../../control-plane/deployments/placement-preview.ts";
import { account, gib, gpu, hostView, inventory } from "../../../fakes/fleet-records.ts";
import { instanceSpec } from "../../../fakes/instance-spec.ts";

const config = readConfig({
  STOKER_AGENT_DATA: import.meta.dirname,
  STOKER_CONTROL: "127.0.0.1:1",
  STOKER_DRIVER: "kubernetes",
  STOKER_KUBERNETES_NAMESPACE: "models",
  STOKER_NODE_NAME: "node-1",
  STOKER_RUNTIME_IMAGE: "registry.example.com/runtime:1",
  STOKER_VLLM_IMAGE: "vllm/vllm-openai:v0.11.2",
});

it("are hosts without an engine of their own that run images, on the whole machine, and whose models stay awake", async () => {
  const found = await new HostInventory({
    dataDir: import.meta.dirname,
    overrides: {},
    log: pino({ level: "silent" }),
    ...hostOptionsOf(config),
    engines: (version) => engineNames(config, version),
    containers: (version) => containerRules(config, version),
  }).read(AbortSignal.timeout(60_000));
  expect(found).toMatchObject({
    drivers: ["kubernetes", "external", "vllm"],
    dockerVersion: "",
    hasNvidiaRuntime: true,
    sleeps: false,
    containers: { unavailable: "", volumesUnavailable: expect.stringMatching(/keeps no volumes/) },
  });
});

it("get model servers with a whole GPU, also those that could share one, and no agent instances", () => {
  const host = hostView("h", {
    inventory: inventory({
      gpus: [gpu(0, { type: "L4-24GB", memoryBytes: 24 * gib })],
      drivers: ["kubernetes", "external"],
      hasNvidiaRuntime: true,
    }),
  });
  const want = { gpu: "L4-24GB", gpusPerInstance: 1, memoryBytes: gib, host: undefined, sharesWith: account } as const;
  expect(place({ ...want, engine: "stoker" }, [host])).toMatchObject({ ok: true, gpuMemoryBytes: 0, gpuShare: 1 });
  const docker = { ...host, inventory: { ...host.inventory, drivers: ["docker"] } };
  expect(place({ ...want, engine: "stoker" }, [docker])).toMatchObject({ ok: true, gpuMemoryBytes: gib });
  expect(place({ ...want, engine: "container", rentalImage: "ubuntu" }, [host]).ok).toBe(false);
});

it("are planned as containers, and refuse a part of a GPU", () => {
  const facts = {
    driver: "kubernetes",
    runtimeImage: "registry.example.com/runtime:1",
    allowedImages: [],
    filesDir: "/data/files",
    logLevel: "info",
  } as const;
  const spec = instanceSpec({ engine: "stoker", gpuUuids: ["GPU-a"] });
  const whole = planInstance(spec, "/data/models/m.gguf", facts);
  expect(whole).toMatchObject({ ok: true, plan: { image: facts.runtimeImage, gpuUuids: ["GPU-a"] } });
  expect(whole.ok && whole.plan.gpuAccess).toBeFalsy();
  const part = planInstance({ ...spec, gpuMemoryBytes: "1024" }, "/data/models/m.gguf", facts);
  expect(part).toMatchObject({ ok: false, code: "gpu_not_shared" });
});
