// Checks, before a graph file is loaded, what it would make the library do besides arithmetic: files that it names must
// lie in the model's own folder, and operators of other people's libraries are refused.
// Source of the field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
import { open, realpath, stat } from "node:fs/promises";
import { dirname, isAbsolute, join, sep } from "node:path";
import { LoadFailure, notOpened } from "../llama/load-failure.ts";
import { ProtobufFile, type Span } from "./protobuf.ts";

/** Fields that are read, by message and number: the message in them, or what their text means. */
const messages: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  model: { 7: "graph", 8: "opset", 25: "function" },
  opset: { 1: "domain" },
  function: { 7: "node", 9: "opset", 10: "own domain" },
  graph: { 1: "node", 5: "tensor", 15: "sparse tensor" },
  node: { 5: "attribute", 7: "domain" },
  attribute: { 5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor" },
  "sparse tensor": { 1: "tensor", 2: "tensor" },
  tensor: { 13: "external data" },
};

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
    throw notOpened(path, error);
  });
  try {
    const { size } = await file.stat();
    const found = new Findings(new ProtobufFile(file));
    await found.read("model", { start: 0, end: size }, 0);
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

  /** `depth`: number of graphs around the message. */
  async read(message: string, span: Span, depth: number): Promise<void> {
    if (depth > deepest) throw new RangeError("its graphs are nested too deep");
    for await (const field of this.#file.fields(span)) {
      const kind = messages[message]?.[field.number];
      if (kind !== undefined && field.span) await this.#readField(message, kind, field.span, depth);
    }
  }

  async #readField(message: string, kind: string, span: Span, depth: number): Promise<void> {
    switch (kind) {
      case "domain":
        this.domains.add(await this.#file.text(span));
        if (this.domains.size > maxDomains) throw new RangeError(`it names more than ${maxDomains} operator domains`);
        return;
      case "own domain":
        this.ownDomains.add(await this.#file.text(span));
        return;
      case "external data": {
        const [key, value] = await this.#file.entry(span);
        if (key === "location") this.locations.add(value);
        return;
      }
      default:
        this.hasGraph ||= kind === "graph";
        await this.read(kind, span, depth + Number(kind === "function" || message === "attribute"));
    }
  }
}
