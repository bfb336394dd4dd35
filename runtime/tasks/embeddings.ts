// Sentence embeddings: POST /v1/embeddings in OpenAI's form, POST /v1/infer in the native one.
import type { ModelFolder } from "../onnx/model-folder.ts";
import type { Encoded } from "../onnx/tokenizer.ts";
import type { TaskCall } from "../server/engine.ts";
import {
  type EmbeddingsRequest,
  readEmbeddingsRequest,
  readNativeEmbeddings,
  type TextInput,
} from "./embeddings-request.ts";
import { jsonRoute } from "./json-route.ts";
import { base64Of, numbersText } from "./number-text.ts";
import { normalized, type Pooling, pool, resized } from "./pooling.ts";
import type { TaskDeps } from "./task-deps.ts";
import type { OpenTask } from "./task-engine.ts";
import { encodeAll, openTextGraph, tokensOf } from "./text-graph.ts";

const tokenVectors = (name: string) => ({ name, types: ["float32"], rank: 3 });
const textVectors = (name: string) => ({ name, types: ["float32"], rank: 2 });

export async function openEmbeddings(deps: TaskDeps, folder: ModelFolder): Promise<OpenTask> {
  const settings = await readSettings(folder);
  const graph = await openTextGraph<Float32Array>(deps, folder, {
    name: "embeddings",
    outputs: [textVectors("sentence_embedding"), tokenVectors("last_hidden_state"), tokenVectors("token_embeddings")],
    read: (output, batch) => pool(output, batch, settings.pooling),
  });
  const { tokenizer } = graph;
  const encode = (prefix: string) => (input: TextInput) => {
    if (typeof input === "string") return tokenizer.encode(prefix + input);
    return tokenizer.surround(input);
  };
  const vectors = async (request: EmbeddingsRequest, call: TaskCall) => {
    const prefix = request.inputType === undefined ? "" : (settings.prompts[request.inputType] ?? "");
    for (const input of request.inputs) if (typeof input !== "string") request.checkTokens(input, tokenizer.size);
    const encoded: Encoded[] = await encodeAll(tokenizer, request.inputs, encode(prefix), request.field);
    call.usage.inputTokens = tokensOf(encoded);
    call.usage.units = { items: encoded.length };
    const found = await graph.run(encoded, call.signal);
    call.onFirstToken();
    const isNormalized = request.normalize ?? settings.normalize;
    return found.map((vector) => {
      const whole = isNormalized ? normalized(vector) : vector;
      return request.dimensions === undefined ? whole : resized(whole, request.dimensions, isNormalized);
    });
  };
  const compatible = jsonRoute("embeddings", async (fields, call) => {
    const request = readEmbeddingsRequest(fields);
    const texts = (await vectors(request, call)).map(
      request.encoding === "base64" ? (vector) => `"${base64Of(vector)}"` : numbersText,
    );
    const data = texts.map((text, index) => `{"object":"embedding","index":${index},"embedding":${text}}`);
    const tokens = call.usage.inputTokens;
    const usage = `{"prompt_tokens":${tokens},"total_tokens":${tokens}}`;
    return `{"object":"list","data":[${data.join(",")}],"model":${JSON.stringify(call.model)},"usage":${usage}}`;
  });
  const native = jsonRoute("embeddings", async (fields, call) => {
    const texts = (await vectors(readNativeEmbeddings(fields), call)).map(numbersText);
    const tokens = call.usage.inputTokens;
    const usage = `{"prompt_tokens":${tokens},"total_tokens":${tokens}}`;
    return `{"embeddings":[${texts.join(",")}],"input_tokens":${tokens},"usage":${usage}}`;
  });
  return {
    contextLength: tokenizer.longest,
    routes: new Map([
      ["/v1/embeddings", compatible],
      ["/v1/infer", native],
    ]),
    load: () => graph.batcher,
  };
}

interface Settings {
  readonly pooling: Pooling;
  readonly normalize: boolean;
  /** What the model wants before a text of each kind. */
  readonly prompts: Readonly<Record<string, string>>;
}

/** As sentence-transformers keeps them; without its files the usual: mean, length one. */
async function readSettings(folder: ModelFolder): Promise<Settings> {
  const pooling = await folder.json("1_Pooling/config.json");
  const modules = await folder.text("modules.json");
  const { prompts } = await folder.json("config_sentence_transformers.json");
  const kinds = [
    ["pooling_mode_cls_token", "cls"],
    ["pooling_mode_max_tokens", "max"],
    ["pooling_mode_lasttoken", "last"],
    ["pooling_mode_mean_tokens", "mean"],
  ] as const;
  const named = typeof prompts === "object" && prompts !== null ? Object.entries(prompts) : [];
  return {
    pooling: kinds.find(([key]) => pooling[key] === true)?.[1] ?? "mean",
    normalize: modules === undefined || modules.includes("Normalize"),
    prompts: Object.fromEntries(named.filter((pair): pair is [string, string] => typeof pair[1] === "string")),
  };
}
