// A release for real: an image built, pushed to a registry, signed and attested, then verified by other programs than those that signed.
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Manifest, openRepository } from "../../scripts/release/registry.ts";
import type { Statement } from "../../scripts/release/signatures.ts";
import { currentVersion } from "../../scripts/release/version.ts";
import { schemaErrors } from "../fakes/cyclonedx.ts";
import { docker, dockerHost } from "./docker-host.ts";
import { type Registry, startRegistry } from "./registry.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const host = await dockerHost("that a release's image is signed and attested so that others can verify it", [
  "control-plane",
]);
const registry: Registry | undefined = host.ok ? await startRegistry() : undefined;
const version = currentVersion(root);
const cosign = join(root, ".cache/go-tools/cosign");

describe.skipIf(!registry)("a published release", () => {
  let folder: string;
  let prefix: string;
  let name: string;
  const at = (file: string) => join(folder, file);
  const release = (...args: string[]) =>
    run(
      process.execPath,
      [join(root, "scripts/release.ts"), ...args, "--registry", prefix, "--only", "control-plane"],
      {
        timeout: 29 * 60_000,
        maxBuffer: 64 * 1024 * 1024,
      },
    );
  const openssl = (...args: string[]) => run("openssl", args);

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "stoker-release-"));
    prefix = `${registry?.host}/releases`;
    name = `${prefix}/stoker-control-plane`;
    const curve = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    for (const key of ["key.pem", "other.pem"]) await openssl("genpkey", ...curve, "-out", at(key));
    await openssl("pkey", "-in", at("other.pem"), "-pubout", "-out", at("other.pub"));
    await release("publish", "--key", at("key.pem"), "--base", "debootstrap", "--to", at("out"), "--allow-dirty");
  }, 30 * 60_000);
  afterAll(async () => {
    await docker("rmi", `${name}:${version}`).catch(() => undefined);
    registry?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it("is verified with its public key, and refused with another one", async () => {
    const { stdout } = await release("verify", "--key", at("out/stoker.pub"));
    expect(stdout).toMatch(
      /@sha256:[0-9a-f]{64}: signed; attested: https:\/\/slsa.dev\/provenance\/v1, https:\/\/cyclonedx.org\/bom/,
    );
    await expect(release("verify", "--key", at("other.pub"))).rejects.toMatchObject({
      stderr: expect.stringContaining("has no signature of this key"),
    });
  });

  it("has a signature in cosign's form that openssl verifies", async () => {
    const repository = openRepository(name);
    const image = await repository.manifest(version);
    const digest = image?.digest ?? "";
    const signature = (await repository.manifest(`${digest.replace(":", "-")}.sig`))?.manifest as Manifest;
    expect(signature.layers).toHaveLength(1);
    const [layer] = signature.layers;
    expect(layer?.mediaType).toBe("application/vnd.dev.cosign.simplesigning.v1+json");
    const payload = await repository.blob(layer?.digest ?? "");
    expect(JSON.parse(payload.toString())).toEqual({
      critical: {
        identity: { "docker-reference": name },
        image: { "docker-manifest-digest": digest },
        type: "cosign container image signature",
      },
      optional: null,
    });
    writeFileSync(at("payload"), payload);
    writeFileSync(at("signature"), layer?.annotations?.["dev.cosignproject.cosign/signature"] ?? "", "base64");
    const { stdout } = await openssl(
      ...["dgst", "-sha256", "-verify", at("out/stoker.pub"), "-signature", at("signature"), at("payload")],
    );
    expect(stdout.trim()).toBe("Verified OK");
  });

  it("attests the commit it was built from and the bill of materials inside", async () => {
    const read = (file: string) => JSON.parse(readFileSync(at(`out/${file}`), "utf8")) as Statement;
    const commit = (await run("git", ["-C", root, "rev-parse", "HEAD"])).stdout.trim();
    const provenance = read("stoker-control-plane.provenance.json");
    expect(JSON.stringify(provenance.predicate)).toContain(`"gitCommit":"${commit}"`);
    const { predicate, subject } = read("stoker-control-plane.sbom.json");
    expect(await schemaErrors(JSON.stringify(predicate))).toBeNull();
    expect(predicate).toMatchObject({ metadata: { component: { name: "stoker-control-plane" } } });
    expect(subject).toEqual(provenance.subject);
    expect(readFileSync(at("out/images.txt"), "utf8")).toBe(`${name}@sha256:${subject[0]?.digest.sha256}\n`);
  });

  it("brings the command line's package, which is signed, and the text of its changes", async () => {
    const archive = at(`out/stoker-cli-${version}.tgz`);
    writeFileSync(at("archive.sig"), readFileSync(`${archive}.sig`, "utf8"), "base64");
    const { stdout } = await openssl(
      ...["dgst", "-sha256", "-verify", at("out/stoker.pub"), "-signature", at("archive.sig"), archive],
    );
    expect(stdout.trim()).toBe("Verified OK");
    const changes = readFileSync(at("out/changes.md"), "utf8");
    expect(changes).toMatch(/^# Stoker \d/);
    expect(changes.split("## For operators").map((part) => part.length > 500)).toEqual([true, true]);
  });

  it.runIf(existsSync(cosign))("is verified by cosign itself", async () => {
    const offline = ["--insecure-ignore-tlog=true", "--allow-http-registry=true", "--key", at("out/stoker.pub")];
    const { stdout } = await run(cosign, ["verify", ...offline, `${name}:${version}`]);
    expect(stdout).toContain('"type":"cosign container image signature"');
    await run(cosign, ["verify-attestation", "--type", "slsaprovenance1", ...offline, `${name}:${version}`]);
    const archive = at(`out/stoker-cli-${version}.tgz`);
    const blob = ["--insecure-ignore-tlog=true", "--key", at("out/stoker.pub"), "--signature", `${archive}.sig`];
    await run(cosign, ["verify-blob", ...blob, archive]);
    await expect(
      run(cosign, ["verify", ...offline.slice(0, 3), at("other.pub"), `${name}:${version}`]),
    ).rejects.toThrow();
  });
  if (!existsSync(cosign))
    console.warn("NOT PROVEN: that cosign verifies the signature; openssl does. scripts/go-tools.sh cosign");
});
