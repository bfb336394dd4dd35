// Kokoro-82M: phonemes and a style in, 24 kHz out. Its styles are rows by the length of what is said; several presets'
// styles mixed are a voice of their own.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { LoadFailure } from "../../llama/load-failure.ts";
import { checkIo } from "../../onnx/check-io.ts";
import { graphOf, type ModelFolder } from "../../onnx/model-folder.ts";
import type { Graphs } from "../../onnx/open-graph.ts";
import { joined } from "../numbers.ts";
import { cutPhonemes, type PhonemeIds, phonemeTokens } from "./phoneme-tokens.ts";
import type { Phonemizer } from "./phonemes.ts";
import type { Synthesiser } from "./synthesiser.ts";
import type { Voice } from "./voice.ts";

const rate = 24_000;
const styleSize = 256;
const maxTokens = 510;

/** By the first letter of a preset's name; Chinese ones are missing, because eSpeak's phonemes do not contain its tones. */
const languages: Readonly<Record<string, readonly [code: string, espeak: string]>> = {
  a: ["en", "en-us"],
  b: ["en", "en"],
  e: ["es", "es"],
  f: ["fr", "fr"],
  h: ["hi", "hi"],
  i: ["it", "it"],
  j: ["ja", "ja"],
  p: ["pt", "pt-br"],
};

export async function isKokoro(folder: ModelFolder): Promise<boolean> {
  if (folder.config["model_type"] === "style_text_to_speech_2") return true;
  return (await voiceNames(folder)).length > 0;
}

/** Throws LoadFailure. */
export async function openKokoro(folder: ModelFolder, graphs: Graphs, phonemizer: Phonemizer): Promise<Synthesiser> {
  const names = await voiceNames(folder);
  if (names.length === 0) throw new LoadFailure("no voices", `${folder.root} holds no voices/*.bin`);
  const styles = new Map<string, Float32Array>();
  for (const name of names) styles.set(name, await readStyle(folder.path(`voices/${name}.bin`)));
  const ids = await readIds(folder);
  const graph = graphOf(folder);
  const session = await graphs.open(folder, graph);
  const tokensName = session.inputs.some(({ name }) => name === "tokens") ? "tokens" : "input_ids";
  const output = checkIo(graph, "speech", session, {
    known: [
      { name: tokensName, types: ["int64"], rank: 2 },
      { name: "style", types: ["float32"], rank: 2 },
      { name: "speed", types: ["float32"], rank: 1 },
    ],
    required: [tokensName, "style", "speed"],
    outputs: [
      { name: "audio", types: ["float32"], rank: 1 },
      { name: "waveform", types: ["float32"], rank: 2 },
    ],
  });
  const run = async (tokens: readonly number[], voice: Voice, speed: number) => {
    const style = styleOf(voice, styles, tokens.length);
    const padded = BigInt64Array.from([0, ...tokens, 0], BigInt);
    const outputs = await session.run({
      [tokensName]: { type: "int64", data: padded, dims: [1, padded.length] },
      style: { type: "float32", data: style, dims: [1, styleSize] },
      speed: { type: "float32", data: Float32Array.of(speed), dims: [1] },
    });
    return outputs[output.name]?.data as Float32Array;
  };
  const codes = [...new Set(Object.values(languages).map(([code]) => code))];
  const languageOf = (voice: Voice) => languages[heaviest(voice).charAt(0)]?.[0] ?? "en";
  return {
    rate,
    presets: names,
    defaultVoice: names.includes("af_heart") ? "af_heart" : (names[0] as string),
    languages: codes,
    canBlend: true,
    languageOf,
    speak(text, { voice, language, speed }) {
      const known = Object.values(languages).filter(([code]) => code === language);
      const own = languages[heaviest(voice).charAt(0)];
      const espeak = own?.[0] === language ? own[1] : known[0]?.[1];
      if (espeak === undefined) throw new RangeError(`no phonemes for ${language}`);
      const parts = cutPhonemes(phonemizer.phonemes(text, espeak), maxTokens)
        .map((part) => phonemeTokens(part, ids).flat())
        .filter((tokens) => tokens.length > 0);
      if (parts.length === 0) return undefined;
      return inTurn(parts, (tokens) => run(tokens, voice, speed));
    },
  };
}

async function inTurn<Part>(parts: readonly Part[], run: (part: Part) => Promise<Float32Array>): Promise<Float32Array> {
  const sounds: Float32Array[] = [];
  for (const part of parts) sounds.push(await run(part));
  return joined(sounds);
}

function heaviest(voice: Voice): string {
  return voice.reduce((best, part) => (part.weight > best.weight ? part : best)).preset;
}

function styleOf(voice: Voice, styles: ReadonlyMap<string, Float32Array>, tokens: number): Float32Array {
  const mixed = new Float32Array(styleSize);
  for (const { preset, weight } of voice) {
    const rows = styles.get(preset) as Float32Array;
    const row = Math.min(tokens, rows.length / styleSize - 1);
    for (let i = 0; i < styleSize; i += 1)
      mixed[i] = (mixed[i] as number) + weight * (rows[row * styleSize + i] as number);
  }
  return mixed;
}

async function voiceNames(folder: ModelFolder): Promise<readonly string[]> {
  const files = await readdir(folder.path("voices")).catch(() => []);
  return files
    .filter((file) => /^[\w-]+\.bin$/.test(file))
    .map((file) => file.slice(0, -4))
    .sort();
}

/** Contains only numbers, little-endian; nothing in the file is run. */
async function readStyle(path: string): Promise<Float32Array> {
  const bytes = await readFile(path);
  if (bytes.length === 0 || bytes.length % (styleSize * 4) !== 0)
    throw new LoadFailure("voice not readable", `${path} holds no rows of ${styleSize} numbers`);
  return new Float32Array(new Uint8Array(bytes).buffer);
}

/** `vocab` of config.json, or the vocabulary of tokenizer.json. */
async function readIds(folder: ModelFolder): Promise<PhonemeIds> {
  const tokenizer = await folder.json("tokenizer.json");
  const table = folder.config["vocab"] ?? (tokenizer["model"] as { vocab?: unknown } | undefined)?.vocab;
  if (typeof table !== "object" || table === null)
    throw new LoadFailure(
      "no phoneme table",
      `${join(folder.root, "config.json")} has no vocab, and there is no tokenizer.json`,
    );
  return new Map(Object.entries(table as Record<string, number>).map(([sign, id]) => [sign, [id]]));
}
