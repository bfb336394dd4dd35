import { createServer } from "node:net";
import type Docker from "dockerode";
import { pino } from "pino";
import { expect, it } from "vitest";
import { containerLabels } from "../../../../agent/docker/labels.ts";
import { sshPortLabel } from "../../../../agent/docker/rental-config.ts";
import { rentalProfile } from "../../../../agent/docker/rental-profile.ts";
import type { ContainerPlan } from "../../../../agent/reconcile/driver.ts";

const nodeName = "host-1-rentals";
const ports = { first: 23_700, last: 23_709 };
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

async function portOf(instanceId: string, containers: readonly object[]): Promise<number> {
  const profile = rentalProfile({
    nodeName,
    subnet: "10.234.0.0/20",
    ports,
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

it("a rental made anew keeps its port, and nobody gets one that a neighbour has", async () => {
  const first = await portOf("mine", []);
  expect(await portOf("mine", [containerOf("mine", first)])).toBe(first);
  expect(await portOf("mine", [containerOf("mine", 23_708)])).toBe(23_708);
  expect(await portOf("mine", [containerOf("another", first)])).not.toBe(first);
});

it("a rental made anew gets another port where somebody listens on the one it had", async () => {
  const server = createServer().listen(23_708, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  try {
    expect(await portOf("mine", [containerOf("mine", 23_708)])).toBe(23_709);
  } finally {
    server.close();
  }
});
