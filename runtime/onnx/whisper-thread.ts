// Speech recognition thread with transformers.js: the spectrogram, the encoder and the decoder's steps block their thread.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import {
  AutoProcessor,
  env,
  type ModelOutput,
  type Processor,
  Tensor,
  WhisperForConditionalGeneration,
} from "@huggingface/transformers";
import type { HearingAsk } from "../tasks/transcribe/recogniser.ts";
import { serveCalls } from "../threads/thread-calls.ts";

export interface WhisperOptions {
  /** Folder that holds the model's folder, and that folder's name: as transformers.js finds local models. */
  readonly home: string;
  readonly name: string;
  readonly threads: number;
  readonly device: "cpu" | "cuda";
}

export type WhisperFunctions = typeof functions;

env.allowRemoteModels = false;
// The warnings of a library are no log lines of this server.
env.logLevel = 40;

type Dtype = "fp32" | "fp16" | "q8" | "q4";
const suffixes: readonly (readonly [suffix: string, dtype: Dtype])[] = [
  ["", "fp32"],
  ["_quantized", "q8"],
  ["_fp16", "fp16"],
  ["_q4", "q4"],
];

interface WhisperModel {
  readonly config: { readonly decoder_layers: number };
  readonly generation_config: Readonly<Record<string, unknown>> & {
    readonly decoder_start_token_id: number;
    readonly no_timestamps_token_id: number;
    readonly eos_token_id: number | readonly number[];
    readonly prev_sot_token_id?: number;
    readonly lang_to_id?: Readonly<Record<string, number>>;
    readonly task_to_id?: Readonly<Record<string, number>>;
    readonly alignment_heads?: readonly unknown[];
  };
  readonly sessions: Readonly<Record<string, { readonly outputNames: readonly string[] }>>;
  generate(options: object): Promise<Tensor | (ModelOutput & { sequences: Tensor; token_timestamps?: Tensor })>;
}

interface Open {
  readonly model: WhisperModel;
  readonly processor: Processor;
}

let opened: Open | undefined;
/** Longest output of the architecture, prompt included. */
const maxTokens = 448;

/**
 * Ends a generation at its next step, by failing. As a processor of logits, because the library does not hand a Whisper
 * model's stopping criteria on.
 */
function stopper(stop: Int32Array) {
  return (_: unknown, logits: Tensor) => {
    if (Atomics.load(stop, 0) !== 0) throw new Error("the request was cancelled");
    return logits;
  };
}

const functions = {
  async open(options: WhisperOptions) {
    opened = await open(options);
    return { hasWordTimes: hasWordTimes(opened.model) };
  },
  detect: (window: Float32Array) => detect(model(), window),
  /** `stop`: one shared number, not 0 once the result is no longer needed. A message would be read only after the last step. */
  hear: (window: Float32Array, ask: HearingAsk, stop: Int32Array) => hear(model(), window, ask, stop),
};

function model(): Open {
  if (!opened) throw new Error("the model is not loaded");
  return opened;
}

async function open(options: WhisperOptions): Promise<Open> {
  const { home, name, device, threads } = options;
  env.localModelPath = home;
  const files = readdirSync(join(home, name, "onnx"));
  const dtypeOf = (part: string) => {
    const found = suffixes.find(([suffix]) => files.includes(`${part}${suffix}.onnx`));
    if (!found) throw new Error(`there is no ${part}.onnx, nor a quantised form of it, in ${join(home, name, "onnx")}`);
    return found[1];
  };
  const dtype = { encoder_model: dtypeOf("encoder_model"), decoder_model_merged: dtypeOf("decoder_model_merged") };
  const model = await WhisperForConditionalGeneration.from_pretrained(name, {
    local_files_only: true,
    dtype,
    device,
    session_options: { intraOpNumThreads: threads, interOpNumThreads: 1, logSeverityLevel: 4 },
  });
  const processor = await AutoProcessor.from_pretrained(name, { local_files_only: true });
  return { model: model as unknown as WhisperModel, processor };
}

/** They are read off the attention between text and sound, which not every export gives out. */
function hasWordTimes({ sessions, generation_config: { alignment_heads } }: WhisperModel): boolean {
  const outputs = sessions["decoder_model_merged"]?.outputNames ?? [];
  return alignment_heads !== undefined && outputs.some((name) => name.startsWith("cross_attentions"));
}

async function featuresOf({ processor }: Open, window: Float32Array): Promise<Tensor> {
  const { input_features } = (await processor(window)) as { input_features: Tensor };
  return input_features;
}

/** The most likely first token among those of languages. */
async function detect(open: Open, window: Float32Array): Promise<string> {
  const { decoder_start_token_id, lang_to_id = {} } = open.model.generation_config;
  const ids = Object.values(lang_to_id);
  const onlyLanguages = (_: unknown, logits: Tensor) => {
    for (let row = 0; row < (logits.dims[0] as number); row += 1) {
      const values = (logits as unknown as Record<number, Tensor>)[row]?.data as Float32Array;
      const kept = ids.map((id) => values[id] as number);
      values.fill(Number.NEGATIVE_INFINITY);
      ids.forEach((id, index) => {
        values[id] = kept[index] as number;
      });
    }
    return logits;
  };
  const found = (await open.model.generate({
    inputs: await featuresOf(open, window),
    decoder_input_ids: [decoder_start_token_id],
    max_new_tokens: 1,
    logits_processor: [onlyLanguages],
  })) as Tensor;
  const last = Number((found.tolist() as bigint[][])[0]?.at(-1));
  const token = Object.entries(lang_to_id).find(([, id]) => id === last)?.[0] ?? "<|en|>";
  return token.slice(2, -2);
}

async function hear(open: Open, window: Float32Array, ask: HearingAsk, stop: Int32Array) {
  const { model } = open;
  const { generation_config: config } = model;
  const start = [
    ...(ask.prompt.length > 0 && config.prev_sot_token_id !== undefined
      ? [config.prev_sot_token_id, ...ask.prompt]
      : []),
    config.decoder_start_token_id,
  ];
  if (ask.language !== undefined) {
    const language = config.lang_to_id?.[`<|${ask.language}|>`];
    const task = config.task_to_id?.[ask.translates ? "translate" : "transcribe"];
    if (language !== undefined) start.push(language);
    if (task !== undefined) start.push(task);
  }
  const found = await model.generate({
    inputs: await featuresOf(open, window),
    decoder_input_ids: start,
    return_timestamps: true,
    // Named, it also keeps the library from walking through the recording by itself.
    max_new_tokens: maxTokens - start.length,
    logits_processor: [stopper(stop)],
    ...(ask.temperature > 0 ? { do_sample: true, temperature: ask.temperature, top_k: 0 } : {}),
    ...(ask.wantsWords ? { return_token_timestamps: true, num_frames: Math.floor(window.length / 160 / 2) } : {}),
  });
  const sequence = found instanceof Tensor ? found : found.sequences;
  const times = found instanceof Tensor ? undefined : (found.token_timestamps?.tolist() as number[][] | undefined)?.[0];
  const all = ((sequence.tolist() as bigint[][])[0] ?? []).map(Number);
  const ends = new Set([config.eos_token_id].flat());
  const end = all.findIndex((id, index) => index >= start.length && ends.has(id));
  const until = end < 0 ? all.length : end;
  return { tokens: all.slice(start.length, until), starts: times && startsOf(times, start.length, until) };
}

/**
 * The library gives each token the time at which the model listened when that token was put in, which is when it computed
 * the next one (whisper/timing.py counts so): times belong to the token after. The first token is a timestamp.
 */
function startsOf(times: readonly number[], first: number, until: number): readonly number[] {
  return [0, ...times.slice(first, until - 1)].slice(0, until - first);
}

serveCalls(functions);
