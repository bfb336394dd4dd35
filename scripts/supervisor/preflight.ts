import { accessSync, chmodSync, constants, existsSync, mkdirSync, statfsSync } from "node:fs";
import { dirname, join } from "node:path";
import { UpError } from "./up-error.ts";

const leastFreeBytes = 1e9;

/** Checks what can be known before anything starts and makes the data folder. Throws UpError with one clear sentence. */
export function preflight(dataDir: string): void {
  const major = Number(process.versions.node.split(".")[0]);
  if (major < 24) throw new UpError(`Stoker needs Node 24 and this is ${process.version}; start it with ./scripts/up.`);
  if (process.platform === "win32") throw new UpError("Stoker runs on Linux and macOS; on Windows use WSL.");
  demandSpace(dataDir);
  makeFolders(dataDir);
}

function demandSpace(dataDir: string): void {
  let place = dataDir;
  while (!existsSync(place) && dirname(place) !== place) place = dirname(place);
  const stats = statfsSync(place);
  const free = stats.bavail * stats.bsize;
  if (free < leastFreeBytes) {
    throw new UpError(
      `No disk space: ${place} has ${Math.floor(free / 1e6)} MB free and Stoker needs about 1000 MB; free some or choose another folder with --data.`,
    );
  }
}

function makeFolders(dataDir: string): void {
  try {
    if (!existsSync(dataDir)) {
      // Under root PostgreSQL runs as another user, which must be able to pass through to its own folder.
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
    throw new UpError(
      `The data folder ${dataDir} cannot be written (${code}); give your user the folder or choose another with --data.`,
      { cause: error },
    );
  }
}
