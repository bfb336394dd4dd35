// The probes against real processes and sockets that behave as nvidia-smi and the Docker engine do on a bad day.
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { dockerProbe } from "../../../agent/fingerprint/docker.ts";
import { type GpuFacts, gpuProbe } from "../../../agent/fingerprint/gpu.ts";
import { HostInventory } from "../../../agent/fingerprint/inventory.ts";
import { watchInventory } from "../../../agent/wiring/inventory-watch.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "stoker-probe-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function readWith(script: string, hasDevice: boolean): Promise<GpuFacts> {
  const nvidiaSmi = join(folder, "nvidia-smi");
  await writeFile(nvidiaSmi, `#!/bin/sh\n${script}\n`);
  await chmod(nvidiaSmi, 0o755);
  const driverFolder = join(folder, "gpus");
  if (hasDevice) await mkdir(join(driverFolder, "0000:01:00.0"), { recursive: true });
  return gpuProbe({ nvidiaSmi, driverFolder }).read(AbortSignal.timeout(30_000));
}

describe("an nvidia-smi that", () => {
  it("answers gives GPUs", async () => {
    const cells = "0, GPU-1, NVIDIA L4, 23034, 550.54.15, 00000000:3B:00.0, [N/A], 8.9, 72.00, [N/A], [N/A]";
    const facts = await readWith(`echo '${cells}'`, true);
    expect(facts).toMatchObject({
      kind: "found",
      driverVersion: "550.54.15",
      gpus: [{ type: "L4-24GB", healthy: true }],
    });
  });

  it("exits with 9 on a machine with a device is broken, in its own words", async () => {
    const script = 'echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver."; exit 9';
    expect(await readWith(script, true)).toMatchObject({
      kind: "broken",
      reason: expect.stringContaining("couldn't communicate"),
    });
    await rm(join(folder, "gpus"), { recursive: true });
    expect(await readWith(script, false)).toEqual({ kind: "none" });
  });

  it("hangs is killed after five seconds", async () => {
    const startedMs = performance.now();
    const facts = await readWith("exec sleep 600", true);
    expect(facts).toMatchObject({ kind: "broken", reason: expect.stringContaining("did not answer within 5 s") });
    expect(performance.now() - startedMs).toBeLessThan(15_000);
  });

  it("is missing means no GPUs", async () => {
    const facts = await gpuProbe({ nvidiaSmi: join(folder, "none") }).read(AbortSignal.timeout(5000));
    expect(facts).toEqual({ kind: "none" });
  });
});

describe("a Docker engine", () => {
  it("is found by its socket, with or without the nvidia runtime", async () => {
    const socket = join(folder, "docker.sock");
    const engine = createServer((_, answer) =>
      answer.end(
        '{"ServerVersion":"28.3.0","Runtimes":{"runc":{},"nvidia":{}},"DiscoveredDevices":[{"Source":"cdi","ID":"amd.com/gpu=0"}]}',
      ),
    );
    await new Promise<void>((resolve) => engine.listen(socket, resolve));
    expect(await dockerProbe(socket).read(AbortSignal.timeout(5000))).toEqual({
      dockerVersion: "28.3.0",
      hasNvidiaRuntime: true,
      cdiDevices: ["amd.com/gpu=0"],
    });
    engine.close();
  });

  it("that is away is an empty version", async () => {
    const facts = await dockerProbe(join(folder, "none.sock")).read(AbortSignal.timeout(5000));
    expect(facts).toEqual({ dockerVersion: "", hasNvidiaRuntime: false, cdiDevices: [] });
  });

  it("that is slow is not taken for none: nothing is decided before it has answered", async () => {
    const socket = join(folder, "slow.sock");
    let asked = 0;
    const engine = createServer((_, answer) => {
      asked += 1;
      if (asked > 2) answer.end('{"ServerVersion":"20.10.24","Runtimes":{}}');
    });
    await new Promise<void>((resolve) => engine.listen(socket, resolve));
    const docker = dockerProbe(socket, 200);
    await expect(docker.read(AbortSignal.timeout(5000))).rejects.toThrow(/did not say what it is: nothing came within/);
    const host = new HostInventory({
      dataDir: folder,
      overrides: {},
      log: pino({ level: "silent" }),
      probes: { docker },
    });
    const watch = await watchInventory(host, async () => false, AbortSignal.timeout(30_000));
    expect(watch.current().warnings?.join()).toContain("did not say what it is");
    await watch.untilClear(AbortSignal.timeout(30_000));
    expect(watch.current().dockerVersion).toBe("20.10.24");
    expect(watch.current().drivers).toContain("docker");
    engine.closeAllConnections();
    engine.close();
  });
});

it("this very machine has an inventory with a processor, memory, a disk and at least one GPU", async () => {
  const inventory = new HostInventory({ dataDir: folder, overrides: {}, log: pino({ level: "silent" }) });
  const found = await inventory.read(AbortSignal.timeout(30_000));
  expect(found.os).not.toBe("");
  for (const amount of [found.cpuCores, found.memoryBytes, found.diskTotalBytes, found.diskFreeBytes])
    expect(Number(amount)).toBeGreaterThan(0);
  expect(found.gpus?.length).toBeGreaterThan(0);
  expect(found.drivers).toContain("process");
});
