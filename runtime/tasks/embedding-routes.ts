// Embeddings on the wire: POST /v1/embeddings in OpenAI's form, POST /v1/infer in the native one.
import type { TaskCall, TaskRoute } from "../server/engine.ts";
import type { Fields } from "../server/fields.ts";
import { invalid } from "../server/request-error.ts";
import { jsonRoute } from "./native-task.ts";
import { base64Of, numbersText } from "./number-text.ts";

/** `vectors` counts the tokens of its inputs in the call's usage. */
export function embeddingRoutes(
  vectors: (request: EmbeddingsRequest, call: TaskCall) => Promise<readonly Float32Array[]>,
): ReadonlyMap<string, TaskRoute> {
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
  return new Map([
    ["/v1/embeddings", compatible],
    ["/v1/infer", native],
  ]);
}

/** A text, or the ids of its tokens. */
export type TextInput = string | readonly number[];

export interface EmbeddingsRequest {
  readonly inputs: readonly TextInput[];
  /** The field that the inputs came in. */
  readonly field: string;
  readonly encoding: "float" | "base64";
  readonly dimensions: number | undefined;
  /** Undefined: as the model is meant to be used. */
  readonly normalize: boolean | undefined;
  readonly inputType: "query" | "passage" | "document" | undefined;
  /** Throws RequestError for an id that the vocabulary does not have. */
  readonly checkTokens: (ids: readonly number[], vocabulary: number) => void;
}

const maxInputs = 1024;
const maxDimensions = 65_536;
const inputTypes = ["query", "passage", "document"] as const;

/** OpenAI's. Throws RequestError. */
export function readEmbeddingsRequest(fields: Fields): EmbeddingsRequest {
  const encoding = fields.string("encoding_format") ?? "float";
  if (encoding !== "float" && encoding !== "base64")
    throw invalid("encoding_format", `encoding_format must be float or base64, not ${encoding.slice(0, 40)}`);
  return {
    inputs: readInputs(fields.raw("input"), "input"),
    field: "input",
    encoding,
    dimensions: fields.integer("dimensions", { min: 32, max: maxDimensions }),
    normalize: fields.boolean("normalize"),
    inputType: fields.oneOf("input_type", inputTypes),
    checkTokens: (ids, vocabulary) => checkTokens(ids, vocabulary, "input"),
  };
}

/** `{"inputs": [...], "normalize": true}`. Throws RequestError. */
export function readNativeEmbeddings(fields: Fields): EmbeddingsRequest {
  if (fields.raw("image") !== undefined)
    throw invalid("image", "this model embeds text and no images; leave image out, or use a model that takes images");
  return {
    inputs: readInputs(fields.raw("inputs") ?? fields.raw("input"), "inputs"),
    field: "inputs",
    encoding: "float",
    dimensions: undefined,
    normalize: fields.boolean("normalize"),
    inputType: undefined,
    checkTokens: (ids, vocabulary) => checkTokens(ids, vocabulary, "inputs"),
  };
}

function readInputs(value: unknown, name: string): readonly TextInput[] {
  const wrong = (what: string) => invalid(name, `${name} must be a text, a list of texts, or token ids; ${what}`);
  if (value === undefined) throw invalid(name, `${name} is required`);
  if (typeof value === "string") return [value];
  if (!Array.isArray(value)) throw wrong("it is none of these");
  if (value.length === 0) throw wrong("the list is empty");
  if (value.every(isToken)) return [value];
  if (value.length > maxInputs)
    throw invalid(
      name,
      `${name} has ${value.length} entries and one request takes ${maxInputs}; send several requests`,
    );
  return value.map((one: unknown, index) => {
    if (typeof one === "string") return one;
    if (Array.isArray(one) && one.length > 0 && one.every(isToken)) return one;
    throw wrong(`entry ${index} is neither a text nor a list of token ids`);
  });
}

const isToken = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;

function checkTokens(ids: readonly number[], vocabulary: number, name: string): void {
  const unknown = ids.find((id) => id >= vocabulary);
  if (unknown !== undefined)
    throw invalid(name, `${name} holds the token ${unknown}, and this model's vocabulary ends at ${vocabulary - 1}`);
}
