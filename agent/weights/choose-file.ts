// Chooses the GGUF model of a repository when the deployment names none, and the files that it consists of.
import { chooseGguf, isModelFile, isPart, type RepoFile, wholeModel } from "../../proto/gguf-choice.ts";
import { WeightsError } from "./weights-error.ts";

export { isPart, type RepoFile };

/**
 * The parts in order, or the one file: Q4_K_M, then Q8_0, then the smallest; a whole file before a split one. The engine is
 * given the first and finds the others beside it. Throws what would work when no file can be used.
 */
export function chooseModel<F extends RepoFile>(repo: string, files: readonly F[]): readonly F[] {
  const found = chooseGguf(files);
  if (found) return found;
  const usable = files.filter(isModelFile);
  throw unsupported(usable.length > 0 ? partsMissing(repo, usable[0]?.path ?? "") : refusal(repo, files));
}

/** Returns the model that the deployment named; any part of a split model can be named. */
export function partsOf<F extends RepoFile>(repo: string, path: string, files: readonly F[]): readonly F[] {
  const found = wholeModel(path, files);
  if (!found) throw unsupported(partsMissing(repo, path));
  return found;
}

/** Returns the file that the deployment named. */
export function refuseOtherFormats(repo: string, path: string): void {
  if (!/\.gguf$/i.test(path)) throw unsupported(refusal(repo, [{ path, sizeBytes: undefined }]));
}

/** Chooses the model in a folder of this host. */
export function chooseFile(place: string, files: readonly RepoFile[]): string {
  return chooseModel(place, files)[0]?.path ?? "";
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
