// What the docker driver says and leaves behind when a start fails, an agent died in the middle, or the engine is away.
import { createHash } from "node:crypto";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { modelBridgePrefix } from "../../agent/docker/bridge-network.ts";
import { containerConfig } from "../../agent/docker/model-profile.ts";
import { clear, docker, leftOf, runtimeImage, subnetOf, testDriver, tinyHost } from "./docker-host.ts";
import { tinyPlan } from "./tiny-plan.ts";

const host = await tinyHost("what the docker driver does when a start fails or an agent died in the middle");
const nodeName = `faults-${process.pid}`;
/** Of this file alone: what another one left here would be in the way of networks that have one place. */
const ownRange = subnetOf(238);
const signal = (): AbortSignal => AbortSignal.timeout(60_000);

describe.skipIf(!host.ok)("a start that fails", () => {
  const driver = testDriver(nodeName);
  afterEach(() => clear(nodeName));
  afterAll(() => driver.close());

  it("names the missing image, says how to get it and leaves nothing behind", async () => {
    const attempt = driver.start(tinyPlan({ image: "stoker-runtime:never-built" }), signal());
    await expect(attempt).rejects.toMatchObject({
      code: "image_missing",
      retryable: false,
      message: expect.stringMatching(/stoker-runtime:never-built.*scripts\/runtime-image\.sh/),
    });
    expect(await leftOf(nodeName)).toEqual([]);
  });

  it("is terminal without the GPU runtime and leaves nothing behind", async () => {
    const attempt = driver.start(tinyPlan({ gpuUuids: ["GPU-00000000-0000-0000-0000-000000000000"] }), signal());
    await expect(attempt).rejects.toMatchObject({ code: "gpu_runtime_missing", retryable: false });
    expect(await leftOf(nodeName)).toEqual([]);
  });

  it("creates no folder in place of a missing mount source", async () => {
    const mounts = [{ source: "/nonexistent/weights.gguf", target: "/models/weights.gguf", readOnly: true }];
    await expect(driver.start(tinyPlan({ mounts }), signal())).rejects.toMatchObject({
      code: "start_failed",
      message: expect.stringContaining("/nonexistent/weights.gguf"),
    });
    expect(await leftOf(nodeName)).toEqual([]);
  });

  it("leaves a foreign container with its name alone", async () => {
    const plan = tinyPlan();
    const foreign = await docker("create", "--name", `stoker-${plan.instanceId}-g1`, plan.image);
    await expect(driver.start(plan, signal())).rejects.toMatchObject({ code: "start_failed" });
    expect(await docker("inspect", "--format", "{{.State.Status}}", foreign)).toBe("created");
    await docker("rm", foreign);
    expect(await leftOf(nodeName)).toEqual([]);
  });

  it("does not fail when its bridge's name is taken, as by an engine that ended while it created the network", async () => {
    const plan = tinyPlan();
    const bridge = `${modelBridgePrefix(nodeName)}${createHash("sha256").update(plan.instanceId).digest("hex").slice(0, 8)}`;
    const taken = `taken-${process.pid}`;
    await docker("network", "create", "--opt", `com.docker.network.bridge.name=${bridge}`, taken);
    try {
      await driver.start(plan, signal());
      expect(await driver.list(signal())).toHaveLength(1);
    } finally {
      await docker("network", "rm", taken);
    }
  });

  it("leaves an older generation that still runs alone", async () => {
    const plan = tinyPlan();
    await driver.start(plan, signal());
    const identities = async () =>
      (await driver.list(signal())).map(({ identity, generation }) => [identity, generation]);
    const before = await identities();
    await expect(driver.start({ ...plan, generation: 2 }, signal())).rejects.toMatchObject({ retryable: true });
    expect(before).toHaveLength(1);
    expect(await identities()).toEqual(before);
  });
});

describe.skipIf(!host.ok)("an agent that died", () => {
  afterEach(() => clear(nodeName));

  it("leaves nothing that its successor takes for an instance, between creating and starting a container", async () => {
    const plan = tinyPlan();
    const { Labels = {} } = containerConfig(plan, { nodeName, runtimeImage });
    const labels = Object.entries(Labels).flatMap(([key, value]) => ["--label", `${key}=${value}`]);
    await docker(
      "network",
      "create",
      "--label",
      `stoker.node=${nodeName}`,
      "--label",
      `stoker.instance=${plan.instanceId}`,
      "--subnet",
      ownRange.replace(/\d+\.0\/20$/, (third) => `${Number.parseInt(third, 10) + 15}.240/28`),
      `stoker-${plan.instanceId}`,
    );
    await docker("create", "--name", `stoker-${plan.instanceId}-g1`, ...labels, plan.image);

    const driver = testDriver(nodeName);
    expect(await driver.list(signal())).toEqual([]);
    expect(await leftOf(nodeName)).toEqual([]);
    await driver.start(plan, signal());
    expect(await driver.list(signal())).toMatchObject([{ instanceId: plan.instanceId, generation: 1 }]);
    await driver.close();
  });

  it("is not another agent of the same engine: each sees and touches its own alone", async () => {
    const [mine, theirs] = [testDriver(nodeName), testDriver(`${nodeName}-b`)];
    const plan = tinyPlan();
    await mine.start(plan, signal());
    const before = await mine.list(signal());
    expect(before).toMatchObject([{ instanceId: plan.instanceId }]);
    expect(await theirs.list(signal())).toEqual([]);
    await theirs.stop(plan.instanceId, 0, signal());
    await theirs.remove(plan.instanceId, signal());
    expect(await mine.list(signal())).toMatchObject([{ identity: before[0]?.identity }]);
    await Promise.all([mine.close(), theirs.close()]);
  });
});

describe.skipIf(!host.ok)("networks", () => {
  afterEach(() => clear(nodeName));

  it("share no address between instances, and report a range without free networks", async () => {
    // Room for exactly two.
    const driver = testDriver(nodeName, { containerSubnet: ownRange.replace(/\d+\/20$/, "0/27") });
    await driver.start(tinyPlan(), signal());
    await driver.start(tinyPlan(), signal());
    await vi.waitFor(
      async () => {
        const origins = (await driver.list(signal())).flatMap((one) => (one.state === "running" ? [one.origin] : []));
        expect(new Set(origins).size).toBe(2);
      },
      { timeout: 30_000 },
    );
    await expect(driver.start(tinyPlan(), signal())).rejects.toThrow(/--container-subnet/);
    await driver.close();
  });
});

it("reports an unavailable engine at once as retryable, with what to do", async () => {
  const driver = testDriver(nodeName, { socketPath: "/nonexistent/docker.sock" });
  await expect(driver.list(signal())).rejects.toMatchObject({
    name: "DriverError",
    code: "engine_away",
    retryable: true,
    message: expect.stringContaining("ENOENT"),
  });
  await driver.close();
});
