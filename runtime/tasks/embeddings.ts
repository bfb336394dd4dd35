// Sentence embeddings by a graph, pooled and normalised as its files say.
import type { ModelFolder } from "../onnx/model-folder.ts";
import { embeddingRoutes, type TextInput } from "./embedding-routes.ts";
import { type Pooling, pool, shaped } from "./pooling.ts";
import type { OpenTask, TaskDeps } from "./task-engine.ts";
import { encodeAll, openTextGraph } from "./text-graph.ts";

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
  const routes = embeddingRoutes(async (request, call) => {
    const prefix = request.inputType === undefined ? "" : (settings.prompts[request.inputType] ?? "");
    for (const input of request.inputs) if (typeof input !== "string") request.checkTokens(input, tokenizer.size);
    const encoded = await encodeAll(tokenizer, request.inputs, request.field, encode(prefix));
    const found = await graph.run(call, encoded);
    call.onFirstToken();
    return found.map((vector) => shaped(vector, request, settings.normalize));
  });
  return { contextLength: tokenizer.longest, routes, load: graph.load };
}

interface Settings {
  readonly pooling: Pooling;
  readonly normalize: boolean;
  /** Prefix that the model requires for each kind of text. */
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
