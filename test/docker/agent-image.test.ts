// The agent in its own container, which starts the model server's beside itself through the host's engine: real weights under
// a memory limit on a network without a way out. Killed, it adopts; its model server killed, it starts another; stopped,
// it finishes what runs.
import { execFile } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { demoModelByKey } from "../../control-plane/catalog/demo-models.ts";
import { randomId } from "../../proto/ids.ts";
import { localTicket } from "../fakes/local-agent.ts";
import { agentImage, clear, docker, dockerHost, runtimeImage, subnetOf } from "./docker-host.ts";
import { realModel, realWeights } from "./real-weights.ts";

const host = await dockerHost("the agent's image, serving and adopting a real model through the host's engine", [
  "runtime",
  "agent",
]);
const socket = "/var/run/docker.sock";
const agent = `stoker-agent-test-${process.pid}`;
/** Its images' user. */
const user = 2000;
const patient = { timeout: 120_000, interval: 200 };
const memoryBytes = demoModelByKey("smollm2-135m")?.memoryBytes ?? 0;
const sound = randomId<"instance">(16);
const hungry = randomId<"instance">(16);

describe.skipIf(!host.ok)("an agent in a container", () => {
  let folder: string;
  const data = () => join(folder, "data");
  const agentFile = () => JSON.parse(readFileSync(join(data(), "agent.json"), "utf8"));
  const modelServer = () => `stoker-${sound}-g1`;
  const inspect = async (container: string) => JSON.parse(await docker("inspect", container))[0];

  const complete = (body: object, ticket: object = {}) =>
    fetch(`http://127.0.0.1:${agentFile().ingress_port}/i/${sound}/v1/completions`, {
      method: "POST",
      headers: {
        "x-stoker-ticket": localTicket(data(), sound, { model: realModel, ...ticket }),
        "content-type": "application/json",
      },
      body: JSON.stringify({ model: realModel, prompt: "The capital of France is", temperature: 0, ...body }),
      signal: AbortSignal.timeout(120_000),
    });
  const expectServed = () =>
    vi.waitFor(async () => {
      expect(existsSync(join(data(), "agent.json"))).toBe(true);
      const answer = await complete({ max_tokens: 8 });
      const text = await answer.text();
      expect(answer.status, text).toBe(200);
      expect(JSON.parse(text).choices[0].text).toContain("Paris");
    }, patient);

  beforeAll(async () => {
    const weights = await realWeights();
    folder = mkdtempSync(join(tmpdir(), "stoker-agent-image-"));
    chownSync(folder, user, 0);
    const spec = (instanceId: string, bytes: number) => ({
      instanceId,
      deployId: "deployment",
      generation: 1,
      engine: "stoker",
      servedModelName: realModel,
      task: "text-generation",
      weights: { localPath: weights },
      maxBatchSize: 2,
      contextLength: 1024,
      memoryBytes: String(bytes),
      cpus: 1,
    });
    const instances = [spec(sound, memoryBytes), spec(hungry, 48 * 1024 * 1024)];
    writeFileSync(
      join(folder, "desired.json"),
      JSON.stringify({ nodeEpoch: "1", generation: "1", instances, tombstones: [] }),
    );
    const env = {
      STOKER_AGENT_DATA: data(),
      STOKER_LOCAL_DESIRED: join(folder, "desired.json"),
      STOKER_CONTAINER_SUBNET: subnetOf(237),
      STOKER_DRAIN_MS: "120000",
      // As this user it can set no rules: what it says then is looked at.
      STOKER_RENTAL_IMAGES: "debian-ssh",
    };
    const mounts = [socket, folder, dirname(weights)].map((path) => `${path}:${path}`);
    await docker(
      ...["run", "--detach", "--name", agent, "--network", "host", "--group-add", String(statSync(socket).gid)],
      ...["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"],
      ...mounts.flatMap((mount) => ["--volume", mount]),
      ...Object.entries(env).flatMap(([name, value]) => ["--env", `${name}=${value}`]),
      agentImage,
    );
  });
  afterAll(async () => {
    if (!host.ok) return;
    const hostId = existsSync(join(data(), "agent.json")) ? agentFile().host_id : undefined;
    await docker("rm", "--force", agent).catch(() => undefined);
    if (hostId) await clear(hostId);
    rmSync(folder, { recursive: true, force: true });
  });

  it("serves real weights from an image it knows by itself, within the memory granted and with no way out", async () => {
    await expectServed();
    const { Config, HostConfig, NetworkSettings } = await inspect(modelServer());
    expect(Config.Image).toBe(runtimeImage);
    expect(Config.User).not.toMatch(/^(0|root|)(:|$)/);
    expect(HostConfig.Memory).toBe(memoryBytes);
    const networks = Object.keys(NetworkSettings.Networks);
    expect(networks).toHaveLength(1);
    expect((await docker("network", "inspect", "--format", "{{.Internal}}", ...networks)).trim()).toBe("true");
    expect((await inspect(agent)).Config.User).toBe("2000:0");
  });

  it("sets no firewall rules as its image's user, and reports that it offers no rentals and what its model servers reach", async () => {
    const page = await fetch(`http://127.0.0.1:${agentFile().metrics_port}/inspect`, {
      signal: AbortSignal.timeout(20_000),
    });
    const said: string = ((await page.json()) as { warnings: string[] }).warnings.join("\n");
    expect(said).toMatch(/this host offers no rentals: .*iptables cannot be used here \(.*(permitted|denied|root)/i);
    expect(said).toMatch(/model containers can reach services of this host .*: run the agent as root/);
  });

  it("reports why the instance that exceeds its memory does not run, while the other serves", async () => {
    await vi.waitFor(async () => {
      const { stderr } = await promisify(execFile)("docker", ["logs", agent]);
      const told = stderr.split("\n").filter((line) => line.includes(hungry));
      expect(told.join("\n")).toMatch(/"code":"oom_killed".*limit 48MiB|limit 48MiB.*"code":"oom_killed"/);
    }, patient);
    await expectServed();
  });

  it("adopts its model server after kill -9, without a restart", async () => {
    const before = await inspect(modelServer());
    await docker("kill", agent);
    await docker("start", agent);
    await expectServed();
    const after = await inspect(modelServer());
    expect([after.Id, after.State.StartedAt]).toEqual([before.Id, before.State.StartedAt]);
  });

  it("starts a model server that was killed again, after a pause", async () => {
    const { State: before } = await inspect(modelServer());
    await docker("kill", modelServer());
    await vi.waitFor(async () => {
      const { State: now } = await inspect(modelServer());
      expect(now.Running && now.StartedAt !== before.StartedAt).toBe(true);
    }, patient);
    await expectServed();
  });

  it("finishes what runs when it is stopped, and leaves its model server running", async () => {
    const answer = await complete(
      // Still at it when the engine has been asked for the agent's end.
      { max_tokens: 700, ignore_eos: true, stream: true },
      { stream: true, maxTokens: 700 },
    );
    expect(answer.status).toBe(200);
    let text = "";
    const read = (async () => {
      const decoder = new TextDecoder();
      for await (const part of answer.body ?? []) text += decoder.decode(part, { stream: true });
    })();
    await vi.waitFor(() => expect(text).toContain("data: {"), patient);
    await docker("kill", "--signal", "TERM", agent);
    expect(text).not.toContain("[DONE]");
    await read;
    expect(text.trimEnd().endsWith("data: [DONE]"), text.slice(-500)).toBe(true);
    expect(text).toContain('"finish_reason":"length"');
    await vi.waitFor(async () => expect((await inspect(agent)).State.Running).toBe(false), patient);
    expect((await inspect(agent)).State.ExitCode).toBe(0);
    expect((await inspect(modelServer())).State.Running).toBe(true);
  });
});
