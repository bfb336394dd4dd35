// F8 at a running agent: a host whose disk is full says so where an operator looks, not in its refusals alone.
import { rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type LocalAgent, makeLocalAgent } from "../../fakes/local-agent.ts";
import { mountSmallDisk, type SmallDisk } from "../../fakes/small-disk.ts";

const patient = { timeout: 60_000, interval: 100 };
const disk = mountSmallDisk(24, "F8, a full disk under an agent (run the tests as root on Linux)") as SmallDisk;

describe.skipIf(!disk)("an agent on a disk without a byte left", () => {
  let agent: LocalAgent;
  const warnings = async (): Promise<string> => {
    const page = `http://127.0.0.1:${agent.ports().metrics_port}/inspect`;
    const answer = await fetch(page, { signal: AbortSignal.timeout(20_000) });
    return ((await answer.json()) as { warnings: string[] }).warnings.join("\n");
  };
  const status = async () => (await agent.complete("one"))?.status;

  beforeAll(async () => {
    agent = makeLocalAgent();
    rmSync(join(agent.folder, "data"), { recursive: true });
    symlinkSync(disk.folder, join(agent.folder, "data"));
    agent.want([agent.spec({ instanceId: "one" })]);
    agent.start();
    await vi.waitFor(async () => expect(await status()).toBe(200), patient);
  }, 90_000);
  afterAll(async () => {
    await agent?.kill("SIGKILL");
    await agent?.clean();
    disk.unmount();
  });

  it("says in `stoker inspect` that it admits nothing and what to do, until there is room again", async () => {
    expect(await warnings()).not.toContain("usage records");
    disk.fill();
    // Its files have a little room of their own, which requests use up.
    await vi.waitFor(async () => expect(await status()).toBe(503), patient);
    // As its control plane is told, too: it is the inventory's.
    const said = "it cannot write usage records, so it admits no request";
    await vi.waitFor(async () => expect(await warnings()).toContain(said), patient);
    disk.free();
    await vi.waitFor(async () => expect(await status()).toBe(200), patient);
    await vi.waitFor(async () => expect(await warnings()).not.toContain("usage records"), patient);
  });
});
