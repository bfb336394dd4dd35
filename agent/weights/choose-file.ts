// Which GGUF model of a repository the engine gets when the deployment names none, and which files make it up.
import { WeightsError } from "./weights-error.ts";

export interface RepoFile {
  readonly path: string;
  /** Undefined where the list does not tell. */
  readonly sizeBytes: number | undefined;
}

const wanted = [/(^|[^a-z0-9])q4_k_m([^a-z0-9]|$)/i, /(^|[^a-z0-9])q8_0([^a-z0-9]|$)/i];
/** GGUF files that are no language model by themselves. */
const companion = /(^|\/|[._-])(mmproj|imatrix|lora|adapter)([._-]|$)/i;
const part = /^(?<stem>.*)-(?<number>\d{5})-of-(?<count>\d{5})\.gguf$/i;

/** Whether the path is one of the parts of a split model. */
export const isPart = (path: string): boolean => part.test(path);

/**
 * The parts in order, or the one file: Q4_K_M, then Q8_0, then the smallest; a whole file before a split one. The engine is
 * given the first and finds the others beside it. Throws what would work when no file can be used.
 */
export function chooseModel<F extends RepoFile>(repo: string, files: readonly F[]): readonly F[] {
  const usable = files.filter(({ path }) => /\.gguf$/i.test(path) && !companion.test(path));
  const groups = [...Map.groupBy(usable, ({ path }) => stemOf(path)).values()];
  const models = groups.map(wholeOf).filter((model) => model !== undefined);
  models.sort(bySizeThenPath);
  const ofForm = (form: RegExp) => models.filter(([first]) => form.test(first?.path ?? ""));
  for (const candidates of [...wanted.map(ofForm), models]) {
    const found = candidates.find((model) => model.length === 1) ?? candidates[0];
    if (found) return found;
  }
  throw unsupported(usable.length > 0 ? partsMissing(repo, usable[0]?.path ?? "") : refusal(repo, files));
}

/** A model that the deployment named itself; of a split one any part may be named. */
export function partsOf<F extends RepoFile>(repo: string, path: string, files: readonly F[]): readonly F[] {
  const found = wholeOf(files.filter((file) => stemOf(file.path) === stemOf(path)));
  if (!found) throw unsupported(partsMissing(repo, path));
  return found;
}

/** A file the deployment named itself. */
export function refuseOtherFormats(repo: string, path: string): void {
  if (!/\.gguf$/i.test(path)) throw unsupported(refusal(repo, [{ path, sizeBytes: undefined }]));
}

/** One folder with one model in it, on this host. */
export function chooseFile(place: string, files: readonly RepoFile[]): string {
  return chooseModel(place, files)[0]?.path ?? "";
}

function stemOf(path: string): string {
  const { stem, count } = part.exec(path)?.groups ?? {};
  return stem === undefined ? path : `${stem}-of-${count}`;
}

/** In order; undefined when one is missing. */
function wholeOf<F extends RepoFile>(group: readonly F[]): readonly F[] | undefined {
  const sorted = [...group].sort((a, b) => (a.path < b.path ? -1 : 1));
  const count = part.exec(sorted[0]?.path ?? "")?.groups?.["count"];
  if (count === undefined) return sorted.length > 0 ? sorted.slice(0, 1) : undefined;
  const isWhole = sorted.every(({ path }, index) => Number(part.exec(path)?.groups?.["number"]) === index + 1);
  return isWhole && sorted.length === Number(count) ? sorted : undefined;
}

function partsMissing(repo: string, path: string): string {
  return `${repo} does not have every part of ${path}: name a repository that has the whole model, or another file of this one.`;
}

function refusal(repo: string, files: readonly RepoFile[]): string {
  const name = repo.split("/")[1] ?? repo;
  const has = (form: RegExp): boolean => files.some(({ path }) => form.test(path));
  const what = has(/\.safetensors$/i)
    ? "holds its weights as safetensors, which this engine cannot read"
    : has(/\.(bin|pt|pth|ckpt|pkl)$/i)
      ? "holds its weights as pickle files, which can run code when they are loaded and are refused"
      : has(/\.onnx$/i)
        ? "holds its weights as ONNX, which this engine cannot read"
        : "holds no model weights";
  return `${repo} ${what}; this engine loads GGUF: name a repository of the same model in that form (often called ${name}-GGUF), or one .gguf file of it.`;
}

export function unsupported(text: string): WeightsError {
  return new WeightsError("weights_unsupported", text, { retryable: false });
}

function bySizeThenPath(a: readonly RepoFile[], b: readonly RepoFile[]): number {
  const size = (files: readonly RepoFile[]): number =>
    files.reduce((sum, file) => sum + (file.sizeBytes ?? Number.POSITIVE_INFINITY), 0);
  if (size(a) !== size(b)) return size(a) - size(b);
  return (a[0]?.path ?? "") < (b[0]?.path ?? "") ? -1 : 1;
}
