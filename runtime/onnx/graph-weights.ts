// Locates the weights of a graph's layers in its files, by the layers' names, without loading the graph.
// Source of the field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
import { open } from "node:fs/promises";
import { ProtobufFile, type Span } from "./protobuf.ts";

const model = { graph: 7 } as const;
const graph = { node: 1, initializer: 5 } as const;
const node = { input: 1, name: 3, op: 4, attribute: 5 } as const;
const attribute = { name: 1, int: 3 } as const;
const tensor = { dims: 1, type: 2, floats: 4, name: 8, raw: 9, external: 13 } as const;
const types: Readonly<Record<number, LayerWeight["type"]>> = { 1: "float32", 10: "float16" };
const layerOps: ReadonlySet<string> = new Set(["MatMul", "Gemm", "Conv"]);

export interface LayerWeight {
  readonly type: "float32" | "float16" | "other";
  /** As it is stored. */
  readonly dims: readonly number[];
  /** Its rows are the layer's inputs, not its outputs. */
  readonly isTransposed: boolean;
  /** Another layer reads the same numbers. */
  readonly isShared: boolean;
  /** File beside the graph's own; undefined: in it. */
  readonly location: string | undefined;
  readonly offset: number;
  readonly bytes: number;
}

type Tensor = Omit<LayerWeight, "isTransposed" | "isShared">;
interface Layer {
  readonly name: string;
  readonly op: string;
  readonly weight: string;
  readonly isTransB: boolean;
}

/** By the layer's path in the model, e.g. `mid_block.attentions.0.proj_in`. Throws RangeError for what is no graph. */
export async function readLayerWeights(path: string): Promise<ReadonlyMap<string, LayerWeight>> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const reader = new ProtobufFile(file);
    const layers: Layer[] = [];
    const tensors = new Map<string, Tensor>();
    for await (const part of reader.fields({ start: 0, end: size })) {
      if (part.number !== model.graph || !part.span) continue;
      for await (const field of reader.fields(part.span)) {
        if (!field.span) continue;
        if (field.number === graph.node) layers.push(...(await readLayer(reader, field.span)));
        else if (field.number === graph.initializer) {
          const { name, ...rest } = await readTensor(reader, field.span);
          tensors.set(name, rest);
        }
      }
    }
    return byLayer(layers, tensors);
  } finally {
    await file.close();
  }
}

function byLayer(layers: readonly Layer[], tensors: ReadonlyMap<string, Tensor>): Map<string, LayerWeight> {
  const found = new Map<string, LayerWeight>();
  const users = Map.groupBy(layers, ({ weight }) => weight);
  for (const { name, op, weight, isTransB } of layers) {
    const stored = tensors.get(weight);
    if (!stored || stored.dims.length < 2) continue;
    const isTransposed = op === "MatMul" || (op === "Gemm" && !isTransB);
    found.set(name, { ...stored, isTransposed, isShared: (users.get(weight)?.length ?? 0) > 1 });
  }
  // Exports that turn a weight round in the graph keep its own name.
  for (const [name, stored] of tensors) {
    const layer = /^(.+)\.weight$/.exec(name)?.[1];
    if (layer !== undefined && stored.dims.length >= 2 && !users.has(name) && !found.has(layer))
      found.set(layer, { ...stored, isTransposed: false, isShared: false });
  }
  return found;
}

/** `/mid_block/attentions.0/proj_in/Conv`, as PyTorch's exporter names what a layer computes. */
async function readLayer(reader: ProtobufFile, span: Span): Promise<Layer[]> {
  const inputs: string[] = [];
  const attributes: Span[] = [];
  let name = "";
  let op = "";
  for await (const field of reader.fields(span)) {
    if (!field.span) continue;
    if (field.number === node.input) inputs.push(await reader.text(field.span));
    else if (field.number === node.name) name = await reader.text(field.span);
    else if (field.number === node.op) op = await reader.text(field.span);
    else if (field.number === node.attribute) attributes.push(field.span);
  }
  const weight = inputs[1];
  if (!layerOps.has(op) || weight === undefined) return [];
  let isTransB = false;
  for (const one of attributes) if (await isSet(reader, one, "transB")) isTransB = true;
  const layer = name.split("/").filter((part) => part !== "");
  return [{ name: layer.slice(0, -1).join("."), op, weight, isTransB }];
}

async function isSet(reader: ProtobufFile, span: Span, wanted: string): Promise<boolean> {
  let name = "";
  let value = 0n;
  for await (const field of reader.fields(span)) {
    if (field.number === attribute.name && field.span) name = await reader.text(field.span);
    else if (field.number === attribute.int) value = field.value;
  }
  return name === wanted && value !== 0n;
}

async function readTensor(reader: ProtobufFile, span: Span): Promise<Tensor & { readonly name: string }> {
  const dims: number[] = [];
  const outside: Record<string, string> = {};
  let inside: Span | undefined;
  let type = 0;
  let name = "";
  for await (const field of reader.fields(span)) {
    if (field.number === tensor.dims && !field.span) dims.push(Number(field.value));
    else if (field.number === tensor.type) type = Number(field.value);
    else if (!field.span) continue;
    else if (field.number === tensor.name) name = await reader.text(field.span);
    else if (field.number === tensor.raw || field.number === tensor.floats) inside = field.span;
    else if (field.number === tensor.external) {
      const [key, value] = await reader.entry(field.span);
      outside[key] = value;
    }
  }
  const { location } = outside;
  return {
    name,
    dims,
    type: types[type] ?? "other",
    location,
    offset: location === undefined ? (inside?.start ?? 0) : Number(outside["offset"] ?? 0),
    bytes: location === undefined ? (inside ? inside.end - inside.start : 0) : Number(outside["length"] ?? 0),
  };
}
