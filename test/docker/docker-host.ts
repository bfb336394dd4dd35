// A real engine and the images the docker suite runs. Where there is none and none can be started, the suite says loudly
// what was not proven. Images are built from a base made on this machine: no registry is asked.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { pino } from "pino";
import { inject } from "vitest";
import { DockerDriver, type DockerDriverOptions } from "../../agent/docker/docker-driver.ts";
import type { ContainerDriver } from "../../agent/reconcile/driver.ts";
import { oncePerRun } from "./once.ts";
import { importTinyImage } from "./tiny-image.ts";

const root = join(import.meta.dirname, "../..");
const run = promisify(execFile);
/** A busy machine takes long to build all stages from nothing. */
export const buildLimitMs = 29 * 60_000;
/** Apart from what a user of this machine has built. */
export const runtimeImage = "stoker-runtime:test";
export const agentImage = "stoker-agent:test";
export const controlPlaneImage = "stoker-control-plane:test";
/** Of scripts/runtime-image.sh. */
export const baseImage = "localhost/stoker-base:bookworm";
export const tinyImage = "stoker-tiny-runtime:test";
/** Of the files that run beside each other, from 0 on: each has its own share of what an engine has once. */
export const lane = (Number(process.env["VITEST_POOL_ID"] ?? 1) - 1) % 4;
/** `subnetOf(233)` and the like: networks of a Stoker that runs here do not meet the tests', nor those of two files. */
export const subnetOf = (second: number): string => `10.${second}.${lane * 16}.0/20`;
export const testSubnet = subnetOf(233);

/** Of Dockerfile.gpu; `base`: what the others are built on. */
type ImageTarget = "runtime" | "agent" | "control-plane" | "base";

export type DockerHost = { readonly ok: true } | { readonly ok: false; readonly reason: string };

/** Answers once the images are there, which the first file that wants them makes; engine: global-setup.ts. */
export async function dockerHost(notProven: string, images: readonly ImageTarget[] = ["runtime"]): Promise<DockerHost> {
  const { whyNoEngine } = inject("dockerRun");
  if (whyNoEngine !== "") return loudly(whyNoEngine, notProven);
  try {
    // One after the other, everywhere in one order: the second builds on what the first one has fetched.
    for (const image of images) await oncePerRun(image, () => buildImage(image));
    return { ok: true };
  } catch (error) {
    const { stderr, message } = error as { stderr?: string; message: string };
    // A build that can run here and fails is a failure, not a reason to skip.
    if (!/needs root|debootstrap is missing|docker command is missing/.test(stderr ?? "")) throw error;
    return loudly(stderr?.trim() ?? message, notProven);
  }
}

/** The same without the runtime's image: for what only wants the tiny stand-in. */
export async function tinyHost(notProven: string): Promise<DockerHost> {
  const { whyNoEngine } = inject("dockerRun");
  if (whyNoEngine !== "") return loudly(whyNoEngine, notProven);
  await oncePerRun("tiny", async () => importTinyImage(tinyImage));
  return { ok: true };
}

/** A target of Dockerfile.gpu on a base made on this machine. */
async function buildImage(target: ImageTarget): Promise<void> {
  const args = [
    "--target",
    target,
    "--base",
    "debootstrap",
    "--tag",
    `stoker-${target}:test`,
    "--runtime",
    runtimeImage,
  ];
  const limits = { maxBuffer: 64 * 1024 * 1024, timeout: buildLimitMs };
  await run("sh", [join(root, "scripts/runtime-image.sh"), ...args], limits);
}

export function testDriver(nodeName: string, more: Partial<DockerDriverOptions> = {}): ContainerDriver {
  const log = pino({ level: "silent" });
  return new DockerDriver({ log, nodeName, runtimeImage, containerSubnet: testSubnet, ...more });
}

/** The docker command; answers with its standard output. */
export async function docker(...args: string[]): Promise<string> {
  return (await run("docker", args, { timeout: 60_000 })).stdout.trim();
}

/** Node inside a running container, as its own user; answers with what it prints. */
export function inside(container: string, script: string): Promise<string> {
  return docker("exec", container, "node", "--input-type=module", "-e", script);
}

/** Everything a node's driver may have left, in the engine; a node by the `host_id` of its agent.json. */
export async function leftOf(nodeName: string): Promise<string[]> {
  const filter = `label=stoker.node=${nodeName}`;
  const containers = await docker("ps", "-aq", "--filter", filter);
  const networks = await docker("network", "ls", "-q", "--filter", filter);
  return `${containers}\n${networks}`.split("\n").filter((line) => line !== "");
}

/** Names of the volumes that containers of the node have mounted. */
export async function volumesOf(nodeName: string): Promise<string[]> {
  const containers = (await docker("ps", "-aq", "--filter", `label=stoker.node=${nodeName}`))
    .split("\n")
    .filter(Boolean);
  if (containers.length === 0) return [];
  const names = '{{range .Mounts}}{{if eq .Type "volume"}}{{println .Name}}{{end}}{{end}}';
  return (await docker("inspect", "--format", names, ...containers)).split("\n").filter(Boolean);
}

/** Those of the volumes that are there. Of a node's own: files that run beside each other have volumes on one engine. */
export async function stillThere(volumes: readonly string[]): Promise<string[]> {
  const all = new Set((await docker("volume", "ls", "-q")).split("\n"));
  return volumes.filter((name) => all.has(name));
}

export async function clear(nodeName: string): Promise<void> {
  const filter = `label=stoker.node=${nodeName}`;
  const containers = (await docker("ps", "-aq", "--filter", filter)).split("\n").filter(Boolean);
  if (containers.length > 0) await docker("rm", "-f", ...containers);
  const networks = (await docker("network", "ls", "-q", "--filter", filter)).split("\n").filter(Boolean);
  if (networks.length > 0) await docker("network", "rm", ...networks);
}

export function loudly(reason: string, notProven: string): DockerHost {
  console.warn(`\n*** NOT PROVEN on a real Docker engine: ${notProven}\n*** because ${reason}\n`);
  return { ok: false, reason };
}
