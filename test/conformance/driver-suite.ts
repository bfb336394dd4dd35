// What every ContainerDriver promises. A driver brings a maker of drivers over one and the same host state, so that a
// second object can stand for the next life of the agent.
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { ContainerDriver, ContainerPlan, LogRange, Observed } from "../../agent/reconcile/driver.ts";
import { authorizationFor, type EngineAddress } from "../../proto/bearer-secret.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import { randomId } from "../../proto/ids.ts";

/** What the stand-in of a model server does besides serving; see test/fakes/tiny-runtime.ts. */
export interface Behaviour {
  readonly lines?: readonly string[];
  readonly exitCode?: number;
  readonly exitAfterMs?: number;
  readonly holdBytes?: number;
  readonly ignoreTerm?: boolean;
  readonly hasChild?: boolean;
}

export interface DriverHost {
  /** A driver over this host; made again it stands for a restarted agent. */
  open(): Promise<ContainerDriver>;
  /** A plan that runs the tiny runtime with this behaviour. `memoryBytes` 0: no limit. */
  plan(
    named: { readonly instanceId: InstanceId; readonly deployId: DeploymentId; readonly generation: number },
    behaviour: Behaviour,
    memoryBytes: number,
  ): ContainerPlan;
  /** On this host, of the instance's own process. */
  pidOf(id: InstanceId): Promise<number>;
  /** Ends what a failed test left. */
  clean(): Promise<void>;
}

const signal = () => AbortSignal.timeout(60_000);
const patient = { timeout: 45_000, interval: 100 };

export function driverConformance(name: string, makeHost: () => Promise<DriverHost>): void {
  describe(`${name} driver`, () => {
    let host: DriverHost;
    let driver: ContainerDriver;
    const opened: ContainerDriver[] = [];
    const started: InstanceId[] = [];

    const open = async () => {
      const one = await host.open();
      opened.push(one);
      return one;
    };
    beforeAll(async () => {
      host = await makeHost();
      driver = await open();
    });
    afterEach(async () => {
      for (const id of started.splice(0)) {
        await driver.stop(id, 0, signal());
        await driver.remove(id, signal());
      }
    });
    afterAll(async () => {
      for (const one of opened) await one.close();
      await host?.clean();
    });

    const named = (generation = 1) => {
      const instanceId = randomId<"instance">(16);
      started.push(instanceId);
      return { instanceId, deployId: randomId<"deployment">(16), generation };
    };
    const find = async (id: InstanceId, by = driver): Promise<Observed | undefined> =>
      (await by.list(signal())).find((one) => one.instanceId === id);
    const untilState = <State extends Observed["state"]>(id: InstanceId, state: State, by = driver) =>
      vi.waitFor(async () => {
        const seen = await find(id, by);
        expect(seen?.state).toBe(state);
        return seen as Extract<Observed, { state: State }>;
      }, patient);
    const run = async (behaviour: Behaviour = {}, memoryBytes = 0) => {
      const plan = host.plan(named(), behaviour, memoryBytes);
      await driver.start(plan, signal());
      return plan;
    };
    const ask = (engine: EngineAddress, path: string) =>
      fetch(engine.origin + path, { headers: authorizationFor(engine), signal: signal() });
    const health = async (engine: EngineAddress) =>
      (await (await ask(engine, "/health")).json()) as { instance_id: string };

    it("starts an instance that answers under its own id at the origin it reports", async () => {
      const plan = await run();
      const seen = await untilState(plan.instanceId, "running");
      expect(seen).toMatchObject({ deployId: plan.deployId, generation: 1 });
      await vi.waitFor(async () => expect((await health(seen)).instance_id).toBe(plan.instanceId), patient);
      expect(Math.abs(Date.now() - seen.startedAtMs)).toBeLessThan(60_000);
    });

    it("takes a second start of what runs as done", async () => {
      const plan = await run();
      const first = await untilState(plan.instanceId, "running");
      await driver.start(plan, signal());
      const second = await untilState(plan.instanceId, "running");
      expect(second.identity).toBe(first.identity);
      expect((await driver.list(signal())).filter((one) => one.instanceId === plan.instanceId)).toHaveLength(1);
    });

    it("calls back with the exit code when an instance ends by itself", async () => {
      let calls = 0;
      driver.watch(() => calls++);
      const plan = await run({ exitCode: 3, exitAfterMs: 50 });
      const seen = await untilState(plan.instanceId, "exited");
      expect(seen).toMatchObject({ exitCode: 3, oomKilled: false });
      await vi.waitFor(() => expect(calls).toBeGreaterThan(0), patient);
    });

    it("starts an exited instance again as something new", async () => {
      const plan = await run({ exitCode: 1 });
      const ended = await untilState(plan.instanceId, "exited");
      await driver.start({ ...plan, env: host.plan(plan, {}, 0).env }, signal());
      const again = await vi.waitFor(async () => {
        const seen = await find(plan.instanceId);
        expect(seen && seen.identity !== ended.identity).toBe(true);
        return seen;
      }, patient);
      expect(again?.identity).not.toBe(ended.identity);
    });

    it("ends an instance by SIGTERM within its grace, with exit code 0, and keeps the record", async () => {
      const plan = await run();
      await untilState(plan.instanceId, "running");
      await driver.stop(plan.instanceId, 20_000, signal());
      expect(await find(plan.instanceId)).toMatchObject({ state: "exited", exitCode: 0 });
    });

    it("ends an instance that ignores SIGTERM when the grace is over", async () => {
      const plan = await run({ ignoreTerm: true });
      await untilState(plan.instanceId, "running");
      await driver.stop(plan.instanceId, 1_000, signal());
      const seen = await find(plan.instanceId);
      expect(seen).toMatchObject({ state: "exited", oomKilled: false });
    });

    it("reports the signal that killed an instance, and that memory was not the cause", async () => {
      const plan = await run();
      await untilState(plan.instanceId, "running");
      process.kill(await host.pidOf(plan.instanceId), "SIGKILL");
      const seen = await untilState(plan.instanceId, "exited");
      expect(seen).toMatchObject({ signal: "SIGKILL", exitCode: undefined, oomKilled: false });
      expect(Math.abs(Date.now() - seen.finishedAtMs)).toBeLessThan(60_000);
    });

    it("lets no child of an instance outlive it, however it ended", async () => {
      for (const end of ["stop", "kill"] as const) {
        const plan = await run({ hasChild: true });
        const engine = await untilState(plan.instanceId, "running");
        const count = () => pidsWith(plan.instanceId).length;
        await vi.waitFor(
          async () => expect((await (await ask(engine, "/child")).json()).pid).toBeGreaterThan(0),
          patient,
        );
        expect(count()).toBeGreaterThanOrEqual(2);
        if (end === "stop") await driver.stop(plan.instanceId, 10_000, signal());
        else process.kill(await host.pidOf(plan.instanceId), "SIGKILL");
        await untilState(plan.instanceId, "exited");
        await vi.waitFor(() => expect(count()).toBe(0), patient);
      }
    });

    it("makes one instance of starts that come together", async () => {
      const plan = host.plan(named(), {}, 0);
      await Promise.allSettled([1, 2, 3].map(() => driver.start(plan, signal())));
      await untilState(plan.instanceId, "running");
      expect((await driver.list(signal())).filter((one) => one.instanceId === plan.instanceId)).toHaveLength(1);
      expect(pidsWith(plan.instanceId)).toHaveLength(1);
    });

    it("comes to one clear end when starts, stops and removals meet, and can be started afterwards", async () => {
      const plan = host.plan(named(), {}, 0);
      await Promise.allSettled([
        driver.start(plan, signal()),
        driver.stop(plan.instanceId, 500, signal()),
        driver.start(plan, signal()),
        driver.remove(plan.instanceId, signal()),
        driver.stop(plan.instanceId, 0, signal()),
      ]);
      await driver.stop(plan.instanceId, 0, signal());
      await driver.remove(plan.instanceId, signal());
      expect(await find(plan.instanceId)).toBeUndefined();
      await vi.waitFor(() => expect(pidsWith(plan.instanceId)).toEqual([]), patient);
      await driver.start(plan, signal());
      await untilState(plan.instanceId, "running");
    });

    it("takes a second stop and a second removal as done, and removes also what still runs", async () => {
      const plan = await run();
      await untilState(plan.instanceId, "running");
      for (let i = 0; i < 2; i++) await driver.stop(plan.instanceId, 5_000, signal());
      const again = await run();
      await untilState(again.instanceId, "running");
      for (let i = 0; i < 2; i++) await driver.remove(again.instanceId, signal());
      expect(await find(again.instanceId)).toBeUndefined();
      await vi.waitFor(() => expect(pidsWith(again.instanceId)).toEqual([]), patient);
    });

    it("gives up a wait that its caller gave up", async () => {
      const plan = await run({ ignoreTerm: true });
      await untilState(plan.instanceId, "running");
      const beganMs = performance.now();
      await expect(driver.stop(plan.instanceId, 30_000, AbortSignal.timeout(300))).rejects.toThrow();
      expect(performance.now() - beganMs).toBeLessThan(15_000);
    });

    it("has nothing to do for an instance it does not know", async () => {
      const nobody = randomId<"instance">(16);
      await driver.stop(nobody, 100, signal());
      await driver.remove(nobody, signal());
      expect(await driver.logs(nobody, { limit: 10 }, signal())).toEqual([]);
    });

    it("forgets a removed instance, its logs included", async () => {
      const plan = await run({ exitCode: 0 });
      await untilState(plan.instanceId, "exited");
      await driver.remove(plan.instanceId, signal());
      expect(await find(plan.instanceId)).toBeUndefined();
      expect(await driver.logs(plan.instanceId, { limit: 10 }, signal())).toEqual([]);
    });

    it("says so when an instance was ended for its memory", async () => {
      const plan = await run({ holdBytes: 700e6 }, 128 * 1024 * 1024);
      expect(await untilState(plan.instanceId, "exited")).toMatchObject({ oomKilled: true });
    });

    it("serves logs in order, without secrets, the last ones first to stay", async () => {
      const secret = `stk_${"a1B2".repeat(10)}`;
      const lines = ["first line", `key ${secret} and Bearer abc.def.ghi`, "third line", "last line"];
      const plan = await run({ lines });
      await untilState(plan.instanceId, "running");
      const all = await vi.waitFor(async () => {
        const found = await driver.logs(plan.instanceId, { limit: 100 }, signal());
        expect(found.map((one) => one.line)).toContain("last line");
        return found;
      }, patient);
      const text = all.map((one) => one.line).join("\n");
      expect(text).toContain("first line");
      expect(text).not.toContain(secret);
      expect(text).not.toContain("abc.def.ghi");
      expect(all.map((one) => one.at)).toEqual([...all.map((one) => one.at)].sort());
      expect(all.every((one) => /^\d{9,}\.\d{9}$/.test(one.at))).toBe(true);
      const two = await driver.logs(plan.instanceId, { limit: 2 }, signal());
      expect(two).toEqual(all.slice(-2));
    });

    it("serves only the lines of the time asked for", async () => {
      const plan = await run({ lines: ["some line"] });
      await untilState(plan.instanceId, "running");
      await vi.waitFor(
        async () => expect(await driver.logs(plan.instanceId, { limit: 10 }, signal())).not.toEqual([]),
        patient,
      );
      const later = { fromMs: Date.now() + 60_000, limit: 10 };
      const earlier = { fromMs: 0, toMs: Date.now() - 600_000, limit: 10 };
      expect(await driver.logs(plan.instanceId, later, signal())).toEqual([]);
      expect(await driver.logs(plan.instanceId, earlier, signal())).toEqual([]);
    });

    it("serves the first lines since a moment, and no more than asked for", async () => {
      const lines = Array.from({ length: 30 }, (_, i) => `line ${i}.`);
      const plan = await run({ lines });
      await untilState(plan.instanceId, "running");
      const read = (range: LogRange) => driver.logs(plan.instanceId, range, signal());
      await vi.waitFor(
        async () => expect((await read({ limit: 100 })).map(({ line }) => line)).toContain("line 29."),
        patient,
      );
      const all = await read({ limit: 100 });
      expect(await read({ fromMs: 0, limit: 5 })).toEqual(all.slice(0, 5));
      expect(await read({ fromMs: 0, toMs: Date.now() + 60_000, limit: 5 })).toEqual(all.slice(-5));
      expect(await read({ limit: 0 })).toEqual([]);
    });

    it("serves the lines of an earlier start once: a reader that continues after them gets only new ones", async () => {
      const plan = await run({ lines: ["its first life"], exitCode: 1 });
      await untilState(plan.instanceId, "exited");
      const before = await driver.logs(plan.instanceId, { limit: 100 }, signal());
      const lastAt = before.at(-1)?.at ?? "";
      expect(before.map(({ line }) => line)).toContain("its first life");
      await driver.start(host.plan({ ...plan, generation: 2 }, { lines: ["its second life"] }, 0), signal());
      await untilState(plan.instanceId, "running");
      await vi.waitFor(async () => {
        const range = { fromMs: Math.floor(Number(lastAt) * 1000), fromAt: lastAt, limit: 100 };
        const since = await driver.logs(plan.instanceId, range, signal());
        const lines = since.filter(({ at }) => at > lastAt).map(({ line }) => line);
        expect(lines).toContain("its second life");
        expect(lines).not.toContain("its first life");
      }, patient);
    });

    it("keeps how an instance ended for the next agent", async () => {
      const plan = await run({ exitCode: 7, lines: ["its last words"] });
      const before = await untilState(plan.instanceId, "exited");
      await driver.close();
      driver = await open();
      expect(await find(plan.instanceId)).toEqual(before);
      expect(before).toMatchObject({ exitCode: 7 });
      const kept = await driver.logs(plan.instanceId, { limit: 100 }, signal());
      expect(kept.map(({ line }) => line)).toContain("its last words");
    });

    it("finds what an earlier agent started, as the same thing, and can end it", async () => {
      const plan = await run();
      const before = await untilState(plan.instanceId, "running");
      await driver.close();
      const next = await open();
      driver = next;
      const after = await untilState(plan.instanceId, "running", next);
      expect(after).toEqual(before);
      await next.start(plan, signal());
      expect((await find(plan.instanceId, next))?.identity).toBe(before.identity);
      await next.stop(plan.instanceId, 10_000, signal());
      expect((await find(plan.instanceId, next))?.state).toBe("exited");
    });
  });
}

/** Pids on this host of what runs with the instance's id in its environment: the server and all it started. */
function pidsWith(id: InstanceId): readonly number[] {
  const mark = `STOKER_INSTANCE_ID=${id}`;
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const isDead = /^State:\s+[ZX]/m.test(readFileSync(`/proc/${name}/status`, "utf8"));
      const isOurs = readFileSync(`/proc/${name}/environ`, "utf8").split("\0").includes(mark);
      return isOurs && !isDead ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}
