// Deployments that cannot work and servers that die, under a real agent: each ends with its reason and harms no other.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isAlive, type LocalAgent, makeLocalAgent } from "../../fakes/local-agent.ts";

const patient = { timeout: 50_000, interval: 200 };

describe("an agent whose instances fail", () => {
  let agent: LocalAgent;
  beforeEach(() => {
    agent = makeLocalAgent();
  });
  afterEach(async ({ task }) => {
    if (task.result?.state === "fail") process.stderr.write(agent.log());
    await agent.clean();
  });

  interface Told {
    readonly msg: string;
    readonly instance?: string;
    readonly code?: string;
    readonly why?: string;
    readonly attempts?: number;
    readonly retryInMs?: number;
  }
  const told = (instance: unknown, msg: string): Told | undefined =>
    agent
      .log()
      .split("\n")
      .filter((line) => line.startsWith("{") && line.endsWith("}"))
      .map((line) => JSON.parse(line) as Told)
      .find((line) => line.instance === instance && line.msg === msg);
  const state = async (instance: unknown) => {
    const page = await (await fetch(`http://127.0.0.1:${agent.ports().metrics_port}/metrics`)).text();
    return new RegExp(`instance_id="${instance}",state="(\\w+)"`).exec(page)?.[1];
  };

  it("ends them with the reason, each its own, while a sound one serves", async () => {
    const sound = agent.spec();
    const refuses = agent.spec({}, { exitCode: 2, lines: ['{"level":"error","msg":"STOKER_X must be a number"}'] });
    const breaks = agent.spec({}, { exitCode: 1, lines: ["fatal: no such tensor"] });
    const hungry = agent.spec({ memoryBytes: 100 * 1024 * 1024 }, { holdBytes: 600e6 });
    const nothing = agent.spec({ weights: { localPath: "/nowhere/at/all.gguf" } });
    const unknown = agent.spec({ engine: "an-engine-of-the-future" });
    agent.want([sound, refuses, breaks, hungry, nothing, unknown]);
    agent.start();
    await expect.poll(async () => (await agent.complete(sound.instanceId as string))?.status, patient).toBe(200);

    await expect
      .poll(() => told(refuses.instanceId, "instance failed"), patient)
      .toMatchObject({
        code: "bad_model",
        why: expect.stringContaining("STOKER_X must be a number"),
        attempts: 1,
      });
    await expect.poll(() => told(nothing.instanceId, "instance failed"), patient).toMatchObject({ attempts: 1 });
    await expect
      .poll(() => told(unknown.instanceId, "instance failed"), patient)
      .toMatchObject({
        code: "unknown_engine",
        attempts: 1,
      });
    await expect
      .poll(() => told(hungry.instanceId, "instance will be tried again"), patient)
      .toMatchObject({
        code: "oom_killed",
        why: expect.stringContaining("limit 100MiB"),
      });
    await expect
      .poll(() => told(breaks.instanceId, "instance failed"), patient)
      .toMatchObject({
        code: "exit_1",
        why: expect.stringContaining("fatal: no such tensor"),
        attempts: 3,
      });
    await expect.poll(() => state(breaks.instanceId), patient).toBe("failed");
    expect(await state(sound.instanceId)).toBe("ready");
    expect(agent.log()).toContain("without isolation: this driver is for development");
    expect((await agent.complete(sound.instanceId as string))?.status).toBe(200);
  });

  it("starts a server that died again after about ten seconds and leaves its neighbour alone", async () => {
    const [one, other] = [agent.spec(), agent.spec()];
    agent.want([one, other]);
    agent.start();
    for (const spec of [one, other])
      await expect.poll(async () => (await agent.complete(spec.instanceId as string))?.status, patient).toBe(200);
    const pidOf = async (spec: typeof one) => (await agent.complete(spec.instanceId as string))?.body.pid;
    const [victim, neighbour] = [(await pidOf(one)) as number, await pidOf(other)];
    process.kill(victim, "SIGKILL");

    await expect
      .poll(() => told(one.instanceId, "instance will be tried again"), patient)
      .toMatchObject({
        code: "signal_sigkill",
      });
    const { retryInMs } = told(one.instanceId, "instance will be tried again") as { retryInMs: number };
    expect(retryInMs).toBeGreaterThanOrEqual(7_500);
    expect(retryInMs).toBeLessThanOrEqual(12_500);
    expect((await agent.complete(one.instanceId as string))?.status).not.toBe(200);
    await expect.poll(() => pidOf(one), patient).toEqual(expect.any(Number));
    expect(await pidOf(one)).not.toBe(victim);
    expect(await pidOf(other)).toBe(neighbour);
    expect(isAlive(victim)).toBe(false);
  });
});
