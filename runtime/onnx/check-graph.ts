// Checks, before a graph file is loaded, what it would make the library do besides arithmetic: files that it names must
// lie in the model's own folder, and operators of other people's libraries are refused.
// Source of the field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
import { open, realpath, stat } from "node:fs/promises";
import { dirname, isAbsolute, join, sep } from "node:path";
import { LoadFailure } from "../llama/load-failure.ts";
import { ProtobufFile, type Span } from "./protobuf.ts";

const model = { graph: 7, opsetImport: 8, functions: 25 } as const;
const opset = { domain: 1 } as const;
const graph = { node: 1, initializer: 5, sparseInitializer: 15 } as const;
const func = { node: 7, opsetImport: 9, domain: 10 } as const;
const node = { attribute: 5, domain: 7 } as const;
const attribute = { tensor: 5, graph: 6, tensors: 10, graphs: 11, sparse: 22, sparses: 23 } as const;
const sparse = { values: 1, indices: 2 } as const;
const tensor = { externalData: 13 } as const;
const entry = { key: 1, value: 2 } as const;

/** Built into the library. */
const domains: ReadonlySet<string> = new Set([
  "",
  "ai.onnx",
  "ai.onnx.ml",
  "ai.onnx.preview",
  "ai.onnx.preview.training",
  "ai.onnx.training",
  "com.microsoft",
  "com.microsoft.experimental",
  "com.microsoft.nchwc",
  "com.ms.internal.nhwc",
  // Named by exports of PyTorch, also where no operator of it is used.
  "org.pytorch.aten",
]);

const deepest = 16;
const maxDomains = 1_000;

/** Throws LoadFailure. `root`: the folder that the model may read from. */
export async function checkGraph(path: string, root: string): Promise<{ readonly hasAllWeights: boolean }> {
  const file = await open(path, "r").catch((error: NodeJS.ErrnoException) => {
    const cause = error.code === "ENOENT" ? "model file not found" : "model file not readable";
    throw new LoadFailure(cause, path, { cause: error });
  });
  try {
    const { size } = await file.stat();
    const found = new Findings(new ProtobufFile(file));
    await found.readModel({ start: 0, end: size });
    if (!found.hasGraph) throw new RangeError("it holds no graph");
    for (const domain of found.domains)
      if (!domains.has(domain) && !found.ownDomains.has(domain))
        throw new LoadFailure(
          "custom operators",
          `${path} needs operators of the domain ${JSON.stringify(domain.slice(0, 80))}, which come from a library of their own and are refused; export the model with standard operators`,
        );
    for (const location of found.locations) await checkLocation(path, root, location);
    return { hasAllWeights: found.locations.size === 0 };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const words = `${path} does not read like one (${error.message}); give a whole .onnx file`;
    throw new LoadFailure("not an ONNX file", words, { cause: error });
  } finally {
    await file.close();
  }
}

async function checkLocation(path: string, root: string, location: string): Promise<void> {
  const outside = new LoadFailure(
    "weights outside the model's folder",
    `${path} keeps weights in ${JSON.stringify(location.slice(0, 200))}, which is not below its folder and is not read; export the model with its data beside it`,
  );
  if (location === "" || isAbsolute(location) || location.split(/[/\\]/).includes("..")) throw outside;
  const target = join(dirname(path), location);
  const real = await realpath(target).catch(() => undefined);
  if (real === undefined || !(await stat(real)).isFile())
    throw new LoadFailure(
      "weights missing",
      `${path} keeps weights in ${JSON.stringify(location)}, which is not there`,
    );
  // The cache keeps files by content and shows them by links: a folder of one model holds links to one folder of blobs.
  const allowed = [await realpath(root), await blobsOf(path)];
  if (!allowed.some((folder) => folder !== undefined && real.startsWith(folder + sep))) throw outside;
}

/** Real path of the graph file, which may be a link. */
async function blobsOf(path: string): Promise<string | undefined> {
  const real = await realpath(path);
  return real === path ? undefined : dirname(real);
}

class Findings {
  readonly domains = new Set<string>();
  /** Domains of the model's own functions, whose operators are checked as well. */
  readonly ownDomains = new Set<string>();
  readonly locations = new Set<string>();
  hasGraph = false;
  readonly #file: ProtobufFile;

  constructor(file: ProtobufFile) {
    this.#file = file;
  }

  async readModel(span: Span): Promise<void> {
    for await (const field of this.#file.fields(span)) {
      if (!field.span) continue;
      if (field.number === model.graph) {
        this.hasGraph = true;
        await this.#readGraph(field.span, 0);
      } else if (field.number === model.opsetImport) await this.#readOpset(field.span);
      else if (field.number === model.functions) await this.#readFunction(field.span);
    }
  }

  async #readOpset(span: Span): Promise<void> {
    for await (const field of this.#file.fields(span))
      if (field.number === opset.domain && field.span) this.#addDomain(await this.#file.text(field.span));
  }

  async #readFunction(span: Span): Promise<void> {
    for await (const field of this.#file.fields(span)) {
      if (!field.span) continue;
      if (field.number === func.node) await this.#readNode(field.span, 1);
      else if (field.number === func.opsetImport) await this.#readOpset(field.span);
      else if (field.number === func.domain) this.ownDomains.add(await this.#file.text(field.span));
    }
  }

  #addDomain(domain: string): void {
    this.domains.add(domain);
    if (this.domains.size > maxDomains) throw new RangeError(`it names more than ${maxDomains} operator domains`);
  }

  async #readGraph(span: Span, depth: number): Promise<void> {
    if (depth > deepest) throw new RangeError("its graphs are nested too deep");
    for await (const field of this.#file.fields(span)) {
      if (!field.span) continue;
      if (field.number === graph.node) await this.#readNode(field.span, depth);
      else if (field.number === graph.initializer) await this.#readTensor(field.span);
      else if (field.number === graph.sparseInitializer) await this.#readSparse(field.span);
    }
  }

  async #readNode(span: Span, depth: number): Promise<void> {
    for await (const field of this.#file.fields(span)) {
      if (!field.span) continue;
      if (field.number === node.attribute) await this.#readAttribute(field.span, depth);
      else if (field.number === node.domain) this.#addDomain(await this.#file.text(field.span));
    }
  }

  async #readAttribute(span: Span, depth: number): Promise<void> {
    for await (const field of this.#file.fields(span)) {
      if (!field.span) continue;
      switch (field.number) {
        case attribute.tensor:
        case attribute.tensors:
          await this.#readTensor(field.span);
          break;
        case attribute.graph:
        case attribute.graphs:
          await this.#readGraph(field.span, depth + 1);
          break;
        case attribute.sparse:
        case attribute.sparses:
          await this.#readSparse(field.span);
          break;
        default:
      }
    }
  }

  async #readSparse(span: Span): Promise<void> {
    for await (const field of this.#file.fields(span))
      if (field.span && (field.number === sparse.values || field.number === sparse.indices))
        await this.#readTensor(field.span);
  }

  async #readTensor(span: Span): Promise<void> {
    for await (const field of this.#file.fields(span)) {
      if (field.number !== tensor.externalData || !field.span) continue;
      let key = "";
      let value = "";
      for await (const part of this.#file.fields(field.span)) {
        if (part.number === entry.key && part.span) key = await this.#file.text(part.span);
        if (part.number === entry.value && part.span) value = await this.#file.text(part.span);
      }
      if (key === "location") this.locations.add(value);
    }
  }
}
