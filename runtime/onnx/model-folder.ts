// Reads a model's folder: the hub's layout, with the graph under onnx/ or beside the configuration.
import { readdir, readFile, stat } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { LoadFailure, notOpened } from "../llama/load-failure.ts";

export type Json = Readonly<Record<string, unknown>>;

export interface ModelFolder {
  /** Nothing outside of it is read. */
  readonly root: string;
  /** Paths of all graphs, relative to the root. */
  readonly graphs: readonly string[];
  /** The graph that the configuration names itself, when the path was one. */
  readonly named: string | undefined;
  /** config.json, `{}` where there is none. */
  readonly config: Json;
  /** `{}` where there is no such file. Throws LoadFailure for one that is no JSON object. */
  json(name: string): Promise<Json>;
  /** Undefined where there is no such file. */
  text(name: string): Promise<string | undefined>;
  path(name: string): string;
}

const preferred = ["onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx", "model_quantized.onnx"];
const unsafe = /\.(bin|pt|pth|ckpt|pkl|pickle|h5|joblib)$/i;
const deepestFolder = 3;

/** `path`: the folder, or one graph in it. Throws LoadFailure. */
export async function readModelFolder(path: string): Promise<ModelFolder> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    throw notOpened(path, error);
  });
  const root = found.isDirectory() ? path : await rootOf(path);
  const files = await filesIn(root, 0);
  const graphs = files.filter((file) => /\.onnx$/i.test(file));
  if (graphs.length === 0) {
    const what = files.some((file) => unsafe.test(file))
      ? "it holds its weights in a form that can run code when it is loaded"
      : "there is no .onnx file in it";
    throw new LoadFailure("no ONNX model", `${path}: ${what}; give a folder with an ONNX export of the model`);
  }
  const text = async (name: string) => {
    try {
      return await readFile(join(root, name), "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw new LoadFailure("model file not readable", join(root, name), { cause: error });
    }
  };
  const json = async (name: string) => asObject(name, (await text(name)) ?? "{}");
  return {
    root,
    graphs,
    named: found.isDirectory() ? undefined : relative(root, path).split(sep).join("/"),
    config: await json("config.json"),
    json,
    text,
    path: (name) => join(root, name),
  };
}

/** The one graph of a model that has one. Throws LoadFailure. */
export function graphOf({ graphs, named, root }: ModelFolder): string {
  const graph =
    named ?? preferred.find((name) => graphs.includes(name)) ?? (graphs.length === 1 ? graphs[0] : undefined);
  if (graph !== undefined) return graph;
  const list = graphs.slice(0, 5).join(", ");
  throw new LoadFailure("several ONNX files", `${root} holds ${list}; name one of them, or keep the one to be served`);
}

async function rootOf(graph: string): Promise<string> {
  const folder = dirname(graph);
  return basename(folder) === "onnx" ? dirname(folder) : folder;
}

async function filesIn(folder: string, depth: number): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const lists = entries.map(async (entry) => {
    if (!entry.isDirectory()) return [entry.name];
    if (depth >= deepestFolder) return [];
    return (await filesIn(join(folder, entry.name), depth + 1)).map((name) => `${entry.name}/${name}`);
  });
  return (await Promise.all(lists)).flat().sort();
}

function asObject(name: string, text: string): Json {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new LoadFailure("model configuration not readable", `${name}: ${(error as Error).message}`, { cause: error });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Json;
  throw new LoadFailure("model configuration not readable", `${name} is not a JSON object`);
}
