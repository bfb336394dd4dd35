// A real agent process on a real Docker engine. P24: its state is lost under three running containers. P14: an instance that
// needs too much memory. P15: what cannot work says why within a minute. P9 stands in life-on-own-engine.ts.
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createFirewall } from "../../agent/docker/firewall.ts";
import { modelRules } from "../../agent/docker/model-firewall.ts";
import type { InstanceSpec } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { type LocalAgent, makeLocalAgent } from "../fakes/local-agent.ts";
import { longer } from "../fakes/nightly.ts";
import { docker, testSubnet, tinyHost, tinyImage } from "./docker-host.ts";
import { type Registry, startRegistry } from "./registry.ts";
import { ids, lines, metricsPage, patient, told, untilServed } from "./seen-agent.ts";

const host = await tinyHost("what an agent does with its containers when it, or the engine, ends at any moment");
const registry: Registry | undefined = host.ok ? await startRegistry() : undefined;
afterAll(() => registry?.close());

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

  it("reports an instance that was killed for its memory with its limit, and leaves its neighbour alone (P14)", async () => {
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
    expect(performance.now() - beganMs).toBeLessThan(longer(120_000, 60_000));
  });
});
