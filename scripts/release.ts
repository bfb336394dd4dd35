// Makes a release (CONTRIBUTING.md, "Release").
// Usage: node scripts/release.ts cut VERSION        sets the version and the changelogs' date, commits and tags
//        node scripts/release.ts open VERSION       adds the changelogs' sections of the next version, and sets it
//        node scripts/release.ts publish --registry HOST/PATH --key FILE --base IMAGE|debootstrap [--only TARGET] [--to FOLDER]
//                       [--platforms linux/amd64,linux/arm64]
//                                                   builds, pushes, signs and attests the images, and packs and signs the command line
//        node scripts/release.ts verify --registry HOST/PATH --key FILE [--only TARGET]
//                                                   verifies the images in the registry with the public key
//   --registry      images are HOST/PATH/stoker-TARGET:VERSION; STOKER_REGISTRY_USER and STOKER_REGISTRY_PASSWORD sign in
//   --key           ECDSA P-256 key in PEM: the private one to publish, the public one to verify (also with cosign)
//   --platforms     also pushes each image as stoker-TARGET:VERSION-amd64 and the like; VERSION is then an index of them (scripts/runtime-image.sh says
//                   what other platforms need)
//   --allow-dirty   publish sources that are not committed; the provenance says so
import { execFileSync } from "node:child_process";
import { createHash, createPublicKey, type KeyObject } from "node:crypto";
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { openSection, releaseSection, sectionOf } from "./release/changelog.ts";
import { putIndex } from "./release/platforms.ts";
import { openRepository, type Repository } from "./release/registry.ts";
import {
  attest,
  readPrivateKey,
  readPublicKey,
  signFile,
  signImage,
  statementsOf,
  verifyImage,
} from "./release/signatures.ts";
import { type Built, contentsOf, missingTypes, provenanceOf } from "./release/statements.ts";
import { currentVersion, setVersion } from "./release/version.ts";

const root = resolve(import.meta.dirname, "..");
const targets = ["runtime", "agent", "control-plane"] as const;
const changelogs = ["CHANGELOG.md", "docs/changelog.md"];
const option = { type: "string" } as const;
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    registry: option,
    key: option,
    base: option,
    only: option,
    platforms: option,
    to: { ...option, default: "release" },
    "allow-dirty": { type: "boolean", default: false },
  },
});
const commands: Readonly<Record<string, () => void | Promise<void>>> = { cut, open, publish, verify };

try {
  const command = commands[positionals[0] ?? ""];
  if (!command) throw new Error("Give cut, open, publish or verify; see the head of scripts/release.ts.");
  await command();
} catch (error) {
  process.stderr.write(`release: ${(error as Error).message}\n`);
  process.exit(1);
}

function cut(): void {
  const version = versionArgument();
  requireCommitted();
  requireRecordedDatabase();
  const today = new Date().toISOString().slice(0, 10);
  changeLogs((text) => releaseSection(text, version, today));
  setVersion(root, version);
  git("commit", "--all", "--message", `release: ${version}`);
  git("tag", "--annotate", `v${version}`, "--message", `Stoker ${version}`);
  console.log(
    `Tagged v${version}. Push the commit and the tag, then publish: node scripts/release.ts publish --registry ... --key ... --base ...`,
  );
}

function open(): void {
  const version = versionArgument();
  changeLogs((text) => openSection(text, version));
  setVersion(root, version);
  console.log(`This is ${version} now. Review and commit the changes.`);
}

async function publish(): Promise<void> {
  const registry = required("registry");
  const key = readPrivateKey(readFileSync(required("key"), "utf8"));
  const base = required("base");
  const isCommitted = git("status", "--porcelain") === "";
  if (!isCommitted && !values["allow-dirty"]) requireCommitted();
  const version = currentVersion(root);
  const folder = resolve(values.to);
  mkdirSync(folder, { recursive: true });
  const source = {
    sourceUri: `pkg:generic/stoker@${version}`,
    commit: git("rev-parse", "HEAD"),
    isCommitted,
    lockDigest: createHash("sha256")
      .update(readFileSync(join(root, "package-lock.json")))
      .digest("hex"),
  };
  const digests: string[] = [];
  for (const target of chosenTargets()) {
    const repository = openRepository(`${registry}/stoker-${target}`, credentials());
    const images: string[] = [];
    for (const platform of values.platforms?.split(",") ?? [undefined])
      images.push(await publishImage(repository, { target, base, platform, ...source }, folder, key));
    const [image] = images;
    const digest = values.platforms ? await putIndex(repository, version, images) : image;
    if (digest === undefined) throw new Error(`Nothing was published of ${target}.`);
    if (digest !== image) await signImage(repository, digest, key);
    digests.push(`${repository.repository}@${digest}`);
    console.log(`Published ${repository.repository}:${version}@${digest}`);
  }
  run(process.execPath, [join(root, "scripts/pack-cli.ts"), "--to", folder]);
  writeFileSync(join(folder, "images.txt"), `${digests.join("\n")}\n`);
  for (const file of [`stoker-cli-${version}.tgz`, "images.txt"].map((name) => join(folder, name)))
    writeFileSync(`${file}.sig`, signFile(readFileSync(file), key));
  writeFileSync(join(folder, "stoker.pub"), createPublicKey(key).export({ type: "spki", format: "pem" }));
  const [operators, users] = changelogs.map((name) => sectionOf(readFileSync(join(root, name), "utf8"), version));
  writeFileSync(join(folder, "changes.md"), `# Stoker ${version}\n\n${users}\n\n## For operators\n\n${operators}\n`);
  console.log(`Wrote ${folder}: digests, statements, public key, changes, command line.`);
}

/** Builds, pushes, signs and attests the image of one platform. Returns its digest. */
async function publishImage(
  repository: Repository,
  source: Omit<Built, "name" | "digest" | "startedAt" | "finishedAt">,
  folder: string,
  key: KeyObject,
): Promise<string> {
  const startedAt = new Date();
  const { target, base, platform } = source;
  const processor = platform === undefined ? "" : `-${platform.replace("linux/", "")}`;
  const tag = `${repository.repository}:${currentVersion(root)}${processor}`;
  const build = ["--target", target, "--base", base, "--tag", tag];
  if (platform !== undefined) build.push("--platform", platform);
  run("sh", [join(root, "scripts/runtime-image.sh"), ...build]);
  const digest = /digest: (sha256:[0-9a-f]{64})/.exec(run("docker", ["push", tag]))?.[1];
  if (digest === undefined) throw new Error(`docker push printed no digest of ${tag}.`);
  const built = { name: repository.repository, digest, ...source, startedAt, finishedAt: new Date() };
  const bom = JSON.parse(run("docker", ["run", "--rm", "--network", "none", "--entrypoint", "cat", tag, bomOf(tag)]));
  const statements = [provenanceOf(built), contentsOf(built, bom)];
  await signImage(repository, digest, key);
  await attest(repository, digest, statements, key);
  for (const [i, kind] of ["provenance", "sbom"].entries())
    writeFileSync(
      join(folder, `stoker-${target}${processor}.${kind}.json`),
      `${JSON.stringify(statements[i], null, 2)}\n`,
    );
  return digest;
}

async function verify(): Promise<void> {
  const registry = required("registry");
  const key = readPublicKey(readFileSync(required("key"), "utf8"));
  const version = currentVersion(root);
  for (const target of chosenTargets()) {
    const repository = openRepository(`${registry}/stoker-${target}`, credentials());
    const found = await repository.manifest(version);
    if (!found) throw new Error(`The registry has no ${repository.repository}:${version}.`);
    await verifyImage(repository, found.digest, key);
    const images = "manifests" in found.manifest ? found.manifest.manifests : [{ digest: found.digest }];
    if (images.length === 0) throw new Error(`${repository.repository}:${version} is signed, but names no image.`);
    for (const { digest } of images) {
      await verifyImage(repository, digest, key);
      const statements = await statementsOf(repository, digest, key);
      const kinds = statements.map(({ predicateType }) => predicateType).join(", ");
      const missing = missingTypes(statements);
      if (missing.length > 0)
        throw new Error(`${repository.repository}@${digest} is signed, but not attested: ${missing.join(", ")}.`);
      console.log(`${repository.repository}@${digest}: signed; attested: ${kinds}`);
    }
  }
}

function chosenTargets(): readonly string[] {
  const { only } = values;
  if (only === undefined) return targets;
  if (!(targets as readonly string[]).includes(only)) throw new Error(`--only must be ${targets.join(", ")}.`);
  return [only];
}

function changeLogs(change: (text: string) => string): void {
  const changed = changelogs.map((name) => [join(root, name), change(readFileSync(join(root, name), "utf8"))] as const);
  for (const [path, text] of changed) writeFileSync(path, text);
}

function versionArgument(): string {
  const version = positionals[1] ?? "";
  if (!/^\d+\.\d+\.\d+(-[0-9a-z.]+)?$/.test(version)) throw new Error("Give the version, such as 0.2.0.");
  return version;
}

function required(name: "registry" | "key" | "base"): string {
  const value = values[name];
  if (!value) throw new Error(`--${name} is missing; see the head of scripts/release.ts.`);
  return value;
}

function requireCommitted(): void {
  if (git("status", "--porcelain") !== "") throw new Error("The tree has changes that are not committed.");
}

function requireRecordedDatabase(): void {
  const newest = globSync("*.ts", { cwd: join(root, "control-plane/store/migrations") })
    .toSorted()
    .at(-1);
  const recorded = `test/fixtures/databases/${newest?.replace(/\.ts$/, ".sql")}`;
  if (!existsSync(join(root, recorded)))
    throw new Error(`${recorded} is missing: record a database of this release (test/fixtures/databases/README.md).`);
}

function credentials() {
  const { STOKER_REGISTRY_USER: user, STOKER_REGISTRY_PASSWORD: password } = process.env;
  return user && password ? { user, password } : undefined;
}

function bomOf(image: string): string {
  return run("docker", ["inspect", "--format", '{{index .Config.Labels "stoker.sbom"}}', image]).trim();
}

function git(...args: string[]): string {
  return run("git", ["-C", root, ...args]).trim();
}

function run(command: string, args: readonly string[]): string {
  return execFileSync(command, args, {
    encoding: "utf8",
    maxBuffer: 256 * 1024 * 1024,
    stdio: ["ignore", "pipe", "inherit"],
  });
}
