// The agent's own pages, on a machine of the fixtures: what they hold, that they wait for nothing, and that an instance
// takes its series with it.
import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type LocalAgent, makeLocalAgent } from "../../fakes/local-agent.ts";
import { mayBeSlow, pageTimes, timesSince } from "../../fakes/page-times.ts";

const agent: LocalAgent = makeLocalAgent();
const faultFile = join(agent.folder, "fault");
const waiting = { timeout: 60_000, interval: 100 };
let slow: Server;

async function page(path: string): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${agent.ports().metrics_port}${path}`, {
    signal: AbortSignal.timeout(20_000),
  });
  return answer.ok ? answer.text() : `${answer.status}`;
}
const inspect = async () => JSON.parse(await page("/inspect"));

beforeAll(async () => {
  const bin = join(agent.folder, "bin");
  mkdirSync(bin);
  symlinkSync(join(import.meta.dirname, "../../fixtures/nvidia-smi/nvidia-smi"), join(bin, "nvidia-smi"));
  // An engine whose page never comes.
  slow = createServer((req, res) => {
    if (req.url === "/v1/models") res.end('{"data":[{"id":"tiny/model"}]}');
  });
  await new Promise<void>((resolve) => slow.listen(0, "127.0.0.1", resolve));
  const { port } = slow.address() as AddressInfo;
  agent.want([
    agent.spec({ instanceId: "one", gpuUuids: ["GPU-5a1c0d3e-3e97-4b7a-9c11-000000000000"] }),
    agent.spec({ instanceId: "two", engine: "external", externalUrl: `http://127.0.0.1:${port}`, deployId: "other" }),
  ]);
  agent.start({
    PATH: `${bin}:${process.env["PATH"]}`,
    STUB_MACHINE: join(import.meta.dirname, "../../fixtures/nvidia-smi/h100"),
    STUB_FAULT_FILE: faultFile,
    STOKER_GPU_METRICS: "dcgm",
  });
  await vi.waitFor(async () => {
    const { instances, gpus } = await inspect();
    expect(instances.map(({ phase }: { phase: string }) => phase)).toEqual(["ready", "ready"]);
    expect(gpus).toHaveLength(8);
    expect(gpus[0].power_watts).toBeGreaterThan(0);
  }, waiting);
}, 90_000);
afterAll(async () => {
  await agent.kill("SIGKILL");
  slow.closeAllConnections();
  slow.close();
  await agent.clean();
});

describe("the agent's pages", () => {
  it("hold GPUs under our names and DCGM's, the host, the instances' processes and what failed", async () => {
    await vi.waitFor(async () => {
      const text = await page("/metrics");
      for (const series of [
        'stoker_gpu_power_watts{gpu="0",UUID="GPU-5a1c0d3e-3e97-4b7a-9c11-000000000000"} 71.52',
        'stoker_gpu_healthy{gpu="2",UUID="GPU-5a1c0d3e-3e97-4b7a-9c11-000000000002"} 0',
        'stoker_gpu_allocated{gpu="0",UUID="GPU-5a1c0d3e-3e97-4b7a-9c11-000000000000",deploy_id="deployment"} 1',
        'modelName="NVIDIA H100 80GB HBM3",hostname="local",DCGM_FI_DRIVER_VERSION="570.86.15"} 345',
        "stoker_node_memory_total_bytes ",
        'container_memory_working_set_bytes{id="/process/',
        'stoker_docker_request_seconds_count{op="start"}',
      ])
        expect(text).toContain(series);
    }, waiting);
  });

  it("pass an engine's own page on with whose it is, and under names that are the same for every engine", async () => {
    await vi.waitFor(async () => {
      const text = await page("/metrics/runtime");
      expect(text).toMatch(
        /stoker_runtime_num_requests_running\{.*deploy_id="deployment",instance_id="one",node="local"\} 0/,
      );
      expect(text).toContain('stoker_engine_requests_running{deploy_id="deployment",instance_id="one",node="local"} 0');
      expect(text).not.toMatch(/^(process|nodejs|python|http)_/m);
    }, waiting);
  });

  it("are what `stoker inspect` shows, with no control plane anywhere", async () => {
    const cli = join(import.meta.dirname, "../../../cli/main.ts");
    const { stdout } = await promisify(execFile)(process.execPath, [
      cli,
      "inspect",
      "--data",
      join(agent.folder, "data"),
    ]);
    expect(stdout).toMatch(/^local\n/);
    expect(stdout).toContain("NOT connected; requests are still served");
    expect(stdout).toMatch(/one +ready/);
    expect(stdout).toMatch(/ 0 H100-80GB .* 72W used +deployment/);
    expect(stdout).toContain("2 uncorrected memory errors");
    const nobody = promisify(execFile)(process.execPath, [cli, "inspect", "--data", `${agent.folder}/none`]);
    await expect(nobody).rejects.toMatchObject({ code: 4 });
  });

  it("answer at once while nvidia-smi hangs and an engine never answers, with the last figures and their age", async () => {
    writeFileSync(faultFile, "hang\n");
    await vi.waitFor(async () => {
      const text = await page("/metrics");
      expect(Number(/^stoker_gpu_sample_age_seconds (\S+)/m.exec(text)?.[1])).toBeGreaterThan(8);
      expect(text).toMatch(/stoker_scrape_errors_total\{source="nvidia_smi"\} [1-9]/);
      expect(text).toMatch(/stoker_scrape_errors_total\{source="engine"\} [1-9]/);
      expect(text).toContain("stoker_gpu_power_watts{");
    }, waiting);
    const before = pageTimes(await page("/metrics"));
    for (let scrape = 0; scrape < 40; scrape++) await page(scrape % 2 === 0 ? "/metrics" : "/metrics/runtime");
    const after = pageTimes(await page("/metrics"));
    for (const one of ["/metrics", "/metrics/runtime"]) {
      const times = timesSince(before.get(one), after.get(one));
      expect(times.all, one).toBeGreaterThanOrEqual(19);
      expect(times.all - times.quick, one).toBeLessThanOrEqual(mayBeSlow(times));
    }
    writeFileSync(faultFile, "\n");
  });
});
