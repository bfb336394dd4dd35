// An agent's life ends in every way; its model servers and their address do not notice.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isAlive, type LocalAgent, makeLocalAgent } from "../../fakes/local-agent.ts";
import { isNightly } from "../../fakes/nightly.ts";

if (!isNightly)
  console.warn(
    "NOT PROVEN here: an agent without its state, and one that takes its servers along. npm run test:nightly does.",
  );

const patient = { timeout: 45_000, interval: 150 };

describe("an agent with the process driver", () => {
  let agent: LocalAgent;
  beforeEach(() => {
    agent = makeLocalAgent();
  });
  afterEach(async ({ task }) => {
    if (task.result?.state === "fail") process.stderr.write(agent.log());
    await agent.clean();
  });

  const untilServed = (id: string) =>
    expect
      .poll(async () => (await agent.complete(id))?.status, patient)
      .toBe(200)
      .then(() => agent.complete(id));

  it("adopts the same model server at the same address after kill -9, without a reload", async () => {
    const spec = agent.spec();
    agent.want([spec]);
    agent.start();
    await untilServed(spec.instanceId as string);
    const [pid] = agent.pids();
    const { ingress_port } = agent.ports();

    await agent.kill("SIGKILL");
    expect(isAlive(pid as number)).toBe(true);
    agent.start();
    const answer = await untilServed(spec.instanceId as string);
    expect(answer?.body.pid).toBe(pid);
    expect(agent.pids()).toEqual([pid]);
    expect(agent.ports().ingress_port).toBe(ingress_port);
  });

  it.runIf(isNightly)("adopts its model servers when its own state is lost", async () => {
    const spec = agent.spec();
    agent.want([spec]);
    agent.start();
    await untilServed(spec.instanceId as string);
    const [pid] = agent.pids();
    await agent.kill("SIGKILL");
    for (const name of ["state.db", "state.db-wal", "state.db-shm", "agent.json"])
      rmSync(join(agent.folder, "data", name), { force: true });
    agent.start();
    const answer = await untilServed(spec.instanceId as string);
    expect(answer?.body.pid).toBe(pid);
  });

  it("leaves its model servers running when it is stopped, and removes nothing that no tombstone names", async () => {
    const spec = agent.spec();
    agent.want([spec]);
    agent.start();
    await untilServed(spec.instanceId as string);
    const [pid] = agent.pids();
    expect(await agent.kill("SIGTERM")).toBe(0);
    agent.want([]);
    agent.start();
    await expect.poll(() => agent.log().split("the agent serves").length, patient).toBeGreaterThan(2);
    await expect.poll(() => agent.log(), patient).toContain("found the model server of an earlier agent");
    expect(isAlive(pid as number)).toBe(true);
    await agent.kill("SIGTERM");
    expect(isAlive(pid as number)).toBe(true);
  });

  it("drains, stops and removes what a tombstone names", async () => {
    const spec = agent.spec();
    agent.want([spec]);
    agent.start();
    await untilServed(spec.instanceId as string);
    const [pid] = agent.pids();
    await agent.kill("SIGTERM");
    agent.want([], [spec.instanceId as string]);
    agent.start();
    await expect.poll(() => isAlive(pid as number), patient).toBe(false);
    await expect.poll(() => agent.pids(), patient).toEqual([]);
  });

  it.runIf(isNightly)("takes its model servers along when told to, on SIGTERM", async () => {
    const spec = agent.spec();
    agent.want([spec]);
    agent.start({ STOKER_STOP_INSTANCES: "1" });
    await untilServed(spec.instanceId as string);
    const [pid] = agent.pids();
    expect(await agent.kill("SIGTERM")).toBe(0);
    expect(isAlive(pid as number)).toBe(false);
  });

  it("takes its model servers along when its supervisor is gone, and brings them back at the next start", async () => {
    const spec = agent.spec();
    agent.want([spec]);
    agent.start({ STOKER_STOP_INSTANCES: "1", STOKER_STOP_WITH_PARENT: "1" });
    await untilServed(spec.instanceId as string);
    const [pid] = agent.pids();
    expect(await agent.orphan()).toBe(0);
    expect(isAlive(pid as number)).toBe(false);
    agent.start();
    const startedMs = performance.now();
    const answer = await untilServed(spec.instanceId as string);
    expect(answer?.body.pid).not.toBe(pid);
    // A stop that was asked for is no crash: no back-off.
    expect(agent.log()).not.toContain("instance will be tried again");
    expect(performance.now() - startedMs).toBeLessThan(40_000);
  });

  it.runIf(isNightly)("serves a scrape with the phase of its instances", async () => {
    const spec = agent.spec();
    agent.want([spec]);
    agent.start();
    await untilServed(spec.instanceId as string);
    const page = await (await fetch(`http://127.0.0.1:${agent.ports().metrics_port}/metrics`)).text();
    expect(page).toContain(`instance_id="${spec.instanceId}",state="ready"} 1`);
    expect(page).toContain('stoker_agent_info{version="');
    expect(page).toContain("stoker_agent_spool_records");
  });
});
