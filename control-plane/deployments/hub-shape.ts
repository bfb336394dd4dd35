// Reads the shape of a hub repository's model before any download: file sizes, and config.json or the first bytes of the
// GGUF file that an agent would choose. https://huggingface.co/docs/hub/api
import type { Response } from "undici";
import { bytesOf, chooseGguf } from "../../proto/gguf-choice.ts";
import { chooseOnnx } from "../../proto/onnx-choice.ts";
import { isHubRepo } from "../../proto/weights-address.ts";
import { hubFetch } from "../catalog/hub-look.ts";
import type { ShapeOfRepo } from "./expected-memory.ts";
import { graphShape, loraWidthOf, type ModelShape } from "./memory-estimate.ts";

const maxJsonBytes = 8 * 1024 ** 2;
/** Covers the required fields, which precede the vocabulary. */
const headBytes = 64 * 1024;

/** Never throws; undefined when the hub is disabled, unreachable or has no answer. `endpoint`: HF_ENDPOINT. */
export function createHubShape(endpoint: string | undefined): ShapeOfRepo {
  const base = endpoint?.replace(/\/+$/, "");
  return async (repo, revision, token, format) => {
    if (base === undefined || !isHubRepo(repo)) return undefined;
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

/** Sizes of the scalar types by number; strings (8) and arrays (9) carry their lengths. */
const scalarBytes: readonly number[] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
const magic = "GGUF";
const maxKeys = 4_096;

/** See https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Undefined when required fields are beyond the end of the bytes, or there is no GGUF header. */
export function readGgufShape(head: Buffer, weightsBytes: number): ModelShape | undefined {
  const facts = readFacts(head);
  const architecture = facts.get("general.architecture");
  const number = (key: string) => {
    const value = facts.get(`${String(architecture)}.${key}`);
    return typeof value === "number" && value > 0 ? value : undefined;
  };
  const layers = number("block_count");
  const heads = number("attention.head_count");
  const width = number("embedding_length");
  const contextLength = number("context_length");
  if (!layers || !heads || !width || !contextLength) return undefined;
  const headLength = Math.floor(width / heads);
  const kvHeads = number("attention.head_count_kv") ?? heads;
  const keyLength = number("attention.key_length") ?? headLength;
  const valueLength = number("attention.value_length") ?? headLength;
  return {
    ...{ weightsBytes, layers, contextLength, kvHeads, keyLength, valueLength },
    loraWidth: loraWidthOf({
      ...{ width, queryWidth: heads * keyLength, keyWidth: kvHeads * keyLength, valueWidth: kvHeads * valueLength },
      feedForward: number("feed_forward_length"),
    }),
  };
}

/** Reads numbers and short strings up to the end of `head`. */
function readFacts(head: Buffer): ReadonlyMap<string, number | string> {
  const facts = new Map<string, number | string>();
  if (head.length < 24 || head.toString("latin1", 0, 4) !== magic) return facts;
  const keys = Math.min(Number(head.readBigUInt64LE(16)), maxKeys);
  let at = 24;
  const text = (): string => {
    const length = Number(head.readBigUInt64LE(at));
    const from = at + 8;
    if (from + length > head.length) throw new RangeError("the header is longer");
    at = from + length;
    return head.toString("utf8", from, at);
  };
  // Counts come from an untrusted file: loops need their own bounds.
  const pass = (type: number, count: number): void => {
    const bytes = (scalarBytes[type] || Number.NaN) * count;
    if (!(at + bytes <= head.length)) throw new RangeError("the header is longer, or has an unknown type");
    at += bytes;
  };
  const value = (type: number): number | string | undefined => {
    if (type === 8) return text();
    if (type === 9) {
      const of = head.readUInt32LE(at);
      const count = Number(head.readBigUInt64LE(at + 4));
      at += 12;
      // Some models have one value per layer: use the largest.
      if (of === 4 || of === 5) {
        let largest = 0;
        for (let n = 0; n < count; n++, at += 4) largest = Math.max(largest, head.readUInt32LE(at));
        return largest;
      }
      if (of === 8) for (let n = 0; n < count; n++) text();
      else pass(of, count);
      return undefined;
    }
    const from = at;
    pass(type, 1);
    if (type === 4) return head.readUInt32LE(from);
    if (type === 10) return Number(head.readBigUInt64LE(from));
    return undefined;
  };
  try {
    for (let n = 0; n < keys; n++) {
      const key = text();
      const type = head.readUInt32LE(at);
      at += 4;
      const found = value(type);
      if (found !== undefined) facts.set(key, found);
    }
  } catch (error) {
    // The fields read so far may be enough.
    if (!(error instanceof RangeError)) throw error;
  }
  return facts;
}

/** Undefined when a required field is missing. */
export function readConfigShape(value: unknown, weightsBytes: number): ModelShape | undefined {
  const whole = asObject(value);
  // Multimodal models keep the language model's part in a nested object.
  const config = { ...whole, ...asObject(whole["text_config"]) };
  const number = (key: string) => {
    const found = config[key];
    return typeof found === "number" && found > 0 ? found : undefined;
  };
  const layers = number("num_hidden_layers") ?? number("n_layer");
  const heads = number("num_attention_heads") ?? number("n_head");
  const width = number("hidden_size") ?? number("n_embd");
  const contextLength = number("max_position_embeddings") ?? number("n_positions");
  if (!layers || !heads || !width || !contextLength) return undefined;
  const headLength = number("head_dim") ?? Math.floor(width / heads);
  const kvHeads = number("num_key_value_heads") ?? heads;
  return {
    ...{ weightsBytes, layers, contextLength, kvHeads, keyLength: headLength, valueLength: headLength },
    loraWidth: loraWidthOf({
      ...{ width, queryWidth: heads * headLength, keyWidth: kvHeads * headLength, valueWidth: kvHeads * headLength },
      feedForward: number("intermediate_size") ?? number("n_inner"),
    }),
  };
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
