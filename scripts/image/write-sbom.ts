// Inside the image build: writes the image's bill of materials (CycloneDX), from what the image holds.
// Usage: node write-sbom.ts --name IMAGE --base BASE_IMAGE --npm FILE --checksums FILE --app FOLDER --to FILE
//   --npm         the output of `npm sbom` for the packages that were installed from package-lock.json
//   --checksums   SHA-512 of packages that come without it
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { parseArgs, parseEnv } from "node:util";
import { type Bom, type Component, npmPurl, onlyPackages, serialNumberOf } from "./cyclonedx.ts";

interface InstalledPackage {
  readonly folder: string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
}

const option = { type: "string" } as const;
const { values } = parseArgs({
  options: { name: option, base: option, npm: option, checksums: option, app: option, to: option },
});
const { name, base, npm, checksums, app, to } = values;
if (!name || !base || !npm || !checksums || !app || !to)
  throw new Error("Give every option; see the head of this file.");

const checksumOf = new Map(
  readFileSync(checksums, "utf8")
    .split("\n")
    .map((line) => line.split(" ") as [string, string]),
);
const installed = installedPackages(app);
const fromLock = onlyPackages(JSON.parse(readFileSync(npm, "utf8")) as Bom, new Set(installed.map(({ purl }) => purl)));
const stoker = fromLock.metadata.component;
const llama = llamaBuilds();
const components = [
  { ...stoker, name: "stoker" },
  ...npmComponents(),
  ...llama,
  node(),
  operatingSystem(),
  ...debianPackages(),
];
const image = { type: "container", name, version: stoker.version ?? "", "bom-ref": `image:${name}` } as const;
const dependencies = fromLock.dependencies.map(({ ref, dependsOn = [] }) => ({
  ref,
  dependsOn: [...dependsOn, ...(ref.startsWith("node-llama-cpp@") ? llama.map(refOf) : [])],
}));
const bom = {
  ...fromLock,
  serialNumber: serialNumberOf([name, base, components]),
  metadata: {
    ...fromLock.metadata,
    timestamp: createdAt().toISOString(),
    lifecycles: [{ phase: "build" }],
    component: { ...image, properties: [{ name: "stoker:base-image", value: base }] },
  },
  components,
  dependencies: [{ ref: image["bom-ref"], dependsOn: components.map(refOf) }, ...dependencies],
};
mkdirSync(dirname(to), { recursive: true });
writeFileSync(to, `${JSON.stringify(bom, null, 2)}\n`);
console.log(`${to}: ${components.length} components`);

/** Time of the commit where the build gives it, so that a second build writes the same file. */
function createdAt(): Date {
  const seconds = process.env["SOURCE_DATE_EPOCH"];
  return seconds ? new Date(Number(seconds) * 1000) : new Date();
}

function installedPackages(folder: string): InstalledPackage[] {
  return globSync(["**/node_modules/*/package.json", "**/node_modules/@*/*/package.json"], { cwd: folder })
    .sort()
    .map((path) => {
      const { name, version } = JSON.parse(readFileSync(join(folder, path), "utf8"));
      return { folder: join(folder, dirname(path)), name, version, purl: npmPurl(name, version) };
    });
}

/** Fails for a package that neither package-lock.json nor the checksums name. */
function npmComponents(): Component[] {
  const locked = new Map(fromLock.components.map((component) => [component.purl, component]));
  return [...new Map(installed.map((one) => [one.purl, one])).values()].map((one) => {
    const files = installed.filter(({ purl }) => purl === one.purl).flatMap(({ folder }) => nativeFiles(folder));
    return { ...(locked.get(one.purl) ?? checked(one)), ...(files.length > 0 && { components: files }) };
  });
}

function checked({ folder, name, version, purl }: InstalledPackage): Component {
  const content = checksumOf.get(`${name}@${version}`);
  if (content === undefined)
    throw new Error(`${folder} is ${name}@${version}, which neither package-lock.json nor ${checksums} names.`);
  return {
    type: "library",
    name,
    version,
    "bom-ref": `${name}@${version}`,
    purl,
    hashes: [{ alg: "SHA-512", content }],
  };
}

/** Compiled files of a package, without those of packages inside it. */
function nativeFiles(folder: string): Component[] {
  return globSync("**/*.{node,so,so.*}", { cwd: folder, exclude: ["**/node_modules/**"] })
    .sort()
    .map((path) => fileComponent(join(folder, path)));
}

function fileComponent(path: string): Component {
  const name = `/${relative("/", path)}`;
  return { type: "file", name, "bom-ref": `file:${name}`, hashes: [sha256(path)] };
}

function sha256(path: string) {
  return { alg: "SHA-256", content: createHash("sha256").update(readFileSync(path)).digest("hex") } as const;
}

/** Releases of llama.cpp that the builds inside were compiled from. */
function llamaBuilds(): Component[] {
  const builds = globSync("node_modules/@node-llama-cpp/*/bins/*/_nlcBuildMetadata.json", { cwd: app }).map((path) => {
    const { repo, release } = JSON.parse(readFileSync(join(app as string, path), "utf8")).buildOptions.llamaCpp;
    const purl = `pkg:github/${repo}@${encodeURIComponent(release)}`;
    return { type: "library", name: "llama.cpp", version: release, "bom-ref": purl, purl } as const;
  });
  return [...new Map(builds.map((component) => [component.purl, component])).values()];
}

function node(): Component {
  const { version, execPath, arch } = process;
  const purl = npmPurl(`node-linux-${arch}`, version.slice(1));
  return {
    type: "application",
    name: "node",
    version: version.slice(1),
    "bom-ref": purl,
    purl,
    components: [fileComponent(execPath)],
  };
}

function operatingSystem(): Component {
  const { ID = "linux", VERSION_ID = "" } = osRelease();
  return { type: "operating-system", name: ID, version: VERSION_ID, "bom-ref": `os:${ID}` };
}

function debianPackages(): Component[] {
  const { ID = "debian", VERSION_CODENAME } = osRelease();
  const format = `\${db:Status-Status}\t\${Package}\t\${Version}\t\${Architecture}\n`;
  return execFileSync("dpkg-query", ["--show", "--showformat", format], {
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  })
    .split("\n")
    .map((line) => line.split("\t") as [status: string, name: string, version: string, architecture: string])
    .filter(([status]) => status === "installed")
    .map(([, name, version, architecture]) => {
      // Package URLs keep the colon of an epoch.
      const escaped = encodeURIComponent(version).replaceAll("%3A", ":");
      const distribution = VERSION_CODENAME === undefined ? "" : `&distro=${VERSION_CODENAME}`;
      const purl = `pkg:deb/${ID}/${encodeURIComponent(name)}@${escaped}?arch=${architecture}${distribution}`;
      return { type: "library", name, version, "bom-ref": purl, purl } as const;
    });
}

function osRelease(): NodeJS.Dict<string> {
  return existsSync("/etc/os-release") ? parseEnv(readFileSync("/etc/os-release", "utf8")) : {};
}

function refOf(component: Component): string {
  return component["bom-ref"] ?? component.name;
}
