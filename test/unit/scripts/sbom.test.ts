import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Bom, npmPurl, onlyPackages } from "../../../scripts/image/cyclonedx.ts";
import { schemaErrors } from "../../fakes/cyclonedx.ts";

const root = join(import.meta.dirname, "../../..");
const readJson = (path: string) => JSON.parse(readFileSync(join(root, path), "utf8"));

describe("npm run sbom", () => {
  let folder: string;
  let text: string;
  let bom: Bom;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "stoker-sbom-"));
    const file = join(folder, "stoker.cdx.json");
    execFileSync("npm", ["run", "--silent", "sbom", "--", file], { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
    text = readFileSync(file, "utf8");
    bom = JSON.parse(text);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("writes a valid CycloneDX document of the package stoker", async () => {
    expect(await schemaErrors(text)).toBeNull();
    expect(bom.metadata.component).toMatchObject({ name: "stoker", type: "application" });
  });

  it("lists every direct dependency with its installed version", () => {
    const purls = bom.components.map(({ purl }) => purl);
    for (const name of Object.keys(readJson("package.json").dependencies)) {
      const { name: installed, version } = readJson(`node_modules/${name}/package.json`);
      expect(purls).toContain(npmPurl(installed, version));
    }
  });

  it("lists the production packages of package-lock.json and no others", () => {
    const locked = Object.entries<{ name?: string; version: string; dev?: boolean }>(
      readJson("package-lock.json").packages,
    )
      .filter(([path, { dev }]) => path !== "" && !dev)
      .map(([path, { name, version }]) => npmPurl(name ?? path.replace(/.*node_modules\//, ""), version));
    expect(bom.components.map(({ purl }) => purl).sort()).toEqual([...new Set(locked)].sort());
  });

  it("gives each package the SHA-512 that npm ci checks", () => {
    const { integrity } = readJson("package-lock.json").packages["node_modules/fastify"];
    const content = Buffer.from(integrity.replace("sha512-", ""), "base64").toString("hex");
    expect(bom.components.find(({ name }) => name === "fastify")?.hashes).toEqual([{ alg: "SHA-512", content }]);
  });
});

describe("package-lock.json", () => {
  it("has the SHA-512 of every package that Linux on x86-64 or arm64 with glibc installs", () => {
    interface Entry {
      readonly integrity?: string;
      readonly os?: readonly string[];
      readonly cpu?: readonly string[];
      readonly libc?: readonly string[];
    }
    const isInstalled = ({ os = ["linux"], cpu = ["x64"], libc = ["glibc"] }: Entry) =>
      os.includes("linux") && (cpu.includes("x64") || cpu.includes("arm64")) && libc.includes("glibc");
    const entries = Object.entries<Entry>(readJson("package-lock.json").packages).filter(
      ([path, entry]) => path !== "" && isInstalled(entry),
    );
    expect(entries.length).toBeGreaterThan(400);
    expect(entries.filter(([, { integrity = "" }]) => !integrity.startsWith("sha512-"))).toEqual([]);
  });
});

describe("CycloneDX validation", () => {
  it("rejects a component without a name", async () => {
    const bom = { bomFormat: "CycloneDX", specVersion: "1.5", version: 1, components: [{ type: "library" }] };
    expect(await schemaErrors(JSON.stringify(bom))).not.toBeNull();
  });
});

describe("onlyPackages", () => {
  it("removes dependencies on components that it removes, and repeated ones", () => {
    const component = (name: string) =>
      ({ type: "library", name, "bom-ref": name, purl: npmPurl(name, "1.0.0") }) as const;
    const bom: Bom = {
      bomFormat: "CycloneDX",
      specVersion: "1.5",
      metadata: { component: component("app") },
      components: [component("used"), component("unused")],
      dependencies: [
        { ref: "app", dependsOn: ["used", "used", "unused"] },
        { ref: "unused", dependsOn: ["used"] },
      ],
    };
    const kept = onlyPackages(bom, new Set(["pkg:npm/used@1.0.0"]));
    expect(kept.components.map(({ name }) => name)).toEqual(["used"]);
    expect(kept.dependencies).toEqual([{ ref: "app", dependsOn: ["used"] }]);
  });
});
