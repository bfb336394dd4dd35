// Images of two platforms under one name, in a real registry, as `release.ts verify` sees them.
import { execFile } from "node:child_process";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { putIndex } from "../../../scripts/release/platforms.ts";
import { manifestType, openRepository, type Repository } from "../../../scripts/release/registry.ts";
import { attest, signImage } from "../../../scripts/release/signatures.ts";
import { contentsOf, provenanceOf } from "../../../scripts/release/statements.ts";
import { currentVersion } from "../../../scripts/release/version.ts";
import { startRegistry } from "../../docker/registry.ts";

const root = join(import.meta.dirname, "../../..");
const version = currentVersion(root);
const registry = await startRegistry();
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });

describe.skipIf(!registry)("a release for two platforms", () => {
  let keyFile: string;
  const repositoryOf = (release: string) => openRepository(`${registry?.host}/${release}/stoker-agent`);
  const verify = (release: string) =>
    promisify(execFile)(
      process.execPath,
      [
        ...[join(root, "scripts/release.ts"), "verify", "--registry", `${registry?.host}/${release}`],
        ...["--only", "agent", "--key", keyFile],
      ],
      { timeout: 60_000 },
    );

  beforeAll(() => {
    const folder = mkdtempSync(join(tmpdir(), "stoker-platforms-"));
    keyFile = join(folder, "key.pub");
    writeFileSync(keyFile, publicKey.export({ type: "spki", format: "pem" }));
  });
  afterAll(() => {
    registry?.close();
    if (keyFile) rmSync(join(keyFile, ".."), { recursive: true, force: true });
  });

  it("is one name whose images are each signed and attested", async () => {
    const repository = repositoryOf("whole");
    const images = [await putImage(repository, "amd64"), await putImage(repository, "arm64")];
    for (const digest of images) await signAndAttest(repository, digest);
    const digest = await putIndex(repository, version, images);
    await signImage(repository, digest, privateKey as KeyObject);

    expect(await repository.manifest(version)).toMatchObject({
      digest,
      manifest: {
        manifests: [
          { digest: images[0], platform: { os: "linux", architecture: "amd64" } },
          { digest: images[1], platform: { os: "linux", architecture: "arm64" } },
        ],
      },
    });
    const { stdout } = await verify("whole");
    for (const image of images) expect(stdout).toContain(`${image}: signed; attested: https://slsa.dev/provenance/v1`);
  });

  it("is refused where one of its images is not signed or not attested", async () => {
    const repository = repositoryOf("partly");
    const images = [await putImage(repository, "amd64"), await putImage(repository, "arm64")];
    const [ours = "", other = ""] = images;
    await signAndAttest(repository, ours);
    await signImage(repository, await putIndex(repository, version, images), privateKey as KeyObject);
    await expect(verify("partly")).rejects.toMatchObject({
      stderr: expect.stringContaining(`${other} has no signature of this key`),
    });
    await signImage(repository, other, privateKey as KeyObject);
    await expect(verify("partly")).rejects.toMatchObject({
      stderr: expect.stringContaining(`${other} is signed, but not attested`),
    });
  });

  it("is refused where the name itself is not signed", async () => {
    const repository = repositoryOf("unsigned");
    const image = await putImage(repository, "arm64");
    await signAndAttest(repository, image);
    const digest = await putIndex(repository, version, [image]);
    await expect(verify("unsigned")).rejects.toMatchObject({
      stderr: expect.stringContaining(`${digest} has no signature of this key`),
    });
  });
});

/** An image without layers. */
async function putImage(repository: Repository, architecture: string): Promise<string> {
  const content = { architecture, os: "linux", config: {}, rootfs: { type: "layers", diff_ids: [] } };
  const config = await repository.putBlob(
    "application/vnd.oci.image.config.v1+json",
    Buffer.from(JSON.stringify(content)),
  );
  const manifest = { schemaVersion: 2, mediaType: manifestType, config, layers: [] } as const;
  return repository.putManifest(`${version}-${architecture}`, manifest);
}

async function signAndAttest(repository: Repository, digest: string): Promise<void> {
  const built = {
    name: repository.repository,
    digest,
    target: "agent",
    base: "debootstrap",
    platform: "linux/arm64",
    sourceUri: "pkg:generic/stoker@0.1.0",
    commit: "c".repeat(40),
    isCommitted: true,
    lockDigest: "d".repeat(64),
    startedAt: new Date(0),
    finishedAt: new Date(0),
  };
  await signImage(repository, digest, privateKey as KeyObject);
  await attest(repository, digest, [provenanceOf(built), contentsOf(built, {})], privateKey as KeyObject);
}
