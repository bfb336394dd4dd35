// P9: one deployment on an engine of its own, and something that ends in each step of its life.
import { spawn } from "node:child_process";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { InstanceSpec } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { type FakeHub, startHub } from "../fakes/hub.ts";
import { type LocalAgent, makeLocalAgent } from "../fakes/local-agent.ts";
import { docker, subnetOf, tinyImage } from "./docker-host.ts";
import { oneAtATime } from "./once.ts";
import { type PrivateEngine, privateEngine } from "./private-engine.ts";
import type { Registry } from "./registry.ts";
import { lines, patient, phase, told, untilServed } from "./seen-agent.ts";
import { type SlowLink, slowLink } from "./slow-link.ts";

export interface Life {
  readonly agent: LocalAgent;
  readonly engine: PrivateEngine;
  /** Starts the agent again. */
  start(): void;
}

/** The digest under which the registry has it. */
async function pushTiny(origin: string): Promise<string> {
  const tag = `${origin}/stoker/tiny`;
  await docker("tag", tinyImage, tag);
  const said = await docker("push", tag);
  await docker("rmi", tag);
  const digest = /digest: (sha256:[0-9a-f]{64})/.exec(said)?.[1];
  if (digest === undefined) throw new Error(`the push told no digest: ${said}`);
  return digest;
}

/** In the order of a deployment's life. */
const stepsOfLife = ["pulling", "downloading", "creating", "loading", "ready", "draining"] as const;
type StepOfLife = (typeof stepsOfLife)[number];

/** `name`: what `end` does, in each of these steps. */
export function describeLife(registry: Registry | undefined, name: string, end: (life: Life) => Promise<void>): void {
  describe.skipIf(!registry || process.getuid?.() !== 0)("a deployment on an engine of its own (P9)", () => {
    let engine: PrivateEngine;
    let link: SlowLink;
    let hub: FakeHub;
    let image: string;
    let agent: LocalAgent;
    let spec: InstanceSpec;
    const repo = "tiny/model";

    beforeAll(async () => {
      const { host: origin } = registry as Registry;
      engine = privateEngine();
      await engine.start();
      link = await slowLink(origin);
      const digest = await oneAtATime("push", () => pushTiny(origin));
      image = `${link.host}/stoker/tiny@${digest}`;
      hub = await startHub({
        repo,
        files: { "model.gguf": Buffer.concat([Buffer.from("GGUF tiny\n"), Buffer.alloc(4_000_000, 32)]) },
      });
    });
    afterAll(async () => {
      await engine?.close();
      link?.close();
      await hub?.close();
    });
    beforeEach(() => {
      agent = makeLocalAgent();
    });
    afterEach(async ({ task }) => {
      if (task.result?.state === "fail") process.stderr.write(agent.log());
      await agent.kill("SIGKILL");
      const left = lines(await engine.docker("ps", "-aq"));
      if (left.length > 0) await engine.docker("rm", "-f", ...left);
      for (const network of lines(await engine.docker("network", "ls", "-q", "--filter", "label=stoker.node")))
        await engine.docker("network", "rm", network);
      await agent.clean();
    });

    const start = () =>
      agent.start({
        STOKER_DRIVER: "docker",
        STOKER_RUNTIME_IMAGE: image,
        STOKER_CONTAINER_SUBNET: subnetOf(236),
        DOCKER_HOST: engine.address,
        HF_ENDPOINT: hub.url,
      });
    const id = () => spec.instanceId as string;
    const untilPhase = (wanted: string) =>
      vi.waitFor(async () => expect(await phase(agent, id())).toBe(wanted), { ...patient, interval: 30 });
    const created = () =>
      new Promise<void>((resolve) => {
        const args = ["--host", engine.address, "events", "--filter", "type=container", "--filter", "event=create"];
        const events = spawn("docker", args, { stdio: ["ignore", "pipe", "ignore"] });
        events.stdout.once("data", () => {
          events.kill("SIGKILL");
          resolve();
        });
      });

    /** Brings the deployment into the step. */
    const steps: Readonly<Record<Exclude<StepOfLife, "draining">, () => Promise<void>>> = {
      async pulling() {
        await engine.docker("rmi", "-f", image).catch(() => {});
        link.bytesPerSecond = 8_000_000;
        spec = agent.spec();
        agent.want([spec]);
        start();
        await untilPhase("downloading");
      },
      async downloading() {
        spec = agent.spec({ weights: { repo, revision: "main", file: "model.gguf" } });
        agent.want([spec]);
        start();
        await vi.waitFor(() => expect(agent.log()).toContain("the agent serves"), patient);
      },
      async creating() {
        spec = agent.spec();
        agent.want([spec]);
        const isCreated = created();
        start();
        await isCreated;
      },
      async loading() {
        spec = agent.spec({}, { loadMs: 4_000 });
        agent.want([spec]);
        start();
        await untilPhase("loading");
      },
      async ready() {
        spec = agent.spec();
        agent.want([spec]);
        start();
        await untilPhase("ready");
      },
    };
    const alive = stepsOfLife.filter((step) => step !== "draining");
    it.each(alive)(`ends as one container that serves although ${name} while it is %s`, async (step) => {
      await steps[step]();
      await end({ agent, engine, start });
      link.bytesPerSecond = undefined;
      await untilServed(agent, id());
      expect(lines(await engine.docker("ps", "-aq"))).toHaveLength(1);
      expect(lines(await engine.docker("network", "ls", "-q", "--filter", "label=stoker.node"))).toHaveLength(1);
      expect(lines(await engine.docker("volume", "ls", "-q"))).toEqual([]);
      expect(told(agent, id(), "instance failed")).toBeUndefined();
    });

    it(`is gone without a trace although ${name} while it is draining`, async () => {
      spec = agent.spec({}, { ignoreTerm: true });
      agent.want([spec]);
      start();
      await untilServed(agent, id());
      await agent.kill("SIGTERM");
      agent.want([], [id()]);
      start();
      await untilPhase("draining");
      await end({ agent, engine, start });
      await vi.waitFor(async () => {
        expect(lines(await engine.docker("ps", "-aq"))).toEqual([]);
        expect(lines(await engine.docker("network", "ls", "-q", "--filter", "label=stoker.node"))).toEqual([]);
      }, patient);
      expect(lines(await engine.docker("volume", "ls", "-q"))).toEqual([]);
    });
  });
}
