// Piper voices (VITS): phonemes in, the sound of one speaker out, at the rate of its configuration.
import { LoadFailure } from "../../llama/load-failure.ts";
import { checkIo } from "../../onnx/check-io.ts";
import { graphOf, type Json, type ModelFolder } from "../../onnx/model-folder.ts";
import type { Graphs } from "../../onnx/open-graph.ts";
import { type PhonemeIds, phonemeTokens } from "./phoneme-tokens.ts";
import type { Phonemizer } from "./phonemes.ts";
import type { Synthesiser } from "./synthesiser.ts";

const pauseSeconds = 0.2;

/** The configuration lies beside the graph under its name, or is the folder's own. */
export async function piperConfig(folder: ModelFolder): Promise<Json | undefined> {
  if ("phoneme_id_map" in folder.config) return folder.config;
  if (folder.graphs.length !== 1 && folder.named === undefined) return undefined;
  const config = await folder.json(`${graphOf(folder)}.json`);
  return "phoneme_id_map" in config ? config : undefined;
}

/** Throws LoadFailure. */
export async function openPiper(
  folder: ModelFolder,
  config: Json,
  graphs: Graphs,
  phonemizer: Phonemizer,
): Promise<Synthesiser> {
  const graph = graphOf(folder);
  const rate = numberAt(config, "audio", "sample_rate");
  const espeak = textAt(config, "espeak", "voice");
  if (rate === undefined || espeak === undefined)
    throw new LoadFailure("voice not readable", `${graph}.json names no sample rate or no eSpeak voice`);
  const ids: PhonemeIds = new Map(Object.entries(config["phoneme_id_map"] as Record<string, number[]>));
  const [pad, begin, end] = ["_", "^", "$"].map((sign) => ids.get(sign) ?? []) as [number[], number[], number[]];
  const session = await graphs.open(folder, graph);
  const output = checkIo(graph, "speech", session, {
    known: [
      { name: "input", types: ["int64"], rank: 2 },
      { name: "input_lengths", types: ["int64"], rank: 1 },
      { name: "scales", types: ["float32"], rank: 1 },
      { name: "sid", types: ["int64"], rank: 1 },
    ],
    required: ["input", "input_lengths", "scales"],
    outputs: [{ name: "output", types: ["float32"], rank: 4 }],
  });
  const hasSpeakers = session.inputs.some(({ name }) => name === "sid");
  const noise = numberAt(config, "inference", "noise_scale") ?? 0.667;
  const length = numberAt(config, "inference", "length_scale") ?? 1;
  const noiseWidth = numberAt(config, "inference", "noise_w") ?? 0.8;
  const language = espeak.slice(0, 2).toLowerCase();
  const name = graph.replace(/^.*\//, "").replace(/\.onnx$/i, "");
  const run = async (tokens: readonly number[], speed: number) => {
    const data = BigInt64Array.from(tokens, BigInt);
    const outputs = await session.run({
      input: { type: "int64", data, dims: [1, data.length] },
      input_lengths: { type: "int64", data: BigInt64Array.of(BigInt(data.length)), dims: [1] },
      scales: { type: "float32", data: Float32Array.of(noise, length / speed, noiseWidth), dims: [3] },
      ...(hasSpeakers && { sid: { type: "int64", data: BigInt64Array.of(0n), dims: [1] } }),
    });
    const sound = outputs[output.name]?.data as Float32Array;
    const withPause = new Float32Array(sound.length + Math.round(rate * pauseSeconds));
    withPause.set(sound);
    return withPause;
  };
  return {
    rate,
    presets: [name],
    defaultVoice: name,
    languages: [language],
    canBlend: false,
    languageOf: () => language,
    speak(text, { speed }) {
      const tokens = phonemeTokens(phonemizer.phonemes(text, espeak).normalize("NFD"), ids);
      if (tokens.length === 0) return undefined;
      return run([...begin, ...pad, ...tokens.flatMap((one) => [...one, ...pad]), ...end], speed);
    },
  };
}

function numberAt(config: Json, part: string, field: string): number | undefined {
  const value = (config[part] as Json | undefined)?.[field];
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

function textAt(config: Json, part: string, field: string): string | undefined {
  const value = (config[part] as Json | undefined)?.[field];
  return typeof value === "string" && value.length >= 2 ? value : undefined;
}
