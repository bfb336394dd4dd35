// What a release signs, verified by cosign itself (scripts/go-tools.sh cosign), with images in a real registry and without a transparency log.
import { execFile } from "node:child_process";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { manifestType, openRepository } from "../../../scripts/release/registry.ts";
import { attest, type Statement, signFile, signImage } from "../../../scripts/release/signatures.ts";
import { startRegistry } from "../../docker/registry.ts";

const run = promisify(execFile);
const program = join(import.meta.dirname, "../../../.cache/go-tools/cosign");
const hasCosign = existsSync(program);
if (!hasCosign) console.warn("NOT PROVEN: that cosign verifies what a release signs. scripts/go-tools.sh cosign");
const registry = hasCosign ? await startRegistry() : undefined;

describe.skipIf(!registry)("cosign", () => {
  let folder: string;
  let image: string;
  const [ours, others] = ["P-256", "P-256"].map((namedCurve) => generateKeyPairSync("ec", { namedCurve }));
  const at = (file: string) => join(folder, file);
  /** `key`: file of the public key. */
  const cosign = async (verb: string, key: string, ...args: string[]) => {
    const options = ["--insecure-ignore-tlog=true", "--key", at(key)];
    return run(program, [verb, ...options, ...args], { env: { ...process.env, HOME: folder }, timeout: 60_000 });
  };
  const privateKey = ours?.privateKey as KeyObject;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "stoker-cosign-"));
    for (const [file, pair] of [["ours.pub", ours] as const, ["others.pub", others] as const])
      writeFileSync(at(file), pair?.publicKey.export({ type: "spki", format: "pem" }) ?? "");
    const name = `${registry?.host}/releases/stoker-tiny`;
    const repository = openRepository(name);
    const empty = { architecture: "amd64", os: "linux", config: {}, rootfs: { type: "layers", diff_ids: [] } };
    const config = await repository.putBlob(
      "application/vnd.oci.image.config.v1+json",
      Buffer.from(JSON.stringify(empty)),
    );
    await repository.putManifest("1", { schemaVersion: 2, mediaType: manifestType, config, layers: [] });
    const digest = (await repository.manifest("1"))?.digest ?? "";
    const statement = (predicateType: string): Statement => ({
      _type: "https://in-toto.io/Statement/v1",
      subject: [{ name, digest: { sha256: digest.slice("sha256:".length) } }],
      predicateType,
      predicate: {},
    });
    await signImage(repository, digest, privateKey);
    await attest(
      repository,
      digest,
      [statement("https://slsa.dev/provenance/v1"), statement("https://cyclonedx.org/bom")],
      privateKey,
    );
    image = `${name}:1`;
  });
  afterAll(() => {
    registry?.close();
    if (folder) rmSync(folder, { recursive: true, force: true });
  });

  it("verifies an image with our key, and refuses it with another one", async () => {
    const { stdout } = await cosign("verify", "ours.pub", "--allow-http-registry=true", image);
    expect(JSON.parse(stdout)).toMatchObject([{ critical: { type: "cosign container image signature" } }]);
    await expect(cosign("verify", "others.pub", "--allow-http-registry=true", image)).rejects.toMatchObject({
      stderr: expect.stringContaining("invalid signature"),
    });
  });

  it.each(["slsaprovenance1", "cyclonedx"])("verifies the attestation of the type %s", async (type) => {
    const options = ["--allow-http-registry=true", "--type", type, image];
    const { stdout } = await cosign("verify-attestation", "ours.pub", ...options);
    expect(JSON.parse(stdout)).toMatchObject({ payloadType: "application/vnd.in-toto+json" });
    await expect(cosign("verify-attestation", "others.pub", ...options)).rejects.toThrow();
  });

  it("verifies a file, and refuses it with another key or once it is changed", async () => {
    writeFileSync(at("archive"), "content");
    writeFileSync(at("archive.sig"), signFile(Buffer.from("content"), privateKey));
    await cosign("verify-blob", "ours.pub", "--signature", at("archive.sig"), at("archive"));
    await expect(
      cosign("verify-blob", "others.pub", "--signature", at("archive.sig"), at("archive")),
    ).rejects.toThrow();
    writeFileSync(at("archive"), "other content");
    await expect(cosign("verify-blob", "ours.pub", "--signature", at("archive.sig"), at("archive"))).rejects.toThrow();
  });
});
