// A model's shape and task are read from a hub before anything is downloaded, and a hub that says nothing costs nothing.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createHubLook } from "../../../control-plane/catalog/hub-look.ts";
import { createHubShape } from "../../../control-plane/deployments/hub-shape.ts";

const config = {
  ...{ num_hidden_layers: 30, num_attention_heads: 9, num_key_value_heads: 3, hidden_size: 576 },
  max_position_embeddings: 8192,
};
const shape = {
  ...{ layers: 30, kvHeads: 3, keyLength: 64, valueLength: 64, contextLength: 8192 },
  loraWidth: 2 * (576 + 576) + 2 * (576 + 192) + 3 * (576 + 4 * 576),
};
const pages: Record<string, unknown> = {
  "/api/models/org/split/revision/main?blobs=true": {
    siblings: [
      { rfilename: "model-1.safetensors", size: 100 },
      { rfilename: "model-2.safetensors", size: 20 },
      { rfilename: "README.md", size: 7 },
    ],
  },
  "/org/split/resolve/main/config.json": config,
  "/api/models/org/gguf/revision/main?blobs=true": { siblings: [{ rfilename: "q 4.gguf", size: 500 }] },
  "/org/gguf/resolve/main/q%204.gguf": ggufHeader(),
  "/api/models/org/both/revision/main?blobs=true": {
    siblings: [
      { rfilename: "model.safetensors", size: 2_000 },
      { rfilename: "q4.gguf", size: 500 },
    ],
  },
  "/org/both/resolve/main/q4.gguf": ggufHeader(),
  "/api/models/org/many/revision/main?blobs=true": {
    siblings: [
      { rfilename: "many.Q2_K.gguf", size: 10 },
      { rfilename: "many.mmproj-f16.gguf", size: 1 },
      { rfilename: "many.Q4_K_M-00001-of-00002.gguf", size: 300 },
      { rfilename: "many.Q4_K_M-00002-of-00002.gguf", size: 200 },
      { rfilename: "many.Q8_0.gguf", size: 900 },
    ],
  },
  "/org/many/resolve/main/many.Q4_K_M-00001-of-00002.gguf": ggufHeader(),
  "/api/models/org/pictures/revision/main?blobs=true": {
    siblings: [
      { rfilename: "model_index.json", size: 1 },
      { rfilename: "unet/model.onnx", size: 2 },
      { rfilename: "unet/model.onnx_data", size: 300 },
      { rfilename: "unet/diffusion_pytorch_model.safetensors", size: 305 },
      { rfilename: "text_encoder/model.onnx", size: 50 },
      { rfilename: "vae_decoder/model.onnx", size: 7 },
    ],
  },
  "/api/models/org/vectors/revision/main?blobs=true": {
    siblings: [
      { rfilename: "onnx/model.onnx", size: 90 },
      { rfilename: "onnx/model_quantized.onnx", size: 23 },
      { rfilename: "model.safetensors", size: 91 },
    ],
  },
  "/api/models/org/scores/revision/main": siblings("config.json", "onnx/model.onnx"),
  "/org/scores/resolve/main/config.json": {
    ...{ architectures: ["BertForSequenceClassification"], id2label: { "0": "bad", "1": "good" } },
  },
  "/api/models/org/writes/revision/main": siblings("config.json", "model.safetensors"),
  "/org/writes/resolve/main/config.json": { architectures: ["LlamaForCausalLM"] },
  "/api/models/org/paints/revision/main": siblings("model_index.json", "unet/model.onnx"),
  "/api/models/org/tagged/revision/main": { ...siblings("config.json"), pipeline_tag: "fill-mask" },
  "/api/models/org/silent/revision/main": siblings("config.json", "model.onnx"),
  "/api/models/org/odd/revision/main?blobs=true": "not what a hub says",
};
const asked: (string | undefined)[] = [];
let hub: Server;
let endpoint: string;

beforeAll(async () => {
  hub = createServer((request, response) => {
    asked.push(request.headers.authorization);
    const page = pages[request.url ?? ""];
    if (page === undefined) return void response.writeHead(404).end();
    response.end(Buffer.isBuffer(page) ? page : JSON.stringify(page));
  });
  await new Promise<void>((resolve) => hub.listen(0, "127.0.0.1", resolve));
  endpoint = `http://127.0.0.1:${(hub.address() as AddressInfo).port}/`;
});
afterAll(() => new Promise((resolve) => hub.close(resolve)));

describe("the shape of a hub repository", () => {
  it("comes from config.json and the sizes of its parts, or from the head of the GGUF file that is chosen", async () => {
    const look = createHubShape(endpoint);
    expect(await look("org/split", "main", "hf_secret")).toEqual({ ...shape, weightsBytes: 120 });
    expect(asked).toEqual(["Bearer hf_secret", "Bearer hf_secret"]);
    expect(await look("org/gguf", "main", undefined)).toEqual({ ...shape, weightsBytes: 500 });
    // What is run decides, where a repository has more.
    expect(await look("org/both", "main", undefined, "gguf")).toEqual({ ...shape, weightsBytes: 500 });
    // Of several, what an agent would download: all parts of it.
    expect(await look("org/many", "main", undefined)).toEqual({ ...shape, weightsBytes: 500 });
  });

  it("of graphs is the size of those that an agent would choose, and what adapters of a picture model change", async () => {
    const look = createHubShape(endpoint);
    const graphs = { layers: 0, kvHeads: 0, keyLength: 0, valueLength: 0, contextLength: 0 };
    expect(await look("org/vectors", "main", undefined, "onnx")).toEqual({ ...graphs, weightsBytes: 90 });
    expect(await look("org/pictures", "main", undefined, "onnx")).toEqual({
      ...graphs,
      ...{ weightsBytes: 359, adaptedBytes: 352 },
    });
  });

  it("is unknown where the hub does not answer, does not say, or is not asked", async () => {
    const look = createHubShape(endpoint);
    expect(await look("org/odd", "main", undefined)).toBeUndefined();
    expect(await look("org/none", "main", undefined)).toBeUndefined();
    expect(await createHubShape(undefined)("org/split", "main", undefined)).toBeUndefined();
  });
});

describe("the task of a hub repository", () => {
  it.each([
    ["org/tagged", "fill-mask"],
    ["org/scores", "text-classification"],
    ["org/writes", "text-generation"],
    ["org/paints", "text-to-image"],
    ["org/silent", undefined],
  ])("of %s is what the hub calls it, else what its own configuration says: %s", async (repo, task) => {
    expect(await createHubLook(endpoint)(repo, "main", undefined)).toMatchObject({ kind: "found", task });
  });
});

function siblings(...names: string[]) {
  return { siblings: names.map((rfilename) => ({ rfilename })) };
}

function ggufHeader(): Buffer {
  const text = (value: string) => {
    const bytes = Buffer.from(value);
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(bytes.length));
    return Buffer.concat([length, bytes]);
  };
  const int = (value: number) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return bytes;
  };
  const numbers = Object.entries({
    ...{ "llama.block_count": 30, "llama.attention.head_count": 9, "llama.attention.head_count_kv": 3 },
    ...{ "llama.embedding_length": 576, "llama.context_length": 8192 },
  }).map(([key, value]) => Buffer.concat([text(key), int(4), int(value)]));
  const head = Buffer.concat([Buffer.from("GGUF"), int(3), Buffer.alloc(16)]);
  head.writeBigUInt64LE(BigInt(numbers.length + 1), 16);
  return Buffer.concat([head, text("general.architecture"), int(8), text("llama"), ...numbers]);
}
