// Builds the console into console/dist, where the control plane reads it. Usage: npm run build. `scripts/up` and `scripts/test` build
// it where its sources changed.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { globSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = join(import.meta.dirname, "..");
const dist = join(root, "console/dist");
/** Holds the hash of the sources that the rest was built from. */
const stamp = "sources.sha256";

/** Builds the console unless console/dist comes from these sources. Throws Error with what the build printed. */
export async function buildConsole(): Promise<void> {
  const wanted = hashOfSources();
  if (builtFrom(dist) === wanted) return;
  // Replaced as a whole: a control plane may read it meanwhile, and another build run.
  const made = `${dist}.${process.pid}`;
  const vite = join(root, "node_modules/vite/bin/vite.js");
  try {
    await promisify(execFile)(process.execPath, [vite, "build", "console", "--outDir", made, "--logLevel", "warn"], {
      cwd: root,
      env: { ...process.env, NODE_ENV: "production" },
    });
    writeFileSync(join(made, stamp), wanted);
    rmSync(dist, { recursive: true, force: true });
    renameSync(made, dist);
  } catch (error) {
    if (builtFrom(dist) === wanted) return;
    const { stderr, message } = error as Error & { readonly stderr?: string };
    throw new Error(`The console could not be built: ${stderr || message}`, { cause: error });
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}

function hashOfSources(): string {
  const sources = globSync(["console/**/*.{ts,tsx,css,html,svg}", "proto/**/*.ts", "package-lock.json"], {
    cwd: root,
    exclude: ["console/dist*/**"],
  });
  const hash = createHash("sha256");
  for (const path of sources.sort()) hash.update(`${path}\0`).update(readFileSync(join(root, path)));
  return hash.digest("hex");
}

function builtFrom(folder: string): string | undefined {
  try {
    return readFileSync(join(folder, stamp), "utf8");
  } catch {
    return undefined;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildConsole();
