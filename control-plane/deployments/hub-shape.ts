// Reads the shape of a hub repository's model before any download: file sizes, and config.json or the first bytes of the
// GGUF file that an agent would choose. https://huggingface.co/docs/hub/api

import type { Response } from "undici";
import { bytesOf, chooseGguf } from "../../proto/gguf-choice.ts";
import { chooseOnnx } from "../../proto/onnx-choice.ts";
import { hubFetch } from "../catalog/hub-fetch.ts";
import { readConfigShape } from "./config-shape.ts";
import type { ShapeOfRepo } from "./expected-memory.ts";
import { readGgufShape } from "./gguf-shape.ts";
import { graphShape, type ModelShape } from "./memory-estimate.ts";

const maxJsonBytes = 8 * 1024 ** 2;
/** Covers the required fields, which precede the vocabulary. */
const headBytes = 64 * 1024;

/** Never throws; undefined when the hub is disabled, unreachable or has no answer. `endpoint`: HF_ENDPOINT. */
export function createHubShape(endpoint: string | undefined): ShapeOfRepo {
  const base = endpoint?.replace(/\/+$/, "");
  return async (repo, revision, token, format) => {
    if (base === undefined) return undefined;
    const get = async (url: string, maxBytes: number, headers: Readonly<Record<string, string>> = {}) => {
      const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const answer = await hubFetch(url, { ...headers, ...authorization });
      if (!answer.ok) throw new Error(`the hub responded with ${answer.status}`);
      return firstBytes(answer, maxBytes);
    };
    const at = encodeURIComponent(revision);
    try {
      const about = JSON.parse(`${await get(`${base}/api/models/${repo}/revision/${at}?blobs=true`, maxJsonBytes)}`);
      const files = filesOf(about);
      if (format === "onnx") return graphsOf(files);
      const safetensors = format === "gguf" ? [] : files.filter(({ name }) => name.endsWith(".safetensors"));
      if (safetensors.length > 0) {
        const config = JSON.parse(`${await get(`${base}/${repo}/resolve/${at}/config.json`, maxJsonBytes)}`);
        return readConfigShape(
          config,
          safetensors.reduce((sum, { size }) => sum + size, 0),
        );
      }
      // The first part of a split model contains the header.
      const model = chooseGguf(files.map(asRepoFile));
      const [first] = model ?? [];
      if (!model || !first) return format === undefined ? graphsOf(files) : undefined;
      const url = `${base}/${repo}/resolve/${at}/${first.path.split("/").map(encodeURIComponent).join("/")}`;
      return readGgufShape(await get(url, headBytes, { range: `bytes=0-${headBytes - 1}` }), bytesOf(model));
    } catch {
      return undefined;
    }
  };
}

interface HubFile {
  readonly name: string;
  readonly size: number;
}

const asRepoFile = ({ name: path, size: sizeBytes }: HubFile) => ({ path, sizeBytes });

/** Parts of a picture model that its adapters change. */
const adapted = /^(unet|text_encoder)\//;

function graphsOf(files: readonly HubFile[]): ModelShape | undefined {
  const graphs = chooseOnnx(files.map(asRepoFile), undefined);
  if (graphs.length === 0) return undefined;
  const isPicture = graphs.some(({ path }) => path.startsWith("unet/"));
  const adaptedBytes = bytesOf(graphs.filter(({ path }) => adapted.test(path)));
  return { ...graphShape, weightsBytes: bytesOf(graphs), ...(isPicture ? { adaptedBytes } : {}) };
}

function filesOf(about: unknown): readonly HubFile[] {
  const siblings = (about as { siblings?: unknown } | null)?.siblings;
  if (!Array.isArray(siblings)) return [];
  return siblings.flatMap((one: { rfilename?: unknown; size?: unknown }) =>
    typeof one?.rfilename === "string" && typeof one.size === "number" ? [{ name: one.rfilename, size: one.size }] : [],
  );
}

/** Stops after `headBytes`: a hub may ignore the range and send everything. */
async function firstBytes(answer: Response, maxBytes: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of answer.body ?? []) {
    parts.push(Buffer.from(part));
    bytes += part.length;
    if (bytes >= maxBytes) break;
  }
  return Buffer.concat(parts).subarray(0, maxBytes);
}
