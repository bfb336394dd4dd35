// Thread that adds adapters to copies of graphs' weights. The files of the model itself are everyone's and stay as they are.
import { constants } from "node:fs";
import { chmod, copyFile, type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AdapterRefusal } from "../../../llama/lora/adapter-refusal.ts";
import { type LayerWeight, readLayerWeights } from "../../../onnx/graph-weights.ts";
import { serveCalls } from "../../../threads/thread-calls.ts";
import { floatsOf, tensorOf } from "../float-tensor.ts";
import { deltasOf, type ImageAdapter } from "./adapter-file.ts";
import type { AdaptedPart, LayerDelta } from "./read-adapter.ts";

export type FoldFunctions = typeof functions;
type Paths = Readonly<Record<AdaptedPart, string>>;

const functions = {
  /** Writes the graphs that the adapters change and returns their parts. Throws AdapterRefusal. */
  async fold(adapters: readonly ImageAdapter[], sources: Paths, targets: Paths): Promise<AdaptedPart[]> {
    try {
      const deltas = (await Promise.all(adapters.map(deltasOf))).flat();
      const groups = Map.groupBy(deltas, (delta) => delta.part);
      for (const [part, group] of groups) await foldAdapter(sources[part], group, targets[part]);
      return [...groups.keys()];
    } catch (error) {
      throw refusalOf(error as NodeJS.ErrnoException);
    }
  },
};

function refusalOf(error: NodeJS.ErrnoException): Error {
  const { code, message } = error;
  if (error instanceof RangeError) return new AdapterRefusal(message);
  if (code === "ENOSPC")
    return new AdapterRefusal("the disk has no space for a copy of the model's UNet while it loads", {
      needsSpace: true,
    });
  if (code === "ENOENT" || code === "EACCES") return new AdapterRefusal(`the adapter cannot be read: ${message}`);
  return error;
}

/** Writes the graph with the deltas added to `target`, with what lies beside it. Throws AdapterRefusal, RangeError. */
async function foldAdapter(source: string, deltas: readonly LayerDelta[], target: string): Promise<void> {
  const weights = await readLayerWeights(source);
  const byName = new Map([...weights].map(([name, weight]) => [plain(name), weight]));
  const placed = deltas.map((delta) => ({ delta, weight: weightFor(delta, byName) }));
  const locations = [...new Set([...weights.values()].flatMap(({ location }) => location ?? []))];
  await copied(source, target);
  for (const location of locations) await copied(join(dirname(source), location), join(dirname(target), location));
  for (const [location, group] of Map.groupBy(placed, ({ weight }) => weight.location)) {
    const file = await open(location === undefined ? target : join(dirname(target), location), "r+");
    try {
      for (const { delta, weight } of group) await addTo(file, weight, delta);
    } finally {
      await file.close();
    }
  }
}

function weightFor(delta: LayerDelta, weights: ReadonlyMap<string, LayerWeight>): LayerWeight {
  const { layer, part, outputs, inputs } = delta;
  const weight = weights.get(layer);
  if (!weight)
    throw new AdapterRefusal(
      `the adapter changes ${layer}, and this model's ${part} has no such layer: it is for another base`,
    );
  if (weight.isShared)
    throw new AdapterRefusal(`this export keeps ${layer} together with another layer, so it cannot be changed alone`);
  if (weight.type === "other" || weight.bytes === 0)
    throw new AdapterRefusal(`this export keeps ${layer} as whole numbers; adapters are folded into float weights`);
  const [first = 0, ...rest] = weight.dims;
  const others = rest.reduce((a, b) => a * b, 1);
  const [wide, deep] = weight.isTransposed ? [others, first] : [first, others];
  if (wide !== outputs || deep !== inputs)
    throw new AdapterRefusal(
      `the adapter gives ${layer} ${outputs}x${inputs} and this model's is ${wide}x${deep}: it is for another base`,
    );
  return weight;
}

async function addTo(file: FileHandle, weight: LayerWeight, delta: LayerDelta): Promise<void> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(weight.bytes), 0, weight.bytes, weight.offset);
  if (bytesRead !== weight.bytes) throw new RangeError("the weights end too early");
  const isHalf = weight.type === "float16";
  const stored = new Uint8Array(buffer).buffer;
  const values = isHalf
    ? floatsOf({ type: "float16", data: new Uint16Array(stored), dims: [] })
    : new Float32Array(stored);
  added(values, delta, weight.isTransposed);
  const { data } = tensorOf(weight.type, values, weight.dims);
  await file.write(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 0, weight.bytes, weight.offset);
}

function added(
  values: Float32Array,
  { rank, outputs, inputs, down, up, scale }: LayerDelta,
  isTransposed: boolean,
): void {
  const row = new Float64Array(inputs);
  for (let out = 0; out < outputs; out++) {
    row.fill(0);
    for (let k = 0; k < rank; k++) {
      const share = scale * (up[out * rank + k] as number);
      for (let i = 0; i < inputs; i++) row[i] = (row[i] as number) + share * (down[k * inputs + i] as number);
    }
    for (let i = 0; i < inputs; i++) {
      const at = isTransposed ? i * outputs + out : out * inputs + i;
      values[at] = (values[at] as number) + (row[i] as number);
    }
  }
}

/** Names of layers as the adapters' compare: without the exporter's own prefix, `_` for every `.`. */
const plain = (name: string) => name.replace(/^unet\./, "").replaceAll(".", "_");

/** A file that shares its blocks with the original, where the disk can do that. */
async function copied(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await copyFile(from, to, constants.COPYFILE_FICLONE);
  // The original may be read-only, and so would be the copy.
  await chmod(to, 0o600);
}

serveCalls(functions);
