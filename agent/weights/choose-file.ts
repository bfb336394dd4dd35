// Chooses the GGUF model of a repository when the deployment names none, and the files that it consists of.
import { chooseGguf, isModelFile, isPart, type RepoFile, wholeModel } from "../../proto/gguf-choice.ts";
import { chooseOnnx, isGraph } from "../../proto/onnx-choice.ts";
import type { Format } from "./source.ts";
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

export function refuseOtherFormats(repo: string, path: string): void {
  if (!/\.gguf$/i.test(path)) throw unsupported(refusal(repo, [{ path, sizeBytes: undefined }]));
}

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

/** Configuration and vocabulary; never Python, never a pickle. */
const text = /(^|\/)([\w.-]+\.(json|jinja|txt|tiktoken|model|vocab)|LICENSE|NOTICE)$/;
const pickle = /\.(bin|pt|pth|ckpt|pkl|pickle|msgpack|h5|joblib|npz)$/i;
/** Above adapters of the highest rank for the largest models; limits the disk space that an adapter can use. */
const maxLoraBytes = 8 * 1024 ** 3;
export const maxImageLoraBytes = 2 * 1024 ** 3;
const imageLoraNames = ["adapter_model.safetensors", "pytorch_lora_weights.safetensors"];
const maxTextBytes = 64 * 1024 * 1024;
const maxTexts = 500;
const maxTextsBytes = 1e9;

/** Chooses the weights in one format that cannot run code, and the text files beside them. Returns small files first: they can end the download before the large ones start. Throws the reason when none is usable. */
export function chooseSnapshot<F extends RepoFile>(
  repo: string,
  format: Exclude<Format, "gguf">,
  file: string | undefined,
  files: readonly F[],
): readonly F[] {
  if (format === "image_lora") return imageLoraOf(repo, files, file);
  const texts = files.filter(({ path, sizeBytes = 0 }) => text.test(path) && sizeBytes <= maxTextBytes);
  const textsBytes = texts.reduce((sum, { sizeBytes = 0 }) => sum + sizeBytes, 0);
  if (texts.length > maxTexts || textsBytes > maxTextsBytes)
    throw unsupported(
      `${repo} has ${texts.length} text files of ${textsBytes} bytes beside its weights; at most ${maxTexts} files and ${maxTextsBytes} bytes are allowed. Name a repository or prefix without the others.`,
    );
  const weights = { safetensors: safetensorsOf, onnx: onnxOf, lora: loraOf }[format](repo, files, file);
  const size = (one: RepoFile): number => one.sizeBytes ?? Number.POSITIVE_INFINITY;
  return [...new Set([...texts, ...weights])].sort((a, b) => size(a) - size(b));
}

function safetensorsOf<F extends RepoFile>(repo: string, files: readonly F[]): readonly F[] {
  const all = files.filter(({ path }) => /\.safetensors$/i.test(path));
  // A pipeline keeps its parts in folders; elsewhere folders, and files called consolidated, are copies in another layout.
  const isPipeline = files.some(({ path }) => path === "model_index.json");
  const isNested = ({ path }: RepoFile): boolean => path.includes("/");
  const plain = all.filter((file) => isNested(file) === isPipeline);
  const usual = (plain.length > 0 ? plain : all).filter(({ path }) => !/(^|\/)consolidated\b/.test(path));
  const found = usual.length > 0 ? usual : all;
  if (found.length === 0) throw unsupported(without(repo, files, "safetensors", /\.safetensors$/i));
  const counts = /-(\d{5})-of-(\d{5})\.safetensors$/i;
  for (const group of Map.groupBy(found, ({ path }) => path.replace(/-\d{5}-of-/, "-of-")).values()) {
    const count = counts.exec(group[0]?.path ?? "")?.[2];
    if (count !== undefined && group.length !== Number(count))
      throw unsupported(
        `${repo} has ${group.length} of ${Number(count)} parts of its safetensors weights: name a revision that has all of them.`,
      );
  }
  return found;
}

function onnxOf<F extends RepoFile>(repo: string, files: readonly F[], file: string | undefined): readonly F[] {
  const found = chooseOnnx(files, file);
  if (found.length > 0) return found;
  const graphs = files.map(({ path }) => path).filter(isGraph);
  if (graphs.length === 0) throw unsupported(without(repo, files, "ONNX", /\.onnx$/i));
  throw unsupported(`${repo} has no ONNX file ${file}: name one of ${graphs.join(", ")}.`);
}

function loraOf<F extends RepoFile>(repo: string, files: readonly F[]): readonly F[] {
  const adapter = files.find(({ path }) => path === "adapter_model.safetensors");
  const config = files.find(({ path }) => path === "adapter_config.json");
  if ((adapter?.sizeBytes ?? 0) > maxLoraBytes)
    throw unsupported(`${repo} has an adapter of ${adapter?.sizeBytes} bytes: the most is ${maxLoraBytes}.`);
  if (adapter && config) return [config, adapter];
  if (files.some(({ path }) => path === "adapter_model.bin"))
    throw unsupported(
      `${repo} holds its adapter as adapter_model.bin, a pickle, which can run code when it is loaded and is refused: save it as adapter_model.safetensors.`,
    );
  throw unsupported(
    `${repo} is no PEFT adapter: adapter_config.json and adapter_model.safetensors must lie in its top folder.`,
  );
}

/** Returns the adapter's description first, then its file. Many tools write image adapters, under any name. */
function imageLoraOf<F extends RepoFile>(repo: string, files: readonly F[], named: string | undefined): readonly F[] {
  const all = files.filter(({ path }) => /\.safetensors$/i.test(path));
  const top = all.filter(({ path }) => !path.includes("/"));
  const usual = imageLoraNames.find((name) => top.some(({ path }) => path === name));
  const wanted = named ?? usual ?? (top.length === 1 ? top[0]?.path : undefined);
  const weights = all.find(({ path }) => path === wanted);
  if (!weights) {
    if (all.length === 0) throw unsupported(without(repo, files, "safetensors", /\.safetensors$/i));
    const names = all.map(({ path }) => path).join(", ");
    throw unsupported(`${repo} has no ${named ?? "single adapter"}: name one of its files: ${names}.`);
  }
  if ((weights.sizeBytes ?? 0) > maxImageLoraBytes)
    throw unsupported(`${repo} has an adapter of ${weights.sizeBytes} bytes: the most is ${maxImageLoraBytes}.`);
  const folder = weights.path.split("/").slice(0, -1);
  const config = files.find(({ path }) => path === [...folder, "adapter_config.json"].join("/"));
  return config ? [config, weights] : [weights];
}

function without(repo: string, files: readonly RepoFile[], wanted: string, form: RegExp): string {
  const has = (other: RegExp): boolean => files.some(({ path }) => other.test(path) && !form.test(path));
  const what = has(pickle)
    ? "holds its weights as pickle files, which can run code when they are loaded and are refused"
    : has(/\.gguf$/i)
      ? "holds its weights as GGUF"
      : has(/\.(safetensors|onnx)$/i)
        ? "holds its weights in another format"
        : "holds no model weights";
  return `${repo} ${what}; this engine loads ${wanted}: name a repository, or a revision of this one, that has the model in that form.`;
}
