// Voices that models include: Kokoro-82M's many, and a Piper model's one. Listed here, so that a list never waits for a
// model to start.

import { isPiperVoice, onlyVoiceOf } from "../../proto/piper-voice.ts";

export interface PresetVoice {
  /** Also its id. */
  readonly name: string;
  readonly description: string;
}

/** Keyed by the prefix of the model's names, for language and sex. */
const families: Readonly<Record<string, readonly [what: string, names: string]>> = {
  af: ["American English, female", "alloy aoede bella heart jessica kore nicole nova river sarah sky"],
  am: ["American English, male", "adam echo eric fenrir liam michael onyx puck santa"],
  bf: ["British English, female", "alice emma isabella lily"],
  bm: ["British English, male", "daniel fable george lewis"],
  ef: ["Spanish, female", "dora"],
  em: ["Spanish, male", "alex santa"],
  ff: ["French, female", "siwis"],
  hf: ["Hindi, female", "alpha beta"],
  hm: ["Hindi, male", "omega psi"],
  if: ["Italian, female", "sara"],
  im: ["Italian, male", "nicola"],
  jf: ["Japanese, female", "alpha gongitsune nezumi tebukuro"],
  jm: ["Japanese, male", "kumo"],
  pf: ["Brazilian Portuguese, female", "dora"],
  pm: ["Brazilian Portuguese, male", "alex santa"],
  zf: ["Mandarin Chinese, female", "xiaobei xiaoni xiaoxiao xiaoyi"],
  zm: ["Mandarin Chinese, male", "yunjian yunxi yunxia yunyang"],
};

const kokoroVoices: readonly PresetVoice[] = Object.entries(families).flatMap(([prefix, [what, names]]) =>
  names.split(" ").map((name) => ({ name: `${prefix}_${name}`, description: `${what}, comes with Kokoro-82M` })),
);

const known = new Set(kokoroVoices.map(({ name }) => name));

/** Accounts cannot use these names. */
export const isPresetVoice = (name: string): boolean => known.has(name) || isPiperVoice(name);

/** Voices of models with these names, served by our runtime with Kokoro or Piper. */
export function presetVoicesOf(models: readonly string[]): readonly PresetVoice[] {
  const one = models.flatMap((model): readonly PresetVoice[] => {
    const name = onlyVoiceOf(model);
    return name === undefined
      ? []
      : [{ name, description: `${name.slice(0, name.indexOf("-"))}, comes with ${model}` }];
  });
  return models.every((model) => /piper/i.test(model)) ? one : [...one, ...kokoroVoices];
}
