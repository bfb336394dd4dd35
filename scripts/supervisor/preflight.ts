import { accessSync, chmodSync, constants, existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { request } from "node:http";
import { join, resolve } from "node:path";
import { diskOf } from "./disk.ts";
import type { FirstModel } from "./first-models.ts";
import type { DriverChoice } from "./options.ts";
import { UpError } from "./up-error.ts";

/** Reserve for logs and usage of a running installation. */
const reserveBytes = 100e6;
/** Empty cluster with the write-ahead log of its first hours. */
const databaseBytes = 300e6;
/** Weights need twice their size while they are extracted from their package. */
const packageFactor = 2;

interface Installed {
  readonly dataDir: string;
  readonly demoModelsDirs: readonly string[];
  /** Models to deploy at the start. */
  readonly models: readonly Pick<FirstModel, "weights">[];
  /** False with an external database. */
  readonly keepsDatabase: boolean;
}

/** Checks the requirements and creates the data folder. Throws UpError. */
export function preflight(installed: Installed): void {
  const { dataDir } = installed;
  const major = Number(process.versions.node.split(".")[0]);
  if (major < 24) throw new UpError(`Stoker needs Node 24 and this is ${process.version}; start it with ./scripts/up.`);
  if (process.platform === "win32") throw new UpError("Stoker runs on Linux and macOS; on Windows use WSL.");
  requireSpace(dataDir, spaceNeeded(installed));
  makeFolders(dataDir);
}

/** Bytes that this start may write, including a reserve. */
export function spaceNeeded({ dataDir, demoModelsDirs, models, keepsDatabase }: Installed): number {
  const hasDatabase = ["postgres/cluster", "postgres.location"].some((path) => existsSync(join(dataDir, path)));
  return (
    reserveBytes +
    (keepsDatabase && !hasDatabase ? databaseBytes : 0) +
    models.reduce((sum, { weights }) => sum + missingBytes(weights, dataDir, demoModelsDirs), 0)
  );
}

function missingBytes(weights: FirstModel["weights"], dataDir: string, demoModelsDirs: readonly string[]): number {
  if (!weights) return 0;
  const isPresent =
    weights.kind === "package"
      ? existsSync(join(dataDir, "models/blobs", weights.sha256))
      : demoModelsDirs.some((folder) => existsSync(join(folder, weights.name)));
  if (isPresent) return 0;
  // The agent checks the size of hub downloads.
  return packageFactor * (weights.kind === "package" ? weights.sizeBytes : (weights.assembly?.sizeBytes ?? 0));
}

function requireSpace(dataDir: string, needed: number): void {
  const { place, freeBytes } = diskOf(dataDir);
  if (freeBytes >= needed) return;
  const [has, needs] = [Math.floor(freeBytes / 1e6), Math.ceil(needed / 1e6)];
  throw new UpError(
    `No disk space: ${place} has ${has} MB free and this start needs about ${needs} MB; free some or choose another folder with --data.`,
  );
}

function makeFolders(dataDir: string): void {
  try {
    if (!existsSync(dataDir)) {
      // If this is root, PostgreSQL runs as another user that must traverse this folder.
      const mode = process.getuid?.() === 0 ? 0o711 : 0o700;
      mkdirSync(dataDir, { recursive: true });
      chmodSync(dataDir, mode);
    }
    accessSync(dataDir, constants.W_OK | constants.X_OK);
    for (const folder of ["secrets", "logs", "run", "agents", "models"]) {
      mkdirSync(join(dataDir, folder), { recursive: true, mode: 0o700 });
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "error";
    if (statSync(dataDir, { throwIfNoEntry: false })?.isFile())
      throw new UpError(`${dataDir} is a file; name a folder with --data.`, { cause: error });
    throw new UpError(
      `The data folder ${dataDir} cannot be written (${code}); give your user the folder or choose another with --data.`,
      { cause: error },
    );
  }
}

/** Image of instances; scripts/runtime-image.sh builds it with this name. */
function runtimeImage(): string {
  const path = join(resolve(import.meta.dirname, "../.."), "package.json");
  const { version } = JSON.parse(readFileSync(path, "utf8")) as { version: string };
  return process.env["STOKER_RUNTIME_IMAGE"] ?? `stoker-runtime:${version}`;
}

/** Resolves `auto`: docker if an engine with the image is running. `why` explains a fallback, or is empty. */
export async function chooseDriver(choice: DriverChoice): Promise<{ driver: "docker" | "process"; why: string }> {
  if (choice === "process") return { driver: "process", why: "" };
  const image = runtimeImage();
  const status = await engineStatus(`/images/${encodeURIComponent(image)}/json`);
  if (status === 200) return { driver: "docker", why: "" };
  const lack =
    status === undefined
      ? "no Docker engine answers"
      : status === 404
        ? `the Docker engine has no image ${image} (scripts/runtime-image.sh builds it)`
        : `the Docker engine answered ${status}`;
  if (choice === "docker") throw new UpError(`--driver docker cannot be used: ${lack}.`);
  return { driver: "process", why: `Model servers run as plain processes, which is meant for development: ${lack}.` };
}

function engineStatus(path: string): Promise<number | undefined> {
  const host = process.env["DOCKER_HOST"] ?? "unix:///var/run/docker.sock";
  const where = host.startsWith("unix://")
    ? { socketPath: host.slice("unix://".length) }
    : { host: new URL(host.replace(/^tcp:/, "http:")).hostname, port: new URL(host.replace(/^tcp:/, "http:")).port };
  return new Promise((resolveStatus) => {
    const probe = request({ ...where, path, timeout: 3000 }, (answer) => {
      answer.resume();
      resolveStatus(answer.statusCode);
    });
    probe.once("timeout", () => probe.destroy(new Error("timeout")));
    probe.once("error", () => resolveStatus(undefined));
    probe.end();
  });
}
