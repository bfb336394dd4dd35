// Writes the bill of materials of the Stoker package: every package that package-lock.json pins for production, on
// any platform.
// Usage: npm run sbom [-- FILE]      FILE: stoker.cdx.json by default
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Bom, npmPurl, onlyPackages } from "./image/cyclonedx.ts";

interface LockedPackage {
  /** Missing where it is the name of the folder. */
  readonly name?: string;
  readonly version: string;
  readonly dev?: boolean;
}

const root = join(import.meta.dirname, "..");
const file = process.argv[2] ?? "stoker.cdx.json";
const { name, packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
  readonly name: string;
  readonly packages: Readonly<Record<string, LockedPackage>>;
};
const production = Object.entries(packages)
  .filter(([path, entry]) => path !== "" && !entry.dev)
  .map(([path, entry]) => ({ path, ...entry, purl: purlOf(path, entry) }));

// Not `--omit dev`: npm then leaves out packages of Stoker that a development tool needs as well, such as undici.
const everything = JSON.parse(
  execFileSync("npm", ["sbom", "--package-lock-only", "--sbom-format", "cyclonedx", "--sbom-type", "application"], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 256 * 1024 * 1024,
    stdio: ["ignore", "pipe", "inherit"],
  }),
) as Bom;
const bom = onlyPackages(everything, new Set(production.map(({ purl }) => purl)));

const listed = new Set(bom.components.map(({ purl }) => purl));
const missing = production.filter(({ purl }) => !listed.has(purl));
if (missing.length > 0) throw new Error(`npm sbom left out ${missing.map(({ path }) => path).join(", ")}.`);

// npm names the package after the folder it lies in.
const component = { ...bom.metadata.component, name };
writeFileSync(file, `${JSON.stringify({ ...bom, metadata: { ...bom.metadata, component } }, null, 2)}\n`);
console.log(`Wrote ${file}: ${bom.components.length} packages.`);

function purlOf(path: string, { name, version }: LockedPackage): string {
  return npmPurl(name ?? path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length), version);
}
