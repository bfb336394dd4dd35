// What a container may do, seen from inside of it, on a real engine.
import { execFile } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { modelBridgePrefix } from "../../agent/docker/bridge-network.ts";
import { createFirewall } from "../../agent/docker/firewall.ts";
import { modelRules } from "../../agent/docker/model-firewall.ts";
import type { ContainerDriver, ContainerPlan, Observed } from "../../agent/reconcile/driver.ts";
import { type LocalAgent, makeLocalAgent } from "../fakes/local-agent.ts";
import { clear, docker, inside, leftOf, testDriver, testSubnet, tinyHost, tinyImage } from "./docker-host.ts";
import { tinyPlan } from "./tiny-plan.ts";

const host = await tinyHost(
  "that a container has no way out, none to its host's services, no port on the host, no root and no writable file system",
);
const nodeName = `isolation-${process.pid}`;
const signal = (): AbortSignal => AbortSignal.timeout(60_000);
const run = promisify(execFile);
const ownRules = new RegExp([...modelRules(nodeName).v4.chains, modelBridgePrefix(nodeName)].join("|"));
const rules = async () => (await run("iptables-save")).stdout + (await run("ip6tables-save")).stdout;

const plans: ContainerPlan[] = [tinyPlan(), tinyPlan()];

describe.skipIf(!host.ok)("a container", () => {
  let driver: ContainerDriver;
  const name = (index = 0): string => `stoker-${plans[index]?.instanceId}-g1`;
  const origins: string[] = [];

  beforeAll(async () => {
    driver = testDriver(nodeName);
    for (const plan of plans) await driver.start(plan, signal());
    for (const plan of plans) origins.push(await originOf(driver, plan));
  });
  afterAll(async () => {
    await driver?.close();
    if (!host.ok) return;
    await clear(nodeName);
    await createFirewall(modelRules(nodeName)).remove();
  });

  it("responds to this host at its own address, and has no port on the host", async () => {
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
    const found = await reachable([
      { host: "1.1.1.1", port: 443 },
      { host: "169.254.169.254", port: 80 },
      { host: neighbour.hostname, port: Number(neighbour.port) },
    ]);
    expect(found).toEqual([]);
    const script = `
      import { lookup } from "node:dns/promises";
      const name = await Promise.race([
        lookup("example.com").then(() => "resolved", (error) => error.code),
        new Promise((resolve) => setTimeout(resolve, 15000, "no answer")),
      ]);
      console.log(name);
      process.exit(0);`;
    expect(await inside(name(), script)).not.toBe("resolved");
  });

  it("reaches no service of its host by any of the host's addresses, also after the rules were removed and the agent restarted", async () => {
    const listener = createServer((socket) => void socket.on("error", () => {}).end()).listen(0, "::");
    await once(listener, "listening");
    const { port } = listener.address() as AddressInfo;
    try {
      const addresses: { readonly host: string; readonly port: number }[] = [];
      for (const host of ownAddresses()) {
        const isReached = await reaches({ host, port });
        // Networks of a file that runs beside this one come and go.
        if (!isReached && !ownAddresses().includes(host)) continue;
        expect(isReached, host).toBe(true);
        addresses.push({ host, port });
      }
      const gateway = gatewayOf(origins[0]);
      expect(addresses).toContainEqual({ host: gateway, port });
      expect(addresses).toContainEqual({ host: gatewayOf(origins[1]), port });
      expect(await reachable(addresses)).toEqual([]);

      await driver.close();
      await createFirewall(modelRules(nodeName)).remove();
      expect(await reachable([{ host: gateway, port }])).toEqual([gateway]);
      driver = testDriver(nodeName);
      await driver.list(signal());
      expect(await reachable(addresses)).toEqual([]);
      expect((await fetch(`${origins[0]}/health`, { signal: signal() })).status).toBe(200);
    } finally {
      listener.close();
    }
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

  it("leaves no container, network or firewall rule behind", async () => {
    expect(await rules()).toMatch(ownRules);
    for (const { instanceId } of plans) {
      await driver.stop(instanceId, 0, signal());
      await driver.remove(instanceId, signal());
    }
    expect(await leftOf(nodeName)).toEqual([]);
    expect(await rules()).not.toMatch(ownRules);
  });
});

describe.skipIf(!host.ok)("an agent that may set no rules", () => {
  let agent: LocalAgent;
  let id = "";
  const begin = (more: Record<string, string> = {}) => {
    agent = makeLocalAgent();
    const spec = agent.spec();
    id = spec.instanceId as string;
    agent.want([spec]);
    const docker = { STOKER_DRIVER: "docker", STOKER_RUNTIME_IMAGE: tinyImage, STOKER_CONTAINER_SUBNET: testSubnet };
    // No iptables is found there, as on a host without it.
    agent.start({ ...docker, PATH: agent.folder, ...more });
  };
  afterEach(async ({ task }) => {
    if (task.result?.state === "fail") process.stderr.write(agent.log());
    await agent.kill("SIGKILL");
    const filter = `label=stoker.instance=${id}`;
    for (const [list, end] of [
      ["ps -aq", "rm -f"],
      ["network ls -q", "network rm"],
    ] as const) {
      const found = await docker(...list.split(" "), "--filter", filter);
      if (found !== "") await docker(...end.split(" "), ...found.split("\n"));
    }
    await agent.clean();
  });
  const warned = () =>
    agent
      .log()
      .split("\n")
      .filter((line) => line.includes("iptables cannot be used here"));

  it("reports it once in its log and in the inspection, and serves", async () => {
    begin();
    await vi.waitFor(async () => expect((await agent.complete(id))?.status).toBe(200), { timeout: 60_000 });
    expect(warned()).toHaveLength(1);
    const page = await fetch(`http://127.0.0.1:${agent.ports().metrics_port}/inspect`, { signal: signal() });
    expect(await page.text()).toContain("model containers can reach services of this host");
  });

  it("starts nothing where its operator requires them", async () => {
    begin({ STOKER_CONTAINER_FIREWALL: "required" });
    await vi.waitFor(() => expect(agent.log()).toContain("so no container is started."), { timeout: 60_000 });
    expect(warned()[0]).toContain("STOKER_CONTAINER_FIREWALL=required");
    expect(await docker("ps", "-aq", "--filter", `label=stoker.instance=${id}`)).toBe("");
  });
});

/** Of this host, other than the loopback's. */
function ownAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .filter(({ family, internal }) => family === "IPv4" && !internal)
    .map(({ address }) => address);
}

/** From this host. */
async function reaches(target: { readonly host: string; readonly port: number }): Promise<boolean> {
  const socket = connect(target).resume();
  try {
    await once(socket, "end", { signal: AbortSignal.timeout(10_000) });
    return true;
  } catch {
    return false;
  } finally {
    socket.on("error", () => {}).destroy();
  }
}

/** Which of these a connection from inside the first container reaches. */
async function reachable(targets: readonly { readonly host: string; readonly port: number }[]): Promise<string[]> {
  const script = `
    import { connect } from "node:net";
    const isOpen = ({ host, port }) => new Promise((resolve) => {
      const socket = connect({ host, port, timeout: 8000 });
      const end = (how) => { socket.destroy(); resolve(how); };
      socket.once("connect", () => end(true)).once("timeout", () => end(false)).once("error", () => end(false));
    });
    const targets = ${JSON.stringify(targets)};
    const found = await Promise.all(targets.map(isOpen));
    console.log(JSON.stringify(targets.filter((_, index) => found[index]).map(({ host }) => host)));
    process.exit(0);`;
  return JSON.parse(await inside(`stoker-${plans[0]?.instanceId}-g1`, script));
}

function gatewayOf(origin = ""): string {
  return new URL(origin).hostname.replace(/\d+$/, (last) => String(Number(last) - (Number(last) % 16) + 1));
}

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
