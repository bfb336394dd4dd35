import { createServer } from "node:net";
import type Docker from "dockerode";
import { pino } from "pino";
import { expect, it } from "vitest";
import { containerLabels } from "../../../../agent/docker/labels.ts";
import { sshPortLabel } from "../../../../agent/docker/rental-config.ts";
import { rentalProfile } from "../../../../agent/docker/rental-profile.ts";
import type { ContainerPlan } from "../../../../agent/reconcile/driver.ts";
import { freePort } from "../../../fakes/free-port.ts";

const nodeName = "host-1-rentals";
/** Ten, of which `free` is one that nobody has. */
const around = (free: number) => ({ first: free - 5, last: free + 4 });
const planOf = (instanceId: string): ContainerPlan => ({
  instanceId: instanceId as ContainerPlan["instanceId"],
  deployId: "rented" as ContainerPlan["deployId"],
  generation: 2,
  kind: "rental",
  image: "debian",
  args: [],
  env: {},
  mounts: [],
  port: 22,
  memoryBytes: 0,
  cpus: 0,
  gpuUuids: [],
  shmBytes: 0,
});
const containerOf = (instanceId: string, port: number) => ({
  Labels: { ...containerLabels(nodeName, { ...planOf(instanceId), generation: 1 }, "h"), [sshPortLabel]: `${port}` },
  Ports: [{ PublicPort: port }],
});

async function portOf(instanceId: string, containers: readonly object[], free: number): Promise<number> {
  const profile = rentalProfile({
    nodeName,
    subnet: "10.234.0.0/20",
    ports: around(free),
    bind: "127.0.0.1",
    address: "203.0.113.7",
    dns: [],
    diskBytes: 0,
    firewall: { whyNot: async () => undefined, apply: async () => {}, remove: async () => {} },
    log: pino({ level: "silent" }),
  });
  const docker = { listContainers: async () => containers } as unknown as Docker;
  const config = await profile.config(planOf(instanceId), docker, AbortSignal.timeout(5_000));
  return Number(config.Labels?.[sshPortLabel]);
}

it("keeps the port of a rental that is created again, and gives none the port of another", async () => {
  const free = await freePort();
  const first = await portOf("mine", [], free);
  expect(await portOf("mine", [containerOf("mine", first)], free)).toBe(first);
  expect(await portOf("mine", [containerOf("mine", free)], free)).toBe(free);
  expect(await portOf("mine", [containerOf("another", first)], free)).not.toBe(first);
});

it("gives a rental that is created again another port if its own is in use", async () => {
  const had = await freePort();
  const server = createServer().listen(had, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  try {
    const port = await portOf("mine", [containerOf("mine", had)], had);
    expect(port).not.toBe(had);
    expect(port).toBeGreaterThanOrEqual(around(had).first);
    expect(port).toBeLessThanOrEqual(around(had).last);
  } finally {
    server.close();
  }
});
