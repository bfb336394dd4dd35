// The stack of deploy/compose.yaml as a project of its own on the machine's engine, from images that are built here.
import { execFile } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort } from "../../fakes/free-port.ts";
import { agentImage, controlPlaneImage, docker, lane, subnetOf, tinyImage } from "../docker-host.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../../..");
const servicesImage = "stoker-compose-services:test";

/** The command of Docker Compose 2, or undefined: its plugin, or what scripts/go-tools.sh builds. */
export async function findCompose(): Promise<readonly [string, ...string[]] | undefined> {
  const built = join(root, ".cache/go-tools/docker-compose");
  const isPlugin = await run("docker", ["compose", "version"]).then(
    () => true,
    () => false,
  );
  if (isPlugin) return ["docker", "compose"];
  return existsSync(built) ? [built] : undefined;
}

export interface ComposeStack {
  readonly url: string;
  readonly prometheusUrl: string;
  compose(...args: string[]): Promise<string>;
  /** Pid of the program in the container of a service, on this host. */
  pidOf(service: string): Promise<number>;
  stop(): Promise<void>;
}

export async function startComposeStack(
  [command, ...first]: readonly [string, ...string[]],
  hubOrigin: string,
): Promise<ComposeStack> {
  await buildServices();
  const folder = mkdtempSync(join(tmpdir(), "stoker-compose-"));
  chmodSync(folder, 0o755);
  const network = subnetOf(238).replace("/20", "");
  const [api, rpc1, rpc2, prometheus] = [await freePort(), await freePort(), await freePort(), await freePort()];
  const env = {
    ...process.env,
    POSTGRES_PASSWORD: "only-for-this-test",
    DOCKER_GROUP: String(statSync("/var/run/docker.sock").gid),
    STOKER_LISTEN: `127.0.0.1:${api}`,
    STOKER_RPC_PORT_1: String(rpc1),
    STOKER_RPC_PORT_2: String(rpc2),
    PROMETHEUS_LISTEN: `127.0.0.1:${prometheus}`,
    STOKER_AGENT_DATA: join(folder, "agent"),
    STOKER_SUBNET: `${network}/24`,
    STOKER_GATEWAY: network.replace(/\d+$/, "1"),
    STOKER_CONTROL_PLANE_IMAGE: controlPlaneImage,
    STOKER_AGENT_IMAGE: agentImage,
    STOKER_RUNTIME_IMAGE: tinyImage,
    ...Object.fromEntries(
      ["POSTGRES", "REDIS", "HAPROXY", "PROMETHEUS"].map((name) => [`${name}_IMAGE`, servicesImage]),
    ),
  };
  // What the machine of the test has instead of the internet and of GPUs.
  const offline = { environment: { HF_HUB_OFFLINE: "1" } };
  const agent = {
    environment: { HF_ENDPOINT: hubOrigin, STOKER_GPUS: "2", STOKER_CONTAINER_SUBNET: subnetOf(239) },
  };
  const override = join(folder, "override.json");
  writeFileSync(
    override,
    JSON.stringify({ services: { "control-plane-1": offline, "control-plane-2": offline, agent } }),
  );
  const files = ["--file", join(root, "deploy/compose.yaml"), "--file", override, "--env-file", "/dev/null"];
  const compose = async (...args: string[]): Promise<string> => {
    const project = ["--project-name", `stoker-compose-${lane}`, "--ansi", "never", "--progress", "quiet"];
    const limits = { env, timeout: 400_000, maxBuffer: 64 * 1024 * 1024 };
    return (await run(command, [...first, ...project, ...files, ...args], limits)).stdout.trim();
  };
  const stop = async () => {
    await compose("down", "--volumes", "--timeout", "5").catch((error) => process.stderr.write(`${error}\n`));
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await compose("up", "--detach", "--wait");
  } catch (error) {
    const logs = await compose("logs", "--no-color", "--tail", "40").catch(String);
    await stop();
    throw new Error(`the stack did not come up:\n${logs}`, { cause: error });
  }
  return {
    url: `http://127.0.0.1:${api}`,
    prometheusUrl: `http://127.0.0.1:${prometheus}`,
    compose,
    async pidOf(service) {
      const id = await compose("ps", "--quiet", service);
      return Number(await docker("inspect", "--format", "{{.State.Pid}}", id));
    },
    stop,
  };
}

async function buildServices(): Promise<void> {
  const hasBuildx = await run("docker", ["buildx", "version"]).then(
    () => true,
    () => false,
  );
  const args = ["build", "--network", "host", "--tag", servicesImage, join(import.meta.dirname)];
  const env = { ...process.env, ...(hasBuildx ? {} : { DOCKER_BUILDKIT: "0" }) };
  await run("docker", args, { env, timeout: 300_000, maxBuffer: 64 * 1024 * 1024 });
}
