// A hub that is slow, endless, crowded, or sends its downloads where they must not go.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { anySignal, type CacheWorld, refusal, repo, startCacheWorld } from "./cache-world.ts";

const model = Buffer.concat([Buffer.from("GGUF"), randomBytes(3_000_000)]);
const file = "tiny.gguf";
const wanted = { repo, file };
const quick = { metadataMs: 300, silenceMs: 300, pace: { bytes: 64 * 1024, perMs: 200 } };

let world: CacheWorld;
beforeEach(async () => {
  world = await startCacheWorld();
});
afterEach(() => world.end());

describe("a crowded hub", () => {
  it("that asks for a short wait is asked once more after it", async () => {
    const hub = await world.hub({ [file]: model });
    hub.faults.refuse = { status: 429, headers: { "retry-after": "1" }, times: 1 };
    const beganMs = performance.now();
    await world.store(hub).ensure(wanted, () => {}, anySignal());
    expect(performance.now() - beganMs).toBeGreaterThan(900);
  });

  it("that asks for a long wait ends the attempt at once, and says how long", async () => {
    const hub = await world.hub({ [file]: model });
    hub.faults.refuse = { status: 429, headers: { "retry-after": "300" } };
    const refused = await refusal(world.store(hub).ensure(wanted, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "hub_rate_limited", retryable: true });
    expect(refused.message).toContain("300 s");
    expect(hub.requests).toHaveLength(1);
  });
});

describe("a redirect", () => {
  it.each(["http://127.0.0.2:9/x", "http://169.254.169.254/latest", "http://[fe80::1]/x", "http://100.100.100.200/"])(
    "to %s is refused, and nothing is asked there",
    async (to) => {
      const hub = await world.hub({ [file]: model });
      hub.redirectTo = to;
      const refused = await refusal(world.store(hub).ensure(wanted, () => {}, anySignal()));
      expect(refused).toMatchObject({ code: "hub_failed", retryable: false });
      expect(refused.message).toContain("inside this machine's own network");
    },
  );

  it.each(["file:///etc/passwd", "gopher://127.0.0.1/"])("to %s is refused", async (to) => {
    const hub = await world.hub({ [file]: model });
    hub.redirectTo = to;
    const refused = await refusal(world.store(hub).ensure(wanted, () => {}, anySignal()));
    expect(refused.code).toBe("hub_failed");
  });
});

describe("a slow hub", () => {
  it("that takes the request and says nothing is given up", async () => {
    const hub = await world.hub({ [file]: model });
    hub.faults.silent = true;
    const refused = await refusal(world.store(hub, quick).ensure(wanted, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "hub_unreachable", retryable: true });
    expect(refused.message).toContain("sent no answer");
  });

  it("that sends its headers by drops is given up", async () => {
    const hub = await world.hub({ [file]: model });
    hub.faults.trickle = { in: "headers", everyMs: 50 };
    const refused = await refusal(world.store(hub, quick).ensure(wanted, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "hub_unreachable", retryable: true });
  });

  it("that sends the file by drops is given up, and what came is kept", async () => {
    const hub = await world.hub({ [file]: model });
    hub.faults.trickle = { in: "body", everyMs: 20 };
    // What it says of the file comes whole, however slow the machine.
    const refused = await refusal(
      world.store(hub, { ...quick, metadataMs: 10_000 }).ensure(wanted, () => {}, anySignal()),
    );
    expect(refused).toMatchObject({ code: "hub_unreachable", retryable: true });
    expect(refused.message).toContain("stopped sending");
    delete hub.faults.trickle;
    await world.store(hub).ensure(wanted, () => {}, anySignal());
    expect(hub.requests.at(-1)?.range).toMatch(/^bytes=[1-9]\d*-$/);
  });
});

describe("a hub that sends too much", () => {
  it("is cut at the announced size, and nothing of it is kept", async () => {
    const hub = await world.hub({ [file]: model });
    hub.faults.endless = true;
    const refused = await refusal(world.store(hub).ensure(wanted, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "hub_checksum_mismatch", retryable: false });
    expect(await readdir(join(world.cacheDir, "blobs"))).toEqual([]);
  });
});

describe("a resumed download", () => {
  it("asks for the rest of the very file it has a part of", async () => {
    const hub = await world.hub({ [file]: model });
    hub.faults.cut = { afterBytes: 1_000_000, times: 1 };
    const { modelPath } = await world.store(hub).ensure(wanted, () => {}, anySignal());
    expect(model.equals(await readFile(modelPath))).toBe(true);
    const resumed = hub.requests.at(-1);
    expect(resumed?.range).toMatch(/^bytes=[1-9]\d*-$/);
    expect(resumed?.ifRange).toMatch(/^"[0-9a-f]{64}"$/);
  });

  it("of two askers of one blob under different names fetches no byte twice", async () => {
    const hub = await world.hub({ [file]: model });
    const [one, two] = [world.store(hub), world.store(hub)];
    await Promise.all([
      one.ensure(wanted, () => {}, anySignal()),
      two.ensure({ ...wanted, revision: hub.commit }, () => {}, anySignal()),
    ]);
    expect(hub.sentBytes).toBe(model.length);
  });
});

describe("a full disk", () => {
  const small = mkdtempSync(join(tmpdir(), "stoker-small-disk-"));
  let isMounted = false;
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", small], { stdio: "ignore" });
    isMounted = true;
  } catch {
    process.stderr.write(
      "NOT PROVEN on a real file system: no tmpfs can be mounted here, so a full disk is not shown.\n",
    );
  }
  afterEach(() => {
    if (isMounted) execFileSync("umount", ["-l", small]);
    isMounted = false;
    rmSync(small, { recursive: true, force: true });
  });

  it.skipIf(!isMounted)("ends the download as what it is, also when it fills in the middle", async () => {
    const hub = await world.hub({ [file]: model });
    const unaware = { cacheDir: small, freeBytes: async () => 1e12 };
    const refused = await refusal(world.store(hub, unaware).ensure(wanted, () => {}, anySignal()));
    expect(refused).toMatchObject({ code: "hub_disk_full", retryable: false });
    expect(refused.message).toContain("the disk is full");
  });
});
