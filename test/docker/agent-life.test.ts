// A real agent process on a real Docker engine. P24: its state is lost under three running containers. P14: an instance that
// needs too much memory. P15: what cannot work says why within a minute. P9: it, or the engine, ends in each step of a life.
import { spawn } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { createFirewall } from "../../agent/docker/firewall.ts";
import { modelRules } from "../../agent/docker/model-firewall.ts";
import type { InstanceSpec } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { type FakeHub, startHub } from "../fakes/hub.ts";
import { type LocalAgent, makeLocalAgent } from "../fakes/local-agent.ts";
import { docker, testSubnet, tinyHost, tinyImage } from "./docker-host.ts";
import { type PrivateEngine, privateEngine } from "./private-engine.ts";
import { type Registry, startRegistry } from "./registry.ts";
import { type SlowLink, slowLink } from "./slow-link.ts";

const host = await tinyHost("what an agent does with its containers when it, or the engine, ends at any moment");
const registry: Registry | undefined = host.ok ? await startRegistry() : undefined;
afterAll(() => registry?.close());

const patient = { timeout: 60_000, interval: 150 };
const ids = (specs: readonly InstanceSpec[]) => specs.map((spec) => spec.instanceId as string);
const lines = (text: string) => text.split("\n").filter((line) => line !== "");

interface Told {
  readonly msg?: string;
  readonly instance?: string;
  readonly code?: string;
  readonly why?: string;
}
const told = (agent: LocalAgent, instance: unknown, msg: string): Told | undefined =>
  agent
    .log()
    .split("\n")
    .flatMap((line) => (line.startsWith("{") && line.endsWith("}") ? [JSON.parse(line) as Told] : []))
    .findLast((line) => line.instance === instance && line.msg === msg);

async function phase(agent: LocalAgent, id: string): Promise<string | undefined> {
  return new RegExp(`instance_id="${id}",state="(\\w+)"`).exec(await metricsPage(agent))?.[1];
}
async function metricsPage(agent: LocalAgent): Promise<string> {
  const page = await fetch(`http://127.0.0.1:${agent.ports().metrics_port}/metrics`, {
    signal: AbortSignal.timeout(5_000),
  });
  return page.text();
}
const untilServed = (agent: LocalAgent, id: string) =>
  vi.waitFor(async () => expect((await agent.complete(id))?.status).toBe(200), patient);

describe.skipIf(!host.ok)("an agent on the machine's engine", () => {
  let agent: LocalAgent;
  let specs: InstanceSpec[] = [];
  const environment = { STOKER_DRIVER: "docker", STOKER_RUNTIME_IMAGE: tinyImage, STOKER_CONTAINER_SUBNET: testSubnet };
  const named = (id: string, what = "ps -aq") => docker(...what.split(" "), "--filter", `label=stoker.instance=${id}`);
  const facts = async (id: string) => docker("inspect", "--format", "{{.Id}} {{.State.StartedAt}}", await named(id));

  beforeEach(() => {
    agent = makeLocalAgent();
    specs = [];
  });
  afterEach(async ({ task }) => {
    if (task.result?.state === "fail") process.stderr.write(agent.log());
    // First the agent, or it brings back what is taken from it.
    await agent.kill("SIGKILL");
    for (const id of ids(specs)) {
      for (const one of lines(await named(id))) await docker("rm", "-f", one);
      for (const one of lines(await named(id, "network ls -q"))) await docker("network", "rm", one);
    }
    // An agent that was killed takes no rules out.
    await createFirewall(modelRules(agent.ports().host_id)).remove();
    await agent.clean();
  });

  it("adopts all three containers after the loss of its state, and starts, stops and leaves none besides (P24)", async () => {
    specs = [agent.spec(), agent.spec(), agent.spec()];
    agent.want(specs);
    agent.start(environment);
    for (const id of ids(specs)) await untilServed(agent, id);
    const before = await Promise.all(ids(specs).map(facts));
    await agent.kill("SIGKILL");
    const data = join(agent.folder, "data");
    // Everything it keeps, its own name included; not the ticket key, which this test signs with.
    for (const name of readdirSync(data))
      if (name !== "local-ticket.key") rmSync(join(data, name), { recursive: true });
    agent.start(environment);
    for (const id of ids(specs)) await untilServed(agent, id);
    expect(await Promise.all(ids(specs).map(facts))).toEqual(before);
    for (const id of ids(specs)) {
      expect(lines(await named(id))).toHaveLength(1);
      expect(lines(await named(id, "network ls -q"))).toHaveLength(1);
    }
    // Seen from outside, whoever started them: what each uses, and what it has written into its own layer.
    await vi.waitFor(async () => {
      const page = await metricsPage(agent);
      for (const id of ids(specs))
        for (const name of ["memory_working_set_bytes", "fs_usage_bytes"])
          expect(page).toMatch(new RegExp(`^container_${name}\\{.*instance_id="${id}"\\} \\d+$`, "m"));
    }, patient);
  });

  it("tells an instance that was killed for its memory by its limit, and leaves its neighbour alone (P14)", async () => {
    const sound = agent.spec({ memoryBytes: 256 * 1024 * 1024 });
    const hungry = agent.spec({ memoryBytes: 32 * 1024 * 1024 }, { holdBytes: 600e6 });
    specs = [sound, hungry];
    agent.want(specs);
    agent.start(environment);
    await untilServed(agent, sound.instanceId as string);
    const before = await facts(sound.instanceId as string);
    const ended = await vi.waitFor(() => {
      const found = told(agent, hungry.instanceId, "instance will be tried again");
      expect(found).toBeDefined();
      return found;
    }, patient);
    expect(ended).toMatchObject({ code: "oom_killed", why: expect.stringMatching(/^limit 32MiB/) });
    expect(await docker("inspect", "--format", "{{.State.OOMKilled}}", await named(hungry.instanceId as string))).toBe(
      "true",
    );
    expect(await facts(sound.instanceId as string)).toBe(before);
    expect((await agent.complete(sound.instanceId as string))?.status).toBe(200);
  });

  it("says within a minute, each with its code, why a deployment cannot work (P15)", async () => {
    const digest = `sha256:${"0".repeat(64)}`;
    const origin = registry?.host ?? "127.0.0.1:1";
    const refused = agent.spec({ image: "somebody/else:latest" });
    const missing = agent.spec({ image: `${origin}/stoker/nothing@${digest}` });
    const away = agent.spec({ image: `127.0.0.1:1/stoker/away@${digest}` });
    const gpu = agent.spec({ gpuUuids: ["GPU-00000000-0000-0000-0000-000000000000"] });
    const nowhere = agent.spec({ weights: { localPath: "/nowhere/at/all.gguf" } });
    const unfit = agent.spec({}, { exitCode: 2, lines: ['{"level":50,"msg":"the model has no tensors"}'] });
    specs = [refused, missing, away, gpu, nowhere, unfit];
    agent.want(specs);
    const beganMs = performance.now();
    agent.start({ ...environment, STOKER_ALLOWED_IMAGES: `${origin}/stoker/*, 127.0.0.1:1/stoker/*` });
    const expected: [InstanceSpec, string, RegExp][] = [
      [refused, "image_refused", /STOKER_ALLOWED_IMAGES/],
      ...(registry
        ? ([[missing, "image_missing", /registry does not have it/]] as [InstanceSpec, string, RegExp][])
        : []),
      [away, "image_unreachable", /could not be reached/],
      [gpu, "gpu_runtime_missing", /NVIDIA container toolkit/],
      [nowhere, "weights_not_found", /nowhere/],
      [unfit, "bad_model", /no tensors/],
    ];
    for (const [spec, code, why] of expected) {
      const failed = await vi.waitFor(() => {
        const found = told(agent, spec.instanceId, "instance failed");
        expect(found, code).toBeDefined();
        return found;
      }, patient);
      expect(failed).toMatchObject({ code, why: expect.stringMatching(why) });
    }
    expect(performance.now() - beganMs).toBeLessThan(60_000);
  });
});

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
    await docker("tag", tinyImage, `${origin}/stoker/tiny`);
    const digest = /digest: (sha256:[0-9a-f]{64})/.exec(await docker("push", `${origin}/stoker/tiny`))?.[1];
    await docker("rmi", `${origin}/stoker/tiny`);
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
      STOKER_CONTAINER_SUBNET: "10.234.0.0/20",
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

  const ends = {
    "the agent is killed": async () => {
      await agent.kill("SIGKILL");
      start();
    },
    "the engine is restarted": async () => {
      await engine.stop("SIGTERM");
      await engine.start();
    },
  } as const;
  /** Brings the deployment into the step. */
  const steps: Readonly<Record<string, () => Promise<void>>> = {
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
  const cases = Object.keys(steps).flatMap((step) =>
    Object.keys(ends).map((end) => ({ step, end: end as keyof typeof ends })),
  );

  it.each(cases)("ends as one container that serves although $end while it is $step", async ({ step, end }) => {
    await steps[step]?.();
    await ends[end]();
    link.bytesPerSecond = undefined;
    await untilServed(agent, id());
    expect(lines(await engine.docker("ps", "-aq"))).toHaveLength(1);
    expect(lines(await engine.docker("network", "ls", "-q", "--filter", "label=stoker.node"))).toHaveLength(1);
    expect(lines(await engine.docker("volume", "ls", "-q"))).toEqual([]);
    expect(told(agent, id(), "instance failed")).toBeUndefined();
  });

  it.each(Object.keys(ends) as (keyof typeof ends)[])(
    "is gone without a trace although %s while it is draining",
    async (end) => {
      spec = agent.spec({}, { ignoreTerm: true });
      agent.want([spec]);
      start();
      await untilServed(agent, id());
      await agent.kill("SIGTERM");
      agent.want([], [id()]);
      start();
      await untilPhase("draining");
      await ends[end]();
      await vi.waitFor(async () => {
        expect(lines(await engine.docker("ps", "-aq"))).toEqual([]);
        expect(lines(await engine.docker("network", "ls", "-q", "--filter", "label=stoker.node"))).toEqual([]);
      }, patient);
      expect(lines(await engine.docker("volume", "ls", "-q"))).toEqual([]);
    },
  );
});
