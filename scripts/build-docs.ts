// Builds the documentation site into docs/dist, where the control plane reads it. Usage: npm run build. `scripts/up` and `scripts/test`
// build it where its sources changed.
import { createHash } from "node:crypto";
import { globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Api } from "./docs/openapi-types.ts";

const root = join(import.meta.dirname, "..");
const dist = join(root, "docs/dist");
/** Holds the hash of the sources that the rest was built from. */
const stamp = "sources.sha256";

/** Builds the site unless docs/dist comes from these sources. Throws Error for a link that leads nowhere. */
export async function buildDocs(): Promise<void> {
  const wanted = hashOfSources();
  if (builtFrom(dist) === wanted) return;
  // Replaced as a whole: a control plane may read it at the same time, and another build may run.
  const made = `${dist}.${process.pid}`;
  try {
    // Loaded only for a build, which is rare.
    const { renderSite } = await import("./docs/site.ts");
    const api = JSON.parse(readFileSync(join(root, "docs/openapi.json"), "utf8")) as Api;
    for (const [name, content] of await renderSite(root, api)) {
      mkdirSync(dirname(join(made, name)), { recursive: true });
      writeFileSync(join(made, name), content);
    }
    writeFileSync(join(made, stamp), wanted);
    rmSync(dist, { recursive: true, force: true });
    renameSync(made, dist);
  } catch (error) {
    if (builtFrom(dist) !== wanted) throw new Error("The documentation could not be built.", { cause: error });
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}

function hashOfSources(): string {
  const patterns = [
    "CHANGELOG.md",
    "docs/**/*.md",
    "docs/openapi.json",
    "docs/site/*",
    "scripts/*docs.ts",
    "scripts/docs/*.ts",
  ];
  const hash = createHash("sha256");
  for (const path of globSync([...patterns, "package-lock.json"], { cwd: root }).sort())
    hash.update(`${path}\0`).update(readFileSync(join(root, path)));
  return hash.digest("hex");
}

function builtFrom(folder: string): string | undefined {
  try {
    return readFileSync(join(folder, stamp), "utf8");
  } catch {
    return undefined;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildDocs();
