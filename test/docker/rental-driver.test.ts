// A rented container on a real engine: who gets in, what it reaches, what is left of it.

import { execFile } from "node:child_process";
import { connect, createServer, type Server } from "node:net";
import { promisify } from "node:util";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { bridgePrefix } from "../../agent/docker/bridge-network.ts";
import { DockerDriver } from "../../agent/docker/docker-driver.ts";
import { createRentalFirewall, rulesFor } from "../../agent/docker/rental-firewall.ts";
import { rentalProfile } from "../../agent/docker/rental-profile.ts";
import type { ContainerDriver, ContainerPlan, Observed } from "../../agent/reconcile/driver.ts";
import { randomId } from "../../proto/ids.ts";
import { clear, docker, dockerHost, leftOf, stillThere, subnetOf, volumesOf } from "./docker-host.ts";
import { type Outside, startOutside } from "./outside.ts";
import { buildRentalImage, rentalImage } from "./rental-image.ts";
import { makeSshKey, reachScript, type SshKey } from "./ssh.ts";

const host = await dockerHost(
  "that a rented container is opened by its customer's key alone, reaches the internet and neither host nor neighbours, and leaves nothing",
);
if (host.ok) await buildRentalImage();
const nodeName = `rentals-${process.pid}`;
const signal = (): AbortSignal => AbortSignal.timeout(60_000);
const wait = { timeout: 60_000, interval: 200 };
const run = promisify(execFile);
const { chains } = rulesFor(nodeName).v4;
const ownRules = new RegExp([...chains, bridgePrefix(nodeName)].join("|"));
const rules = async () => (await run("iptables-save")).stdout + (await run("ip6tables-save")).stdout;

describe.skipIf(!host.ok)("a rented container", () => {
  const firewall = createRentalFirewall({ nodeName });
  const open = (): ContainerDriver =>
    new DockerDriver({
      log: pino({ level: "silent" }),
      nodeName,
      runtimeImage: "",
      profile: rentalProfile({
        nodeName,
        subnet: subnetOf(234),
        ports: { first: 13_000, last: 13_400 },
        bind: "0.0.0.0",
        address: "203.0.113.7",
        dns: ["203.0.113.2"],
        diskBytes: 0,
        firewall,
        log: pino({ level: "silent" }),
      }),
    });
  let driver: ContainerDriver;
  let key: SshKey;
  let outside: Outside;
  let listener: Server;

  beforeAll(async () => {
    key = await makeSshKey();
    outside = await startOutside();
    listener = createServer((socket) => socket.end("host"));
    await new Promise<void>((resolve) => listener.listen(0, "::", resolve));
    driver = open();
    for (const plan of [first, second]) await driver.start(plan(key), signal());
  }, 120_000);
  afterAll(async () => {
    await driver?.close();
    listener?.close();
    await outside?.close();
    key?.forget();
    if (!host.ok) return;
    await clear(nodeName);
    await firewall.remove();
  });

  const ids = [randomId<"instance">(16), randomId<"instance">(16)];
  const planOf =
    (index: number, firstStart: string) =>
    (own: SshKey): ContainerPlan => ({
      instanceId: ids[index] as ContainerPlan["instanceId"],
      deployId: `container-${index}` as ContainerPlan["deployId"],
      generation: 1,
      kind: "rental",
      image: rentalImage,
      args: [],
      env: {},
      mounts: [],
      port: 22,
      memoryBytes: 256 * 1024 * 1024,
      cpus: 1,
      gpuUuids: [],
      shmBytes: 64 * 1024 * 1024,
      rental: { sshKeys: [own.publicKey], firstStart },
    });
  const first = planOf(0, "#!/bin/bash\necho once >> /root/starts\nfalse");
  const second = planOf(1, "");

  const running = (index: number) =>
    vi.waitFor(async () => {
      const seen: Observed | undefined = (await driver.list(signal())).find((one) => one.instanceId === ids[index]);
      if (seen?.state !== "running" || !seen.ssh) throw new Error(`it is ${seen?.state}`);
      return { ...seen, ssh: seen.ssh };
    }, wait);

  it("is opened by its customer's key alone, as ubuntu, who may become root, with host keys of its own", async () => {
    const { ssh, origin } = await running(0);
    expect(ssh.address).toBe("203.0.113.7");
    expect(new URL(origin).protocol).toBe("ssh:");
    const who = await vi.waitFor(() => key.ssh(ssh.port, "id -un; sudo -n id -un"), wait);
    expect(who).toBe("ubuntu\nroot");
    const stranger = await makeSshKey();
    await expect(stranger.ssh(ssh.port, "true")).rejects.toThrow(/Permission denied/);
    stranger.forget();
    const print = "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub | cut -d' ' -f2";
    const other = await vi.waitFor(async () => key.ssh((await running(1)).ssh.port, print), wait);
    expect(other).toMatch(/^SHA256:/);
    expect(await key.ssh(ssh.port, print)).not.toBe(other);
  });

  it("reaches the internet, and neither host, agent, private networks, metadata, nor another rental by any of its addresses", async () => {
    const { ssh } = await running(0);
    const neighbour = await running(1);
    const own = new URL((await running(0)).origin).hostname;
    const gateway = own.replace(/\d+$/, (last) => String(Number(last) - (Number(last) % 16) + 1));
    const listening = (listener.address() as { port: number }).port;
    const asked = await key.ssh(
      ssh.port,
      reachScript({
        outside: [outside.address, outside.port],
        gateway: [gateway, listening],
        "host outside": [outside.host, listening],
        docker0: ["172.17.0.1", listening],
        metadata: ["169.254.169.254", 80],
        "private network": ["10.0.0.1", 80],
        neighbour: [new URL(neighbour.origin).hostname, 22],
        "published port": [outside.host, neighbour.ssh.port],
      }),
    );
    expect(asked.split("\n").sort()).toEqual([
      "docker0 closed",
      "gateway closed",
      "host outside closed",
      "metadata closed",
      "neighbour closed",
      "outside open",
      "private network closed",
      "published port closed",
    ]);
    // The listener is there: this host reaches it at the same addresses.
    await new Promise<void>((resolve, reject) => {
      connect({ host: outside.host, port: listening }).once("connect", resolve).once("error", reject);
    });
    const v6 = "ip -6 addr 2>/dev/null | grep -c inet6 || cat /proc/net/if_inet6 2>/dev/null | grep -vc ' lo$'";
    expect(await key.ssh(ssh.port, `(${v6}) || true`)).toMatch(/^0?$/m);
  });

  it("is kept apart also while the engine moves its own rules, as it does whenever it makes a network", async () => {
    const { ssh } = await running(0);
    const jump = ["FORWARD", "-j", "DOCKER-USER"];
    await vi.waitFor(() => run("iptables", ["-w", "5", "-D", ...jump]), wait);
    try {
      const asked = await key.ssh(ssh.port, reachScript({ "a private network": [outside.inside, outside.port] }));
      expect(asked).toBe("a private network closed");
    } finally {
      await run("iptables", ["-w", "5", "-I", ...jump]);
    }
    // It is there: this host reaches it.
    await new Promise<void>((resolve, reject) => {
      connect({ host: outside.inside, port: outside.port }).once("connect", resolve).once("error", reject);
    });
  });

  it("carries its first-start script out once, and says in its log how that ended", async () => {
    const { ssh } = await running(0);
    await vi.waitFor(async () => expect(await key.ssh(ssh.port, "sudo cat /root/starts")).toBe("once"), wait);
    const lines = async () => (await driver.logs(ids[0] as never, { limit: 100 }, signal())).map(({ line }) => line);
    await vi.waitFor(async () => {
      expect(await lines()).toContain("stoker: error: cloud_init_user_data ended with exit code 1");
    }, wait);
    await driver.stop(ids[0] as never, 5_000, signal());
    await driver.start(first(key), signal());
    const again = await running(0);
    expect(again.ssh.port).toBe(ssh.port);
    await vi.waitFor(async () => expect(await key.ssh(again.ssh.port, "sudo cat /root/starts")).toBe("once"), wait);
  });

  it("has its limits and none of our secrets, and no capability beyond administration", async () => {
    const { ssh } = await running(0);
    const { Memory, PidsLimit, Privileged, CapAdd, Binds } = JSON.parse(
      await docker("inspect", "--format", "{{json .HostConfig}}", `stoker-${ids[0]}-g1`),
    );
    expect({ Memory, PidsLimit, Privileged, Binds }).toEqual({
      Memory: 256 * 1024 * 1024,
      PidsLimit: 32_768,
      Privileged: false,
      Binds: null,
    });
    for (const one of ["SYS_ADMIN", "NET_ADMIN", "NET_RAW", "SYS_PTRACE", "MKNOD"]) expect(CapAdd).not.toContain(one);
    expect(await key.ssh(ssh.port, "env; sudo env")).not.toMatch(/STOKER/);
    await expect(key.ssh(ssh.port, "sudo mount -t tmpfs none /mnt")).rejects.toThrow(/permission denied/i);
  });

  it("is adopted by the next agent, which sets its rules again first", async () => {
    const before = await running(0);
    await driver.close();
    await firewall.remove();
    // The engine's own rules for living bridges stay.
    expect(await rules()).not.toContain(chains[0]);
    driver = open();
    expect(await running(0)).toEqual(before);
    for (const chain of chains) expect(await rules()).toContain(`-j ${chain}`);
  });

  it("leaves no container, network, volume or firewall rule behind", async () => {
    const volumes = await volumesOf(nodeName);
    for (const id of ids) {
      await driver.stop(id as never, 0, signal());
      await driver.remove(id as never, signal());
    }
    expect(await leftOf(nodeName)).toEqual([]);
    expect(await stillThere(volumes)).toEqual([]);
    expect(await rules()).not.toMatch(ownRules);
  });
});
