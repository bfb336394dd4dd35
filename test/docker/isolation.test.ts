// What a container may do, seen from inside of it, on a real engine.
import { networkInterfaces } from "node:os";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { ContainerDriver, ContainerPlan, Observed } from "../../agent/reconcile/driver.ts";
import { clear, docker, inside, testDriver, tinyHost } from "./docker-host.ts";
import { tinyPlan } from "./tiny-plan.ts";

const host = await tinyHost(
  "that a container has no way out, no port on the host, no root and no writable file system",
);
const nodeName = `isolation-${process.pid}`;
const signal = (): AbortSignal => AbortSignal.timeout(60_000);

describe.skipIf(!host.ok)("a container", () => {
  let driver: ContainerDriver;
  const plans: ContainerPlan[] = [tinyPlan(), tinyPlan()];
  const name = (index = 0): string => `stoker-${plans[index]?.instanceId}-g1`;
  const origins: string[] = [];

  beforeAll(async () => {
    driver = testDriver(nodeName);
    for (const plan of plans) await driver.start(plan, signal());
    for (const plan of plans) origins.push(await originOf(driver, plan));
  });
  afterAll(async () => {
    await driver?.close();
    if (host.ok) await clear(nodeName);
  });

  it("answers this host at its own address, and has no port on the host", async () => {
    for (const [index, origin] of origins.entries()) {
      const health = await vi.waitFor(() => fetch(`${origin}/health`, { signal: signal() }), { timeout: 30_000 });
      expect(await health.json()).toMatchObject({ instance_id: plans[index]?.instanceId });
      expect(await docker("port", name(index))).toBe("");
    }
    const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    expect(own.map(({ address }) => address)).not.toContain(new URL(origins[0] ?? "").hostname);
  });

  it("reaches no address outside, no metadata service, no neighbour, and resolves no name", async () => {
    const neighbour = new URL(origins[1] ?? "");
    const targets = [
      { host: "1.1.1.1", port: 443 },
      { host: "169.254.169.254", port: 80 },
      { host: neighbour.hostname, port: Number(neighbour.port) },
    ];
    const script = `
      import { connect } from "node:net";
      import { lookup } from "node:dns/promises";
      const open = ({ host, port }) => new Promise((resolve) => {
        const socket = connect({ host, port, timeout: 3000 });
        const end = (how) => { socket.destroy(); resolve(how); };
        socket.once("connect", () => end("connected")).once("timeout", () => end("no answer")).once("error", (e) => end(e.code));
      });
      const found = await Promise.all(${JSON.stringify(targets)}.map(open));
      const name = await Promise.race([
        lookup("example.com").then(() => "resolved", (error) => error.code),
        new Promise((resolve) => setTimeout(resolve, 15000, "no answer")),
      ]);
      console.log(JSON.stringify({ found, name }));
      process.exit(0);`;
    const { found, name: resolved } = JSON.parse(await inside(name(), script)) as { found: string[]; name: string };
    expect(found).toHaveLength(3);
    for (const how of [...found, resolved]) expect(["connected", "resolved"]).not.toContain(how);
  });

  it("is no root, gains no privilege, and writes nowhere but in /tmp", async () => {
    const script = `
      import { readFileSync, writeFileSync } from "node:fs";
      const attempt = (path) => { try { writeFileSync(path, "x"); return "written"; } catch (error) { return error.code; } };
      const status = readFileSync("/proc/self/status", "utf8");
      const field = (key) => new RegExp(key + ":\\\\s*(\\\\S+)").exec(status)[1];
      console.log(JSON.stringify({
        uid: process.getuid(), gid: process.getgid(), bounding: field("CapBnd"), noNewPrivileges: field("NoNewPrivs"),
        root: attempt("/x"), app: attempt("/app/x"), tmp: attempt("/tmp/x"),
      }));`;
    expect(JSON.parse(await inside(name(), script))).toEqual({
      uid: 2000,
      gid: 0,
      bounding: "0000000000000000",
      noNewPrivileges: "1",
      root: "EROFS",
      app: "EROFS",
      tmp: "written",
    });
  });

  it("has the memory, processor and process limits it was granted", async () => {
    const fields =
      "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.CpuQuota}} {{.HostConfig.PidsLimit}}";
    const memory = 256 * 1024 * 1024;
    expect(await docker("inspect", "--format", fields, name())).toBe(`${memory} ${memory} 100000 4096`);
  });
});

async function originOf(driver: ContainerDriver, plan: ContainerPlan): Promise<string> {
  return vi.waitFor(
    async () => {
      const seen: Observed | undefined = (await driver.list(signal())).find(
        (one) => one.instanceId === plan.instanceId,
      );
      if (seen?.state !== "running") throw new Error(`it is ${seen?.state}`);
      return seen.origin;
    },
    { timeout: 30_000 },
  );
}
