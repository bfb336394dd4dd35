// Images come by digest from a registry of this machine, told in bytes; what does not come says why.
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ContainerDriver } from "../../agent/reconcile/driver.ts";
import { docker, testDriver, tinyHost } from "./docker-host.ts";
import { type Registry, startRegistry } from "./registry.ts";
import { tinyPlan } from "./tiny-plan.ts";

const host = await tinyHost("that images are pulled by digest");
const registry = host.ok ? await startRegistry() : undefined;
const signal = (): AbortSignal => AbortSignal.timeout(60_000);
const mib = 1024 * 1024;

describe.skipIf(!registry)("an image from a registry", () => {
  const { host: origin, folder, push, close } = registry as Registry;
  let driver: ContainerDriver;
  const pulled: string[] = [];
  const pull = (image: string, onProgress: (done: number, total: number) => void, until: AbortSignal) =>
    driver.pull(tinyPlan({ image }), onProgress, until);

  beforeAll(() => {
    driver = testDriver(`pull-${process.pid}`);
  });
  afterAll(async () => {
    await driver.close();
    for (const image of pulled) await docker("rmi", "-f", image);
    close();
  });

  it("is pulled by digest once, with progress in bytes", async () => {
    const image = await push("stoker/whole", 24 * mib);
    pulled.push(image);
    const told: [number, number][] = [];
    await pull(image, (done, total) => told.push([done, total]), signal());
    expect(await docker("image", "inspect", "--format", "{{index .RepoDigests 0}}", image)).toBe(image);
    expect(told.length).toBeGreaterThan(1);
    const [done, total] = told.at(-1) as [number, number];
    expect(done).toBe(total);
    expect(total).toBeGreaterThanOrEqual(24 * mib);
    expect(told.map(([bytes]) => bytes)).toEqual(told.map(([bytes]) => bytes).toSorted((a, b) => a - b));

    const again: number[] = [];
    await pull(image, (bytes) => again.push(bytes), signal());
    expect(again).toEqual([]);
  });

  it("is reported as missing and not retried when its registry does not have it", async () => {
    const nothing = `${origin}/stoker/nothing@sha256:${"0".repeat(64)}`;
    await expect(pull(nothing, () => {}, signal())).rejects.toMatchObject({
      code: "image_missing",
      retryable: false,
      message: expect.stringContaining("registry does not have it"),
    });
  });

  it("is refused when its bytes do not match the digest", async () => {
    const image = await push("stoker/forged", mib);
    const digest = image.split("sha256:")[1] ?? "";
    const blob = join(folder, "docker/registry/v2/blobs/sha256", digest.slice(0, 2), digest, "data");
    expect(readdirSync(join(blob, "..")).length).toBe(1);
    const other = await push("stoker/other", mib);
    const otherDigest = other.split("sha256:")[1] ?? "";
    const manifest = await (
      await fetch(`http://${origin}/v2/stoker/other/manifests/sha256:${otherDigest}`, {
        headers: { accept: "application/vnd.docker.distribution.manifest.v2+json" },
        signal: signal(),
      })
    ).text();
    writeFileSync(blob, manifest);
    await expect(pull(image, () => {}, signal())).rejects.toMatchObject({
      code: "image_corrupt",
      retryable: false,
    });
  });

  it("is retryable when its registry is unavailable, and the error names the registry", async () => {
    const away = `127.0.0.1:1/stoker/away@sha256:${"1".repeat(64)}`;
    await expect(pull(away, () => {}, signal())).rejects.toMatchObject({
      code: "image_unreachable",
      retryable: true,
      message: expect.stringContaining("127.0.0.1:1/stoker/away"),
    });
  });

  it("stops when it is no longer needed", async () => {
    const image = await push("stoker/unwanted", 8 * mib);
    pulled.push(image);
    const ending = new AbortController();
    ending.abort(new Error("nobody wants it"));
    await expect(pull(image, () => {}, ending.signal)).rejects.toThrow("nobody wants it");
  });
});
