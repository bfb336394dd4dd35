// Chooses the ONNX graphs of a repository for an engine, with their external data. Both sides use it, so that the control plane
// plans space for the files that the agent downloads.
import type { RepoFile } from "./gguf-choice.ts";

/** `model.onnx_data`, `model.onnx_data_1`, `model.onnx.data`, `decoder.data`: weights that an .onnx file keeps beside itself. */
const onnxData = /\.(onnx_data(_\d+)?|onnx\.data|data)$/i;
const preferredNames = ["onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx", "model_quantized.onnx"];
const otherPrecision = /_(fp16|quantized|int8|uint8|q8|q4|q4f16|bnb4)\.onnx$/;

/** Empty where there is none, or not the one that is named. */
export function chooseOnnx<F extends RepoFile>(files: readonly F[], named: string | undefined): readonly F[] {
  const graphs = files.filter(({ path }) => isGraph(path));
  const wanted = named ?? preferredNames.find((path) => graphs.some((graph) => graph.path === path));
  const chosen =
    wanted === undefined
      ? graphs.filter((graph) => !isCopy(graph, graphs))
      : graphs.filter(({ path }) => path === wanted);
  const stems = chosen.map(({ path }) => path.replace(/\.onnx$/i, ""));
  const data = files.filter(({ path }) => onnxData.test(path) && stems.some((stem) => path.startsWith(`${stem}.`)));
  return [...chosen, ...data];
}

export const isGraph = (path: string): boolean => /\.onnx$/i.test(path);

/** The same graph in fewer bits, where the full one is there too. */
function isCopy({ path }: RepoFile, graphs: readonly RepoFile[]): boolean {
  const full = path.replace(otherPrecision, ".onnx");
  return full !== path && graphs.some((graph) => graph.path === full);
}
