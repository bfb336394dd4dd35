// The ways a model can be asked, by the key that its schema is read under: which a task has, and the schemas of each, the
// very ones that validate the requests.
import { type TSchema, Type } from "typebox";
import {
  AddedVoiceBody,
  AddVoiceForm,
  EditedVoiceBody,
  EditVoiceForm,
  VoiceBody,
  VoiceListBody,
} from "../files/voices-schemas.ts";
import { ChatRequest } from "../inference/chat-request-schemas.ts";
import { ChatAnswer, CompletionAnswer, CompletionRequest } from "../inference/completion-request-schemas.ts";
import { fieldsOfTask } from "../inference/native/task-fields.ts";
import { nativeAnswerOf, TokenEvent } from "../inference/native-answers-schemas.ts";
import { NativeRequest } from "../inference/native-schemas.ts";
import { ChatChunk, CompletionChunk } from "../inference/stream-chunks-schemas.ts";
import {
  EmbeddingsAnswer,
  EmbeddingsRequest,
  ImageEditRequest,
  ImageRequest,
  ImagesAnswer,
  ImageVariationRequest,
  SpeechRequest,
  TextToSpeechRequest,
  TranscriptionAnswer,
  TranscriptionRequest,
} from "../inference/tasks-schemas.ts";
import { exampleEnvelope, exampleOf } from "./examples.ts";

export interface Variant {
  readonly path: string;
  readonly in: TSchema;
  readonly out: TSchema;
  /** Schema of one event; undefined: it does not stream. */
  readonly stream?: TSchema;
  readonly request: Readonly<Record<string, unknown>>;
  readonly answer: unknown;
}

const NamedVoice = Type.Object({ voice_id: Type.String({ minLength: 1, description: "Voice in the path" }) });
const AudioOut = Type.String({ contentMediaType: "audio/wav", description: "The bytes of the audio" });
const usage = { prompt_tokens: 6, completion_tokens: 3, total_tokens: 9, estimated_cost: 0.0000004 };
const completion = { id: "cmpl-8f3b", created: 1_786_000_000, model: "org/model", usage };
const choice = { index: 0, logprobs: null, finish_reason: "stop" };
const voice = { user_id: "u:1", voice_id: "v1", name: "Ada", description: "", created_at: 1, updated_at: 1 };
const picture = { created: 1_786_000_000, data: [{ b64_json: "iVBORw0KGgo=", revised_prompt: null, url: null }] };

const chat: Variant = {
  path: "/v1/compat/chat/completions",
  in: ChatRequest,
  out: ChatAnswer,
  stream: ChatChunk,
  request: { messages: [{ role: "user", content: "Hello" }] },
  answer: {
    ...completion,
    object: "chat.completion",
    choices: [{ ...choice, message: { role: "assistant", content: "Hello!", reasoning_content: null } }],
  },
};
const embeddings: Variant = {
  path: "/v1/compat/embeddings",
  in: EmbeddingsRequest,
  out: EmbeddingsAnswer,
  request: { input: ["The first text", "The second text"] },
  answer: {
    object: "list",
    data: [{ object: "embedding", index: 0, embedding: [0.01, -0.02] }],
    model: "org/model",
    usage: { prompt_tokens: 4, total_tokens: 4 },
  },
};
const heard: Variant = {
  path: "/v1/compat/audio/transcriptions",
  in: TranscriptionRequest,
  out: TranscriptionAnswer,
  request: {},
  answer: { text: "Hello World" },
};
const spoken: Variant = {
  path: "/v1/compat/audio/speech",
  in: SpeechRequest,
  out: AudioOut,
  request: { input: "Hello World" },
  answer: "RIFF",
};
const painted: Variant = {
  path: "/v1/compat/images/generations",
  in: ImageRequest,
  out: ImagesAnswer,
  request: { prompt: "A lighthouse in a storm" },
  answer: picture,
};

const fixed = {
  "compat-completions": {
    path: "/v1/completions",
    in: CompletionRequest,
    out: CompletionAnswer,
    stream: CompletionChunk,
    request: { prompt: "The capital of France is" },
    answer: { ...completion, object: "text_completion", choices: [{ ...choice, text: " Paris." }] },
  },
  "compat-chat-completions": chat,
  "compat-embeddings": embeddings,
  "compat-speech-to-text": heard,
  "compat-tts": spoken,
  "compat-images": painted,
  "compat-images-variations": {
    path: "/v1/compat/images/variations",
    in: ImageVariationRequest,
    out: ImagesAnswer,
    request: {},
    answer: picture,
  },
  "compat-images-edits": {
    path: "/v1/compat/images/edits",
    in: ImageEditRequest,
    out: ImagesAnswer,
    request: { prompt: "Make it night" },
    answer: picture,
  },
  "voice-compat-tts": {
    path: "/v1/text-to-speech/{voice_id}",
    in: TextToSpeechRequest,
    out: AudioOut,
    request: { text: "Hello World" },
    answer: "RIFF",
  },
  "create-voice": {
    path: "/v1/voices/add",
    in: AddVoiceForm,
    out: AddedVoiceBody,
    request: { name: "Ada", description: "" },
    answer: { ...voice, requires_verification: false },
  },
  "read-voice": {
    path: "/v1/voices/{voice_id}",
    in: NamedVoice,
    out: VoiceBody,
    request: { voice_id: "v1" },
    answer: voice,
  },
  "update-voice": {
    path: "/v1/voices/{voice_id}/edit",
    in: Type.Object({ ...NamedVoice.properties, ...EditVoiceForm.properties }),
    out: EditedVoiceBody,
    request: { voice_id: "v1", name: "Ada", description: "calm" },
    answer: { ...voice, status: "ok" },
  },
  "delete-voice": {
    path: "/v1/voices/{voice_id}",
    in: NamedVoice,
    out: Type.Object({ status: Type.Literal("ok") }),
    request: { voice_id: "v1" },
    answer: { status: "ok" },
  },
  "list-voices": {
    path: "/v1/voices",
    in: Type.Object({}),
    out: VoiceListBody,
    request: {},
    answer: { voices: [voice] },
  },
} as const satisfies Readonly<Record<string, Variant>>;

export type VariantKey = "default" | "ai-sdk" | keyof typeof fixed;
export const variantKeys: readonly VariantKey[] = ["default", ...(Object.keys(fixed) as VariantKey[]), "ai-sdk"];

const others: ReadonlyMap<string, VariantKey> = new Map([
  ["elevenlabs-tts", "voice-compat-tts"],
  ...variantKeys
    .filter((key) => key.startsWith("compat-"))
    .map((key) => [key.replace("compat-", "openai-"), key] as const),
]);
/** Other names of them. */
export const variantAliases: readonly string[] = [...others.keys()];

interface TaskVariants {
  readonly keys: readonly (keyof typeof fixed)[];
  /** Path that an AI SDK calls; undefined: native inference. */
  readonly sdk: Variant | undefined;
}

const text: TaskVariants = { keys: ["compat-completions", "compat-chat-completions"], sdk: chat };
const vectors: TaskVariants = { keys: ["compat-embeddings"], sdk: embeddings };
const byTask: Readonly<Record<string, TaskVariants>> = {
  "text-generation": text,
  "text2text-generation": text,
  "image-text-to-text": text,
  embeddings: vectors,
  "sentence-similarity": vectors,
  "feature-extraction": vectors,
  "automatic-speech-recognition": { keys: ["compat-speech-to-text"], sdk: heard },
  "text-to-speech": {
    keys: [
      "compat-tts",
      "voice-compat-tts",
      "create-voice",
      "read-voice",
      "update-voice",
      "delete-voice",
      "list-voices",
    ],
    sdk: spoken,
  },
  "text-to-image": { keys: ["compat-images", "compat-images-variations", "compat-images-edits"], sdk: painted },
};
const nativeAlone: TaskVariants = { keys: [], sdk: undefined };

export const variantsOf = (task: string): readonly VariantKey[] => [
  "default",
  ...(byTask[task] ?? nativeAlone).keys,
  "ai-sdk",
];

/** Undefined where the task has no such variant. `key`: one of `variantKeys` or `variantAliases`. */
export function variantOf(task: string, key: string): (Variant & { readonly key: VariantKey }) | undefined {
  const known = others.get(key) ?? (key as VariantKey);
  if (!variantsOf(task).includes(known)) return undefined;
  const found = known === "default" ? native(task) : known === "ai-sdk" ? byTask[task]?.sdk : fixed[known];
  return { ...(found ?? native(task)), key: known };
}

function native(task: string): Variant {
  const { needed, others: optional } = fieldsOfTask(task);
  const { request, answer } = exampleOf(task);
  const properties: Readonly<Record<string, TSchema>> = NativeRequest.properties;
  const pick = (names: readonly string[]) => names.map((name) => [name, properties[name] as TSchema] as const);
  return {
    path: "/v1/inference/{model_name}",
    in: Type.Object(
      Object.fromEntries([
        ...pick(needed).map(([name, schema]) => [name, required(schema)] as const),
        ...pick([...optional, "webhook", "service_tier"]),
      ]),
    ),
    out: nativeAnswerOf(task),
    ...(optional.includes("stream") ? { stream: TokenEvent } : {}),
    request,
    answer: { ...answer, ...exampleEnvelope },
  };
}

/** A field that the task cannot do without is not null either. */
function required(schema: TSchema): TSchema {
  const { type, ...rest } = schema as { readonly type?: readonly string[] };
  const [only] = Array.isArray(type) ? type.filter((one) => one !== "null") : [];
  return Type.Unsafe({ ...rest, ...(only === undefined ? {} : { type: only }) });
}
