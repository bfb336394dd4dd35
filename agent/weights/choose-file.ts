// Which file of a repository the engine gets when the deployment names none.
import { WeightsError } from "./weights-error.ts";

export interface RepoFile {
  readonly path: string;
  /** Undefined where the list does not tell. */
  readonly sizeBytes: number | undefined;
}

const wanted = [/(^|[^a-z0-9])q4_k_m([^a-z0-9]|$)/i, /(^|[^a-z0-9])q8_0([^a-z0-9]|$)/i];
/** GGUF files that are no language model by themselves. */
const companion = /(^|\/|[._-])(mmproj|imatrix|lora|adapter)([._-]|$)/i;
const part = /-\d{5}-of-\d{5}\.gguf$/i;

/** Q4_K_M, then Q8_0, then the smallest. Throws what would work when no file can be used. */
export function chooseFile(repo: string, files: readonly RepoFile[]): string {
  const models = files.filter(({ path }) => /\.gguf$/i.test(path) && !companion.test(path));
  const whole = models.filter(({ path }) => !part.test(path)).sort(bySizeThenPath);
  for (const form of wanted) {
    const found = whole.find(({ path }) => form.test(path));
    if (found) return found.path;
  }
  if (whole[0]) return whole[0].path;
  throw unsupported(refusal(repo, files, models.length > 0));
}

/** A file the deployment named itself. */
export function refuseOtherFormats(repo: string, path: string): void {
  if (part.test(path)) throw unsupported(refusal(repo, [], true));
  if (!/\.gguf$/i.test(path)) throw unsupported(refusal(repo, [{ path, sizeBytes: undefined }], false));
}

function refusal(repo: string, files: readonly RepoFile[], isSplit: boolean): string {
  const name = repo.split("/")[1] ?? repo;
  if (isSplit)
    return `${repo} has its GGUF weights split into several files, which cannot be loaded yet: name a repository or a file with the model in one .gguf file.`;
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

function unsupported(text: string): WeightsError {
  return new WeightsError("weights_unsupported", text, { retryable: false });
}

function bySizeThenPath(a: RepoFile, b: RepoFile): number {
  const size = (file: RepoFile): number => file.sizeBytes ?? Number.POSITIVE_INFINITY;
  if (size(a) !== size(b)) return size(a) - size(b);
  return a.path < b.path ? -1 : 1;
}
